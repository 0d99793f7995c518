import { CHANNELS, FLOAT_OF_BYTE, type FrameSize, type Picture } from "./picture.ts";
import type { PixelBudget } from "./pixel-budget.ts";
import { sharp } from "./sharp-in-child.ts";

interface Header extends FrameSize {
  /** 1 unless the file is an animation. */
  readonly frames: number;
}

/** Formats of which every picture is loaded, as a batch. */
const ANIMATED = new Set(["gif", "webp"]);

async function readHeader(bytes: Uint8Array): Promise<Header | undefined> {
  try {
    const meta = await sharp(bytes, { limitInputPixels: false }).metadata();
    const { width, height } = meta.autoOrient;
    const frames = ANIMATED.has(meta.format) ? (meta.pages ?? 1) : 1;
    return { width, height, frames };
  } catch {
    return undefined;
  }
}

async function readPixels(bytes: Uint8Array, { frames }: Header): Promise<Uint8Array | undefined> {
  try {
    // Colour profiles are not applied and transparency is dropped without mixing, as ComfyUI does.
    const image = sharp(bytes, { limitInputPixels: false, ignoreIcc: true, autoOrient: true, pages: frames });
    return await image.toColourspace("srgb").removeAlpha().raw().toBuffer();
  } catch {
    return undefined;
  }
}

/** Decodes a picture file into a batch; undefined when it is none. The header decides whether it fits before any pixel is read. */
export async function decodePicture(bytes: Uint8Array, budget: PixelBudget): Promise<Picture | undefined> {
  const header = await readHeader(bytes);
  if (!header) return undefined;
  const picture = budget.allocate(header, header.frames);
  const pixels = await readPixels(bytes, header);
  if (pixels?.length !== header.width * header.height * header.frames * CHANNELS) {
    budget.release(picture);
    return undefined;
  }
  let at = 0;
  for (const frame of picture.frames) {
    for (let i = 0; i < frame.length; i++) frame[i] = FLOAT_OF_BYTE[pixels[at++] ?? 0] ?? 0;
  }
  return picture;
}
