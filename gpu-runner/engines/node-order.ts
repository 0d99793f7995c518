const DIGITS = /^\d+$/;

/** Node ids in the order of outputs: numeric ones by their number, then all others by their characters. */
export function compareNodeIds(a: string, b: string): number {
  const numericA = DIGITS.test(a);
  const numericB = DIGITS.test(b);
  if (numericA !== numericB) return numericA ? -1 : 1;
  if (numericA) {
    const difference = BigInt(a) - BigInt(b);
    if (difference !== 0n) return difference < 0n ? -1 : 1;
  }
  return a < b ? -1 : a > b ? 1 : 0;
}
