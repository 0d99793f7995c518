import type { NodeClass } from "../node-class.ts";
import { describedInfo, type ObjectInfo, recordedInfo } from "../object-info.ts";
import { Opaque, Picture } from "../values.ts";
import { number } from "./inputs.ts";

/** The file names that loaders list: by class, then by input. */
export type Models = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

const DECODED_SIZE = 64;

function loader(info: () => ObjectInfo, method: string): NodeClass {
  return { info, method, run: () => ({ outputs: info().output.map((kind) => new Opaque(kind)) }) };
}

function listing(info: ObjectInfo, names: Readonly<Record<string, readonly string[]>> | undefined): ObjectInfo {
  const required = { ...info.input.required };
  for (const [input, files] of Object.entries(names ?? {})) required[input] = [[...files], required[input]?.[1] ?? {}];
  return { ...info, input: { ...info.input, required } };
}

/** Classes that pass models, prompts and latents around without doing anything. */
export function modelClasses(models: Models): Readonly<Record<string, NodeClass>> {
  const nodes = { python_module: "nodes", category: "model/loaders" };
  const infos: Record<string, [info: ObjectInfo, method: string]> = {
    CheckpointLoaderSimple: [recordedInfo("CheckpointLoaderSimple"), "load_checkpoint"],
    LoraLoader: [
      describedInfo("LoraLoader", {
        ...nodes,
        required: {
          model: ["MODEL"],
          clip: ["CLIP"],
          lora_name: [[], {}],
          strength_model: ["FLOAT", { default: 1, min: -100, max: 100, step: 0.01 }],
          strength_clip: ["FLOAT", { default: 1, min: -100, max: 100, step: 0.01 }],
        },
        output: ["MODEL", "CLIP"],
      }),
      "load_lora",
    ],
    VAELoader: [describedInfo("VAELoader", { ...nodes, required: { vae_name: [[]] }, output: ["VAE"] }), "load_vae"],
    UNETLoader: [
      describedInfo("UNETLoader", {
        ...nodes,
        required: { unet_name: [[]], weight_dtype: [["default", "fp8_e4m3fn"]] },
        output: ["MODEL"],
      }),
      "load_unet",
    ],
    ControlNetLoader: [
      describedInfo("ControlNetLoader", { ...nodes, required: { control_net_name: [[]] }, output: ["CONTROL_NET"] }),
      "load_controlnet",
    ],
    CLIPTextEncode: [
      describedInfo("CLIPTextEncode", {
        ...nodes,
        required: { text: ["STRING", { multiline: true, dynamicPrompts: true }], clip: ["CLIP"] },
        output: ["CONDITIONING"],
        category: "conditioning",
      }),
      "encode",
    ],
    EmptyLatentImage: [
      describedInfo("EmptyLatentImage", {
        ...nodes,
        required: {
          width: ["INT", { default: 512, min: 16, max: 16384, step: 8 }],
          height: ["INT", { default: 512, min: 16, max: 16384, step: 8 }],
          batch_size: ["INT", { default: 1, min: 1, max: 4096 }],
        },
        output: ["LATENT"],
        category: "latent",
      }),
      "generate",
    ],
    EmptyAudio: [
      describedInfo("EmptyAudio", {
        required: {
          duration: ["FLOAT", { default: 60, min: 0, max: 1e15, step: 0.01 }],
          sample_rate: ["INT", { default: 44100, min: 1, max: 192000 }],
          channels: ["INT", { default: 2, min: 1, max: 2 }],
        },
        output: ["AUDIO"],
        python_module: "comfy_extras.nodes_audio",
        category: "audio",
      }),
      "execute",
    ],
    CreateVideo: [
      describedInfo("CreateVideo", {
        required: { images: ["IMAGE", {}], fps: ["FLOAT", { default: 30, min: 1, max: 120, step: 1 }] },
        optional: { audio: ["AUDIO", {}] },
        output: ["VIDEO"],
        python_module: "comfy_extras.nodes_video",
        category: "image/video",
      }),
      "execute",
    ],
  };
  const classes: Record<string, NodeClass> = {
    KSampler: {
      info: () => recordedInfo("KSampler"),
      method: "sample",
      run: (inputs, context) => {
        const steps = number(inputs, "steps");
        for (let step = 1; step <= steps; step++) context.step(step, steps);
        return { outputs: [new Opaque("LATENT")] };
      },
    },
    VAEDecode: {
      info: () =>
        describedInfo("VAEDecode", {
          ...nodes,
          required: { samples: ["LATENT", {}], vae: ["VAE", {}] },
          output: ["IMAGE"],
          category: "latent",
        }),
      method: "decode",
      run: () => {
        const frame = Buffer.alloc(DECODED_SIZE * DECODED_SIZE * 3, 127);
        return { outputs: [new Picture(DECODED_SIZE, DECODED_SIZE, [frame])] };
      },
    },
  };
  for (const [name, [info, method]] of Object.entries(infos)) {
    // The files are listed at each question, as they are then.
    classes[name] = loader(() => listing(info, models[name]), method);
  }
  return classes;
}
