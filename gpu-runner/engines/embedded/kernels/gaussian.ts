import { CHANNELS, type Frame, type FrameSize } from "../picture.ts";

/**
 * ComfyUI's kernel: `2 * radius + 1` taps spread evenly over -1..1, so that `sigma` is relative to the radius. The square
 * kernel there is the product of this one with itself, which is why two passes of it give the same sums.
 */
export function gaussianWeights(radius: number, sigma: number): Float64Array {
  const weights = Float64Array.from({ length: 2 * radius + 1 }, (_, i) => {
    const distance = (i - radius) / radius;
    return Math.exp(-(distance * distance) / (2 * sigma * sigma));
  });
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

/** The border is mirrored without repeating the border pixel; `length` must be greater than the radius. */
const reflect = (i: number, length: number): number => (i < 0 ? -i : i >= length ? 2 * (length - 1) - i : i);

/**
 * Blurs a frame, each pair of equal weights at once. Both sides must be longer than the radius. Beside the frames it needs as
 * many rows as there are taps.
 */
export function blur(source: Frame, target: Frame, { width, height }: FrameSize, weights: Float64Array): void {
  const taps = weights.length;
  const radius = (taps - 1) / 2;
  const middle = weights[radius] ?? 0;
  const length = width * CHANNELS;
  const padded = new Float64Array((width + 2 * radius) * CHANNELS);
  const rows = Array.from({ length: taps }, () => ({ y: -1, values: new Float64Array(length) }));
  const rowOf = (y: number): Float64Array => {
    const row = rows[y % taps];
    if (!row) throw new Error("The source row is outside the picture.");
    if (row.y === y) return row.values;
    row.y = y;
    for (let x = -radius; x < width + radius; x++) {
      const from = y * length + reflect(x, width) * CHANNELS;
      for (let c = 0; c < CHANNELS; c++) padded[(x + radius) * CHANNELS + c] = source[from + c] ?? 0;
    }
    for (let i = 0; i < length; i++) {
      const centre = i + radius * CHANNELS;
      let sum = (padded[centre] ?? 0) * middle;
      for (let k = 1; k <= radius; k++) {
        const both = (padded[centre - k * CHANNELS] ?? 0) + (padded[centre + k * CHANNELS] ?? 0);
        sum += both * (weights[radius + k] ?? 0);
      }
      row.values[i] = sum;
    }
    return row.values;
  };
  const sums = new Float64Array(length);
  for (let y = 0; y < height; y++) {
    const own = rowOf(y);
    for (let i = 0; i < length; i++) sums[i] = (own[i] ?? 0) * middle;
    for (let k = 1; k <= radius; k++) {
      const above = rowOf(reflect(y - k, height));
      const below = rowOf(reflect(y + k, height));
      const weight = weights[radius + k] ?? 0;
      for (let i = 0; i < length; i++) sums[i] = (sums[i] ?? 0) + ((above[i] ?? 0) + (below[i] ?? 0)) * weight;
    }
    target.set(sums, y * length);
  }
}
