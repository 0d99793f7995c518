import { writeFileSync } from "node:fs";
import sharp from "sharp";
import type { FolderType } from "../folders.ts";
import type { NodeClass, NodeContext } from "../node-class.ts";
import { describedInfo, type InputSpec, recordedInfo } from "../object-info.ts";
import { numbered, outputName, pathIn } from "../output-names.ts";
import { withText } from "../png-text.ts";
import { PythonError } from "../python-error.ts";
import { dumps, isObject, type JsonObject } from "../python-json.ts";
import { format, type Picture } from "../values.ts";
import { picture, text } from "./inputs.ts";

const HIDDEN = { prompt: "PROMPT", extra_pnginfo: "EXTRA_PNGINFO" };
const IMAGES: InputSpec = ["IMAGE", {}];
const prefix = (initial: string): InputSpec => ["STRING", { default: initial, multiline: false }];

const png = (frame: Buffer, { width, height }: Picture): Promise<Buffer> =>
  sharp(frame, { raw: { width, height, channels: 3 } })
    .png({ compressionLevel: 4 })
    .toBuffer();

/** The chunks that a saved PNG carries: the prompt, and each key of `extra_pnginfo`. */
function texts({ prompt, extra_pnginfo }: NodeContext): Record<string, string> {
  const chunks: Record<string, string> = { prompt: dumps(prompt) };
  if (extra_pnginfo === null) return chunks;
  if (!isObject(extra_pnginfo)) throw new PythonError("TypeError", "string indices must be integers, not 'str'");
  for (const [key, value] of Object.entries(extra_pnginfo)) chunks[key] = dumps(value);
  return chunks;
}

async function savePictures(images: Picture, type: FolderType, initial: string, context: NodeContext) {
  const at = outputName(context.folders, type, initial, images.width, images.height);
  const chunks = texts(context);
  const files: JsonObject[] = [];
  for (const [index, frame] of images.frames.entries()) {
    const name = numbered(at.name.replaceAll("%batch_num%", String(index)), at.counter + index, "png");
    writeFileSync(pathIn(at, name), withText(await png(frame, images), chunks));
    files.push({ filename: name, subfolder: at.subfolder, type });
  }
  return files;
}

/** Writes one file of made-up content, as far as its first bytes, and says where. */
function saveOther(context: NodeContext, initial: string, extension: string, content: Buffer): JsonObject {
  const at = outputName(context.folders, "output", initial);
  const filename = numbered(at.name, at.counter, extension);
  writeFileSync(pathIn(at, filename), content);
  return { filename, subfolder: at.subfolder, type: "output" };
}

const MP4 = Buffer.from("0000001866747970697336380000000069736f6d69736f32", "hex");

function animated(name: "SaveAnimatedWEBP" | "SaveAnimatedPNG", extension: "webp" | "png"): NodeClass {
  return {
    info: () =>
      extension === "webp"
        ? recordedInfo(name)
        : describedInfo(name, {
            required: {
              images: IMAGES,
              filename_prefix: prefix("ComfyUI"),
              fps: ["FLOAT", { default: 6, min: 0.01, max: 1000, step: 0.01 }],
              compress_level: ["INT", { advanced: true, default: 4, min: 0, max: 9 }],
            },
            hidden: HIDDEN,
            output: ["IMAGE"],
            python_module: "comfy_extras.nodes_images",
            category: "image/animation",
            output_node: true,
          }),
    method: "execute",
    async run(inputs, context) {
      const images = picture(inputs, "images");
      const frame = images.frames[0] ?? Buffer.alloc(0);
      const { width, height } = images;
      const image = sharp(frame, { raw: { width, height, channels: 3 } });
      const content = extension === "webp" ? await image.webp({ lossless: true }).toBuffer() : await png(frame, images);
      return {
        ui: { images: [saveOther(context, text(inputs, "filename_prefix"), extension, content)], animated: [true] },
      };
    },
  };
}

