/** Aligned columns: the first to the left, the others to the right. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  return rows
    .map(
      (row) =>
        `  ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[i] ?? 0))).join("   ")}`,
    )
    .join("\n");
}

export interface Goal {
  readonly name: string;
  readonly value: string;
  readonly goal: string;
  readonly met: boolean;
}

export const goalTable = (goals: readonly Goal[]): string =>
  table([
    ["goal", "measured", "wanted", ""],
    ...goals.map(({ name, value, goal, met }) => [name, value, goal, met ? "met" : "MISSED"]),
  ]);

/** Durations from milliseconds to hours, three digits. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "-";
  if (ms < 1_000) return `${ms.toPrecision(3)} ms`;
  if (ms < 600_000) return `${(ms / 1_000).toPrecision(3)} s`;
  return `${(ms / 60_000).toPrecision(3)} min`;
}

export const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
