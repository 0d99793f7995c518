import type { Ledger } from "./ledger.ts";
import type { Lines } from "./lines.ts";
import type { Outcome } from "./run.ts";
import { FAULT_KINDS } from "./schedule.ts";
import type { Traffic } from "./traffic.ts";

/** The tables at the end of a run. */

interface Told {
  readonly ledger: Ledger;
  readonly traffic: Traffic;
  readonly lines: Lines;
}

function tally(names: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

const table = (title: string, rows: Iterable<readonly [string, number | string]>): string =>
  [title, ...[...rows].map(([name, value]) => `  ${name.padEnd(52)} ${String(value).padStart(8)}`)].join("\n");

const sorted = (counts: ReadonlyMap<string, number>): [string, number][] =>
  [...counts].sort(([a], [b]) => (a < b ? -1 : 1));

function median(values: readonly number[]): number {
  const ordered = [...values].sort((a, b) => a - b);
  return ordered[Math.floor(ordered.length / 2)] ?? Number.NaN;
}

const seconds = (ms: number): string => (ms / 1000).toFixed(1);

function recoveryRows({ recoveries }: Traffic): [string, string][] {
  return [...recoveries].map(([how, times]) => [
    `${how}, ${times.length} executions: median and most`,
    `${seconds(median(times))} ${seconds(Math.max(...times))}`,
  ]);
}

export function report(outcome: Outcome, { ledger, traffic, lines }: Told): string {
  const { jobs, stored, covered, owed, applied, troubles } = outcome;
  return [
    "",
    table("jobs by end", sorted(tally(jobs.map(({ status, error }) => (error ? `${status}: ${error.code}` : status))))),
    table("jobs by attempt", sorted(tally(jobs.map(({ attempt }) => String(attempt ?? "never started"))))),
    table(
      "faults",
      FAULT_KINDS.map((kind) => [kind, applied.get(kind) ?? 0]),
    ),
    table("messages struck", sorted(lines.struck)),
    table("from the loss of a runner until its job runs again, s", recoveryRows(traffic)),
    table("answers between service and runners", sorted(traffic.answers)),
    table("troubles of the client, each repeated", sorted(troubles)),
    table("stored", [
      ["outputs", stored],
      ["of them losing, their removal owed", covered.length],
      ["removals on record", owed],
      ["webhook deliveries", ledger.deliveries],
    ]),
    ...covered.map((key) => `  losing output with its removal owed: ${key}`),
  ].join("\n");
}
