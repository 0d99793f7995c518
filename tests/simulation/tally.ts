/** What schedules have done, summed. */
export interface Tally {
  schedules: number;
  steps: number;
  /** How often each fault and each end of a job happened. */
  counts: Record<string, number>;
  violations: Found[];
}

export interface Found {
  readonly seed: number;
  readonly invariant: string;
  readonly detail: string;
}

export const emptyTally = (): Tally => ({ schedules: 0, steps: 0, counts: {}, violations: [] });

export function add(sum: Tally, more: Tally): void {
  sum.schedules += more.schedules;
  sum.steps += more.steps;
  sum.violations.push(...more.violations);
  for (const [name, count] of Object.entries(more.counts)) sum.counts[name] = (sum.counts[name] ?? 0) + count;
}

const PREFIX = "end: ";

/** Both histograms: how jobs ended, and what was broken. */
export function histograms({ counts }: Tally): string {
  const rows = Object.entries(counts).sort(([, a], [, b]) => b - a);
  const table = (title: string, part: [string, number][]) =>
    [title, ...part.map(([name, count]) => `  ${String(count).padStart(10)}  ${name}`)].join("\n");
  const ends = rows
    .filter(([name]) => name.startsWith(PREFIX))
    .map(([n, c]): [string, number] => [n.slice(PREFIX.length), c]);
  return `${table("how jobs ended", ends)}\n${table(
    "what was broken",
    rows.filter(([name]) => !name.startsWith(PREFIX)),
  )}`;
}
