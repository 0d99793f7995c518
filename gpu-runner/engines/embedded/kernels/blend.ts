import type { Frame } from "../picture.ts";

const f = Math.fround;

/** The curve of `soft_light` above the middle. */
const lighten = (x: number): number => (x <= 0.25 ? f(f(f(f(16 * x) - 12) * x + 4) * x) : f(Math.sqrt(x)));

/** Two channel values into one. `difference` is signed, as in ComfyUI: what falls below 0 is cut off afterwards. */
const MODES = {
  normal: (_a: number, b: number): number => b,
  multiply: (a: number, b: number): number => f(a * b),
  screen: (a: number, b: number): number => f(1 - f(f(1 - a) * f(1 - b))),
  overlay: (a: number, b: number): number => (a <= 0.5 ? f(2 * a * b) : f(1 - f(2 * f(1 - a) * f(1 - b)))),
  soft_light: (a: number, b: number): number =>
    b <= 0.5 ? f(a - f(f(f(1 - 2 * b) * a) * f(1 - a))) : f(a + f(f(2 * b - 1) * f(lighten(a) - a))),
  difference: (a: number, b: number): number => f(a - b),
} as const;

export type BlendMode = keyof typeof MODES;
export const BLEND_MODES = Object.keys(MODES) as readonly BlendMode[];

/** Mixes `base` with the blend of `base` and `top`; frames of one size. The result is clamped to 0..1. */
export function blend(base: Frame, top: Frame, target: Frame, mode: BlendMode, factor: number): void {
  const mix = MODES[mode];
  const keep = f(1 - factor);
  const share = f(factor);
  for (let i = 0; i < target.length; i++) {
    const a = base[i] ?? 0;
    const value = f(f(a * keep) + f(mix(a, top[i] ?? 0) * share));
    target[i] = Math.min(1, Math.max(0, value));
  }
}
