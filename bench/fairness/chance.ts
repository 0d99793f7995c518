/** Seeded randomness. Each account and runner draws from a stream of its own, so that one more of them changes nobody else's fate. */
export type Chance = () => number;

/** Mulberry32: numbers from 0 up to 1, the same for the same seed and name. */
export function stream(seed: number, name: string): Chance {
  let state = seed | 0;
  for (let i = 0; i < name.length; i++) state = Math.imul(state ^ name.charCodeAt(i), 0x9e3779b1) ^ (state >>> 13);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const between = (chance: Chance, least: number, most: number): number => least + chance() * (most - least);

export const exponential = (chance: Chance, mean: number): number => -Math.log(1 - chance()) * mean;

/** A heavy tail between two bounds. */
export interface BoundedPareto {
  readonly least: number;
  readonly most: number;
  readonly alpha: number;
}

export function pareto(chance: Chance, { least, most, alpha }: BoundedPareto): number {
  const ratio = (least / most) ** alpha;
  return least * (1 - chance() * (1 - ratio)) ** (-1 / alpha);
}

export function paretoMean({ least, most, alpha }: BoundedPareto): number {
  const scale = least ** alpha / (1 - (least / most) ** alpha);
  const integral = alpha === 1 ? Math.log(most / least) : (most ** (1 - alpha) - least ** (1 - alpha)) / (1 - alpha);
  return alpha * scale * integral;
}

/** An index below `count`; the i-th is 1 / (i + 1) times as likely as the first. */
export function zipf(chance: Chance, count: number): number {
  let total = 0;
  for (let i = 1; i <= count; i++) total += 1 / i;
  let rest = chance() * total;
  for (let i = 0; i < count; i++) {
    rest -= 1 / (i + 1);
    if (rest < 0) return i;
  }
  return count - 1;
}
