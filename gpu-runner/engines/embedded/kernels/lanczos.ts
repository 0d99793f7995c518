import { CHANNELS, FLOAT_OF_BYTE, type Frame, type FrameSize, toByte } from "../picture.ts";
import type { Region } from "./region.ts";

/** Weights are whole numbers of 1 / 2^22, as in Pillow's 8 bit path. */
const PRECISION_BITS = 22;
const ONE = 2 ** PRECISION_BITS;
const LOBES = 3;

/** The taps of one axis: output i reads `count[i]` positions from `first[i]`, weights from `i * stride`. */
interface Windows {
  readonly stride: number;
  readonly first: Int32Array;
  readonly count: Int32Array;
  readonly weight: Int32Array;
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(x * Math.PI) / (x * Math.PI));
const curve = (x: number): number => (x >= -LOBES && x < LOBES ? sinc(x) * sinc(x / LOBES) : 0);

function windowsOf(from: number, to: number): Windows {
  const scale = from / to;
  const widening = Math.max(scale, 1);
  const support = LOBES * widening;
  const stride = Math.ceil(support) * 2 + 1;
  const windows: Windows = {
    stride,
    first: new Int32Array(to),
    count: new Int32Array(to),
    weight: new Int32Array(to * stride),
  };
  for (let i = 0; i < to; i++) {
    const centre = (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const count = Math.min(from, Math.trunc(centre + support + 0.5)) - first;
    const raw = Array.from({ length: count }, (_, k) => curve((k + first - centre + 0.5) / widening));
    const total = raw.reduce((sum, weight) => sum + weight, 0);
    windows.first[i] = first;
    windows.count[i] = count;
    for (const [k, weight] of raw.entries()) {
      const share = (weight / total) * ONE;
      windows.weight[i * stride + k] = Math.trunc(share < 0 ? share - 0.5 : share + 0.5);
    }
  }
  return windows;
}

const clamp = (sum: number): number => Math.min(255, Math.max(0, Math.floor((sum + ONE / 2) / ONE)));

function resizeRow(bytes: Uint8Array, { stride, first, count, weight }: Windows, row: Uint8Array): void {
  for (let i = 0; i < first.length; i++) {
    const start = (first[i] ?? 0) * CHANNELS;
    const taps = count[i] ?? 0;
    for (let c = 0; c < CHANNELS; c++) {
      let sum = 0;
      for (let k = 0; k < taps; k++) sum += (bytes[start + k * CHANNELS + c] ?? 0) * (weight[i * stride + k] ?? 0);
      row[i * CHANNELS + c] = clamp(sum);
    }
  }
}

/**
 * Writes `region` of `source`, resized, into `target`. ComfyUI hands `lanczos` to Pillow: the picture becomes 8 bit first, is
 * rounded to 8 bit again between the two passes, and an axis that keeps its length is left alone. Beside the frames it needs
 * the rows of one output row's window.
 */
export function lanczos(source: Frame, sourceWidth: number, region: Region, target: Frame, size: FrameSize): void {
  const across = region.width === size.width ? undefined : windowsOf(region.width, size.width);
  const down = region.height === size.height ? undefined : windowsOf(region.height, size.height);
  const length = size.width * CHANNELS;
  const kept = down ? down.stride : 1;
  const rows = Array.from({ length: kept }, () => ({ y: -1, bytes: new Uint8Array(length) }));
  const whole = new Uint8Array(region.width * CHANNELS);
  const rowOf = (y: number): Uint8Array => {
    const row = rows[y % kept];
    if (!row) throw new Error("The source row is outside the picture.");
    if (row.y !== y) {
      row.y = y;
      const bytes = across ? whole : row.bytes;
      const start = ((region.y + y) * sourceWidth + region.x) * CHANNELS;
      for (let i = 0; i < bytes.length; i++) bytes[i] = toByte(source[start + i] ?? 0);
      if (across) resizeRow(bytes, across, row.bytes);
    }
    return row.bytes;
  };
  const sums = new Float64Array(length);
  for (let y = 0; y < size.height; y++) {
    const out = target.subarray(y * length, (y + 1) * length);
    if (!down) {
      const row = rowOf(y);
      for (let i = 0; i < length; i++) out[i] = FLOAT_OF_BYTE[row[i] ?? 0] ?? 0;
      continue;
    }
    sums.fill(0);
    for (let k = 0; k < (down.count[y] ?? 0); k++) {
      const row = rowOf((down.first[y] ?? 0) + k);
      const weight = down.weight[y * down.stride + k] ?? 0;
      for (let i = 0; i < length; i++) sums[i] = (sums[i] ?? 0) + (row[i] ?? 0) * weight;
    }
    for (let i = 0; i < length; i++) out[i] = FLOAT_OF_BYTE[clamp(sums[i] ?? 0)] ?? 0;
  }
}
