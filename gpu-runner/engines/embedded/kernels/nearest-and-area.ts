import { CHANNELS, type Frame, type FrameSize } from "../picture.ts";
import type { Region } from "./region.ts";

const f = Math.fround;

function nearestIndex(from: number, to: number): Int32Array {
  const scale = f(from / to);
  return Int32Array.from({ length: to }, (_, i) => Math.min(Math.floor(f(f(i + 0.5) * scale)), from - 1));
}

/** Copies the source pixel under each output pixel's centre (`nearest-exact`). */
export function nearest(source: Frame, sourceWidth: number, region: Region, target: Frame, size: FrameSize): void {
  const columns = nearestIndex(region.width, size.width);
  const rows = nearestIndex(region.height, size.height);
  let out = 0;
  for (const y of rows) {
    const start = ((region.y + y) * sourceWidth + region.x) * CHANNELS;
    for (const x of columns) {
      for (let c = 0; c < CHANNELS; c++) target[out++] = source[start + x * CHANNELS + c] ?? 0;
    }
  }
}

/** The mean of all source pixels that an output pixel touches, each counted whole (`area`; an adaptive average pool). */
export function area(source: Frame, sourceWidth: number, region: Region, target: Frame, size: FrameSize): void {
  let out = 0;
  for (let y = 0; y < size.height; y++) {
    const top = Math.floor((y * region.height) / size.height);
    const bottom = Math.ceil(((y + 1) * region.height) / size.height);
    for (let x = 0; x < size.width; x++) {
      const left = Math.floor((x * region.width) / size.width);
      const right = Math.ceil(((x + 1) * region.width) / size.width);
      for (let c = 0; c < CHANNELS; c++) {
        let sum = 0;
        for (let sy = top; sy < bottom; sy++) {
          const start = ((region.y + sy) * sourceWidth + region.x) * CHANNELS + c;
          for (let sx = left; sx < right; sx++) sum = f(sum + (source[start + sx * CHANNELS] ?? 0));
        }
        target[out++] = f(f(sum / (bottom - top)) / (right - left));
      }
    }
  }
}
