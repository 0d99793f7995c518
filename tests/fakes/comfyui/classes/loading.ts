import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import sharp from "sharp";
import { annotation, type Folders } from "../folders.ts";
import type { NodeClass } from "../node-class.ts";
import { describedInfo, recordedInfo } from "../object-info.ts";
import { PythonError } from "../python-error.ts";
import type { Json } from "../python-json.ts";
import { Mask, Opaque, Picture } from "../values.ts";
import { text } from "./inputs.ts";

const IMAGE_NAMES = /\.(?:png|jpe?g|webp|gif|bmp|tiff?)$/i;
const SOUND_NAMES = /\.(?:wav|mp3|flac|ogg|opus|m4a|aac|mp4|webm)$/i;

function pathOf(folders: Folders, name: string): string {
  const { name: plain, type = "input" } = annotation(name);
  return folders.annotated(name) ?? resolve(folders.of(type), plain);
}

function content(folders: Folders, name: string): Buffer {
  const path = pathOf(folders, name);
  if (existsSync(path)) return readFileSync(path);
  throw new PythonError("FileNotFoundError", `[Errno 2] No such file or directory: '${path}'`);
}

const fingerprint = (name: Json | undefined, folders: Folders): string =>
  createHash("sha256")
    .update(content(folders, String(name)))
    .digest("hex");

const exists = (what: string) => (value: Json, folders: Folders) =>
  folders.annotated(String(value)) === undefined ? `Invalid ${what} file: ${String(value)}` : undefined;

async function load(folders: Folders, name: string): Promise<[Picture, Mask]> {
  const bytes = content(folders, name);
  const { data, info } = await sharp(bytes)
    .removeAlpha()
    .toColourspace("srgb")
    .raw()
    .toBuffer({ resolveWithObject: true })
    .catch(() => {
      throw new PythonError("PIL.UnidentifiedImageError", `cannot identify image file '${pathOf(folders, name)}'`);
    });
  return [new Picture(info.width, info.height, [data]), new Mask(64, 64, 0)];
}

const imageNames = (folders: Folders): string[] => folders.names("input").filter((name) => IMAGE_NAMES.test(name));

export const LOADING_CLASSES: Readonly<Record<string, NodeClass>> = {
  LoadImage: {
    info: (folders) => {
      const info = recordedInfo("LoadImage");
      return { ...info, input: { required: { image: [imageNames(folders), { image_upload: true }] } } };
    },
    method: "load_image",
    checks: { image: exists("image") },
    fingerprint: (inputs, folders) => fingerprint(inputs.image, folders),
    async run(inputs, { folders }) {
      return { outputs: await load(folders, text(inputs, "image")) };
    },
  },
  LoadImageMask: {
    info: (folders) =>
      describedInfo("LoadImageMask", {
        required: {
          image: [imageNames(folders), { image_upload: true }],
          channel: [["alpha", "red", "green", "blue"]],
        },
        output: ["MASK"],
        python_module: "nodes",
        display_name: "Load Image (as Mask)",
        category: "mask",
      }),
    method: "load_image",
    checks: { image: exists("image") },
    fingerprint: (inputs, folders) => fingerprint(inputs.image, folders),
    async run(inputs, { folders }) {
      const [{ width, height }] = await load(folders, text(inputs, "image"));
      return { outputs: [new Mask(width, height, 0)] };
    },
  },
  LoadImageOutput: {
    info: () =>
      describedInfo("LoadImageOutput", {
        required: {
          image: [
            "COMBO",
            {
              image_upload: true,
              image_folder: "output",
              remote: { route: "/internal/files/output", refresh_button: true, control_after_refresh: "first" },
            },
          ],
        },
        output: ["IMAGE", "MASK"],
        python_module: "nodes",
        display_name: "Load Image (from Outputs)",
        category: "image",
      }),
    method: "load_image",
    checks: { image: exists("image") },
    fingerprint: (inputs, folders) => fingerprint(inputs.image, folders),
    async run(inputs, { folders }) {
      return { outputs: await load(folders, text(inputs, "image")) };
    },
  },
  LoadAudio: {
    info: (folders) =>
      describedInfo("LoadAudio", {
        required: {
          audio: [
            "COMBO",
            {
              multiselect: false,
              options: folders.names("input").filter((name) => SOUND_NAMES.test(name)),
              audio_upload: true,
            },
          ],
        },
        output: ["AUDIO"],
        python_module: "comfy_extras.nodes_audio",
        display_name: "Load Audio",
        category: "audio",
      }),
    method: "execute",
    checks: { audio: exists("audio") },
    fingerprint: (inputs, folders) => fingerprint(inputs.audio, folders),
    run: (inputs, { folders }) => {
      content(folders, text(inputs, "audio"));
      return { outputs: [new Opaque("AUDIO")] };
    },
  },
};