export const SAVING_CLASSES: Readonly<Record<string, NodeClass>> = {
  SaveImage: {
    info: () => recordedInfo("SaveImage"),
    method: "save_images",
    async run(inputs, context) {
      const images = picture(inputs, "images");
      return {
        outputs: [images],
        ui: { images: await savePictures(images, "output", text(inputs, "filename_prefix"), context) },
      };
    },
  },
  PreviewImage: {
    info: () => recordedInfo("PreviewImage"),
    method: "save_images",
    async run(inputs, context) {
      const images = picture(inputs, "images");
      return {
        outputs: [images],
        ui: { images: await savePictures(images, "temp", `ComfyUI_temp_${context.objectName}`, context) },
      };
    },
  },
  SaveAnimatedWEBP: animated("SaveAnimatedWEBP", "webp"),
  SaveAnimatedPNG: animated("SaveAnimatedPNG", "png"),
  SaveImageWebsocket: {
    info: () =>
      describedInfo("SaveImageWebsocket", {
        required: { images: ["IMAGE"] },
        python_module: "custom_nodes.websocket_image_save",
        category: "api/image",
        output_node: true,
      }),
    method: "save_images",
    async run(inputs, context) {
      const images = picture(inputs, "images");
      for (const [index, frame] of images.frames.entries()) {
        context.step(index, images.frames.length, { image: await png(frame, images), format: "png" });
      }
      return { ui: {} };
    },
  },
  PreviewAny: {
    info: () =>
      describedInfo("PreviewAny", {
        required: { source: ["*", {}] },
        output: ["STRING"],
        python_module: "comfy_extras.nodes_preview_any",
        display_name: "Preview as Text",
        category: "utils",
        output_node: true,
      }),
    method: "main",
    run: (inputs) => {
      const value = format(inputs.source ?? null);
      const shown = typeof value === "string" ? value : dumps(value);
      return { outputs: [shown], ui: { text: [shown] } };
    },
  },
  SaveAudio: {
    info: () =>
      describedInfo("SaveAudio", {
        required: { audio: ["AUDIO", {}], filename_prefix: prefix("audio/ComfyUI") },
        hidden: HIDDEN,
        python_module: "comfy_extras.nodes_audio",
        display_name: "Save Audio (FLAC)",
        category: "audio",
        output_node: true,
      }),
    method: "execute",
    run: (inputs, context) => ({
      ui: { audio: [saveOther(context, text(inputs, "filename_prefix"), "flac", Buffer.from("fLaC"))] },
    }),
  },
  SaveVideo: {
    info: () =>
      describedInfo("SaveVideo", {
        required: {
          video: ["VIDEO", {}],
          filename_prefix: prefix("video/ComfyUI"),
          format: ["COMBO", { default: "auto", multiselect: false, options: ["auto", "mp4"] }],
          codec: ["COMBO", { default: "auto", multiselect: false, options: ["auto", "h264"] }],
        },
        hidden: HIDDEN,
        python_module: "comfy_extras.nodes_video",
        display_name: "Save Video",
        category: "image/video",
        output_node: true,
      }),
    method: "execute",
    run: (inputs, context) => ({
      ui: { images: [saveOther(context, text(inputs, "filename_prefix"), "mp4", MP4)], animated: [true] },
    }),
  },
  SaveLatent: {
    info: () =>
      describedInfo("SaveLatent", {
        required: { samples: ["LATENT"], filename_prefix: ["STRING", { default: "latents/ComfyUI" }] },
        hidden: HIDDEN,
        python_module: "nodes",
        category: "_for_testing",
        output_node: true,
      }),
    method: "save",
    run: (inputs, context) => ({
      ui: { latents: [saveOther(context, text(inputs, "filename_prefix"), "latent", Buffer.from("{}"))] },
    }),
  },
  VHS_VideoCombine: {
    info: () =>
      describedInfo("VHS_VideoCombine", {
        required: {
          images: ["IMAGE"],
          frame_rate: ["FLOAT", { default: 8, min: 1, step: 1 }],
          filename_prefix: ["STRING", { default: "AnimateDiff" }],
          format: [["image/gif", "video/h264-mp4"]],
          save_output: ["BOOLEAN", { default: true }],
        },
        hidden: HIDDEN,
        output: ["VHS_FILENAMES"],
        python_module: "custom_nodes.videohelper",
        display_name: "Video Combine",
        category: "Video Helper Suite",
        output_node: true,
      }),
    method: "combine_video",
    run: (inputs, { folders }) => {
      const type = inputs.save_output === false ? "temp" : "output";
      const at = outputName(folders, type, text(inputs, "filename_prefix"));
      const extension = inputs.format === "image/gif" ? "gif" : "mp4";
      const filename = `${at.name}_${String(at.counter).padStart(5, "0")}.${extension}`;
      const path = pathIn(at, filename);
      writeFileSync(path, extension === "gif" ? Buffer.from("GIF89a") : MP4);
      const made = {
        filename,
        subfolder: at.subfolder,
        type,
        format: inputs.format as string,
        frame_rate: Number(inputs.frame_rate),
        fullpath: path,
      };
      return { outputs: [[true, [path]]], ui: { gifs: [made] } };
    },
  },
};
