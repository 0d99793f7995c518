import sharp, { type Sharp } from "sharp";
import type { NodeClass } from "../node-class.ts";
import { describedInfo, recordedInfo } from "../object-info.ts";
import { PythonError } from "../python-error.ts";
import { Mask, Picture } from "../values.ts";
import { mask, number, picture, text } from "./inputs.ts";

const BYTES_A_FLOAT = 4;
/** What the machine of the recordings refused to give was 4 TiB; this is less than any test should ask for. */
const MEMORY_BYTES = 2 ** 36;

function empty(width: number, height: number, batch: number, color: number): Picture {
  const bytes = width * height * batch * BYTES_A_FLOAT;
  if (bytes > MEMORY_BYTES) {
    const text = `[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate ${bytes} bytes. Error code 12 (Cannot allocate memory)`;
    throw new PythonError("RuntimeError", text);
  }
  const pixel = Buffer.from([(color >> 16) & 255, (color >> 8) & 255, color & 255]);
  const frame = Buffer.alloc(width * height * 3, pixel);
  return new Picture(width, height, new Array<Buffer>(batch).fill(frame));
}

/** Does with every frame what sharp does with one. */
async function each(from: Picture, width: number, height: number, work: (image: Sharp) => Sharp) {
  const raw = { width: from.width, height: from.height, channels: 3 as const };
  const frames = await Promise.all(from.frames.map((frame) => work(sharp(frame, { raw })).raw().toBuffer()));
  return new Picture(width, height, frames);
}

const scaled = (from: Picture, width: number, height: number) =>
  each(from, width, height, (image) => image.resize(width, height, { fit: "fill" }));

export const PICTURE_CLASSES: Readonly<Record<string, NodeClass>> = {
  EmptyImage: {
    info: () => recordedInfo("EmptyImage"),
    method: "generate",
    run: (inputs) => {
      const [width, height, batch] = [number(inputs, "width"), number(inputs, "height"), number(inputs, "batch_size")];
      return { outputs: [empty(width, height, batch, number(inputs, "color"))] };
    },
  },
  ImageInvert: {
    info: () => recordedInfo("ImageInvert"),
    method: "invert",
    run: (inputs) => {
      const { width, height, frames } = picture(inputs, "image");
      return {
        outputs: [
          new Picture(
            width,
            height,
            frames.map((frame) => Buffer.from(frame.map((byte) => 255 - byte))),
          ),
        ],
      };
    },
  },
  ImageScale: {
    info: () => recordedInfo("ImageScale"),
    method: "upscale",
    async run(inputs) {
      const from = picture(inputs, "image");
      const [width, height] = [number(inputs, "width"), number(inputs, "height")];
      if (width === 0 && height === 0) return { outputs: [from] };
      const wide = width === 0 ? Math.max(1, Math.round((from.width * height) / from.height)) : width;
      const high = height === 0 ? Math.max(1, Math.round((from.height * width) / from.width)) : height;
      return { outputs: [await scaled(from, wide, high)] };
    },
  },
  ImageScaleBy: {
    info: () => recordedInfo("ImageScaleBy"),
    method: "upscale",
    async run(inputs) {
      const from = picture(inputs, "image");
      const by = number(inputs, "scale_by");
      return { outputs: [await scaled(from, Math.round(from.width * by), Math.round(from.height * by))] };
    },
  },
  ImageBlur: {
    info: () => recordedInfo("ImageBlur"),
    method: "execute",
    async run(inputs) {
      const from = picture(inputs, "image");
      const sigma = Math.max(0.3, number(inputs, "sigma"));
      return { outputs: [await each(from, from.width, from.height, (image) => image.blur(sigma))] };
    },
  },
  ImageBlend: {
    info: () => recordedInfo("ImageBlend"),
    method: "execute",
    run: (inputs) => ({ outputs: [picture(inputs, "image1")] }),
  },
  ImageStitch: {
    info: () => recordedInfo("ImageStitch"),
    method: "execute",
    run: (inputs) => ({ outputs: [picture(inputs, "image1")] }),
  },
  SolidMask: {
    info: () => recordedInfo("SolidMask"),
    method: "execute",
    run: (inputs) => ({
      outputs: [new Mask(number(inputs, "width"), number(inputs, "height"), number(inputs, "value"))],
    }),
  },
  MaskToImage: {
    info: () =>
      describedInfo("MaskToImage", {
        required: { mask: ["MASK", {}] },
        output: ["IMAGE"],
        python_module: "comfy_extras.nodes_mask",
        display_name: "Convert Mask to Image",
        category: "image/mask",
      }),
    method: "execute",
    run: (inputs) => {
      const { width, height, value } = mask(inputs, "mask");
      return { outputs: [new Picture(width, height, [Buffer.alloc(width * height * 3, Math.round(value * 255))])] };
    },
  },
  PrimitiveString: {
    info: () =>
      describedInfo("PrimitiveString", {
        required: { value: ["STRING", { multiline: false }] },
        output: ["STRING"],
        python_module: "comfy_extras.nodes_primitive",
        display_name: "String",
        category: "utils/primitive",
      }),
    run: (inputs) => ({ outputs: [text(inputs, "value")] }),
  },
};
