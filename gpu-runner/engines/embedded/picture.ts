/** Colour channels between nodes: always red, green, blue. */
export const CHANNELS = 3;

/** One picture of a batch: rows from the top, pixels from the left, three floats each, 0..1 unless a node overshot. */
export type Frame = Float32Array<ArrayBuffer>;

export interface FrameSize {
  readonly width: number;
  readonly height: number;
}

/** A batch of pictures of one size, as ComfyUI's IMAGE. Its frames are never written again once a node has returned it. */
export interface Picture extends FrameSize {
  readonly frames: readonly Frame[];
}

export function pixelsOf({ width, height, frames }: Picture): number {
  return width * height * frames.length;
}

/** What ComfyUI writes for a float: times 255 in single precision, clamped, the fraction cut off and not rounded. */
export function toByte(value: number): number {
  const scaled = Math.fround(value * 255);
  return scaled >= 255 ? 255 : scaled > 0 ? Math.trunc(scaled) : 0;
}

/** The bytes of a frame, as ComfyUI would save them. */
export function toBytes(frame: Frame): Uint8Array {
  const bytes = new Uint8Array(frame.length);
  for (let i = 0; i < frame.length; i++) bytes[i] = toByte(frame[i] ?? 0);
  return bytes;
}

/** The single precision float of every byte. */
export const FLOAT_OF_BYTE: Float32Array = Float32Array.from({ length: 256 }, (_, byte) => byte / 255);
