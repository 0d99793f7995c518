import { CHANNELS, type Frame, type FrameSize } from "../picture.ts";
import type { Region } from "./region.ts";
import type { Taps } from "./taps.ts";

const f = Math.fround;

function resampleRow(source: Frame, start: number, taps: Taps, row: Float32Array): void {
  const { count, index, weight } = taps;
  const width = row.length / CHANNELS;
  for (let i = 0; i < width; i++) {
    for (let c = 0; c < CHANNELS; c++) {
      let sum = 0;
      for (let k = i * count; k < (i + 1) * count; k++) {
        const value = source[start + (index[k] ?? 0) * CHANNELS + c] ?? 0;
        sum = f(sum + value * (weight[k] ?? 0));
      }
      row[i * CHANNELS + c] = sum;
    }
  }
}

/**
 * Writes `region` of `source`, resized, into `target`. Rows are resampled across first and then combined downwards, each row
 * only once: beside the two frames it needs no more than `down.count` rows.
 */
export function resample(
  source: Frame,
  sourceWidth: number,
  region: Region,
  target: Frame,
  size: FrameSize,
  { across, down }: { readonly across: Taps; readonly down: Taps },
): void {
  const length = size.width * CHANNELS;
  const rows = Array.from({ length: down.count }, () => ({ y: -1, values: new Float32Array(length) }));
  const rowOf = (y: number): Float32Array => {
    const row = rows[y % down.count];
    if (!row) throw new Error("The source row is outside the picture.");
    if (row.y !== y) {
      row.y = y;
      resampleRow(source, ((region.y + y) * sourceWidth + region.x) * CHANNELS, across, row.values);
    }
    return row.values;
  };
  for (let y = 0; y < size.height; y++) {
    const out = target.subarray(y * length, (y + 1) * length);
    for (let k = y * down.count; k < (y + 1) * down.count; k++) {
      const row = rowOf(down.index[k] ?? 0);
      const weight = down.weight[k] ?? 0;
      for (let i = 0; i < length; i++) out[i] = (out[i] ?? 0) + (row[i] ?? 0) * weight;
    }
  }
}
