import type { Runner } from "./runner-state.ts";

/** When a runner counts as lost (design section 5, "Loss"). Pure; times are epoch milliseconds. */

/** Three beats missed. */
export const SILENCE_MS = 15_000;
/** A fleet object that has just started knows nobody: it judges no runner that it has not heard. */
export const START_GRACE_MS = 20_000;
/** When many fall silent together the observer is the suspect: losses wait this long. */
export const OUTAGE_MS = 60_000;
/** However often the object starts anew, a runner gets the time of one beat to be heard. */
const FIRST_BEAT_MS = 6_000;
const OUTAGE_SHARE = 1 / 3;
const OUTAGE_LEAST = 3;

/** When a fleet object started, and when its grace ends: stored, so that a second start does not begin anew. */
export interface Watch {
  readonly started_at: number;
  readonly grace_until: number;
}

/** Whether its silence means anything. */
export const isJudged = ({ entry }: Runner): boolean => entry.state === "active" || entry.state === "draining";

/** When a runner would be silent for too long, not counting an outage. */
export function silentAt(runner: Runner, watch: Watch): number {
  if (runner.seen_at > 0) return runner.seen_at + SILENCE_MS;
  return Math.max(watch.grace_until, watch.started_at + FIRST_BEAT_MS);
}

/** The runners that are to be declared lost now. */
export function lostRunners(runners: Iterable<Runner>, watch: Watch, now: number): Runner[] {
  const judged = [...runners].filter(isJudged);
  const silent = judged.filter((runner) => now >= silentAt(runner, watch));
  const outage = silent.length >= OUTAGE_LEAST && silent.length > judged.length * OUTAGE_SHARE;
  return outage ? silent.filter((runner) => now >= silentAt(runner, watch) + OUTAGE_MS) : silent;
}
