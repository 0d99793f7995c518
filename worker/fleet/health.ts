/**
 * What speaks against a runner (design section 5, "Strikes"): dispatches that it could not take, and engines that fail whoever
 * uses them. Both suspend it, with growing pauses; then one execution at a time is the probe, until one succeeds. Pure.
 */

const STRIKES = 3;
const ENGINE_FAULTS = 5;
/** A single account's graphs, however bad, speak against nobody but themselves. */
const FAULTED_ACCOUNTS = 3;
const SUSPENSION_MS = 5_000;
const MAX_SUSPENSION_MS = 300_000;

export interface Health {
  /** Dispatches in a row that failed in a way that a healthy runner's do not. */
  readonly strikes: number;
  /** Whose executions in a row ended by a fault of the engine. */
  readonly faults: readonly string[];
  /** Suspensions in a row. */
  readonly suspensions: number;
  readonly suspended_until: number;
  /** It was suspended, and nothing has succeeded since. */
  readonly probation: boolean;
  /** Why it was suspended last, for people. */
  readonly reason?: "unreachable" | "engine_faults";
}

export const HEALTHY: Health = { strikes: 0, faults: [], suspensions: 0, suspended_until: 0, probation: false };

function suspended(health: Health, reason: NonNullable<Health["reason"]>, now: number): Health {
  const pause = Math.min(SUSPENSION_MS * 2 ** health.suspensions, MAX_SUSPENSION_MS);
  return { ...health, suspensions: health.suspensions + 1, suspended_until: now + pause, probation: true, reason };
}

/** A dispatch came to nothing: no connection, no answer that makes sense, an answer that refuses the edge itself. */
export function struck(health: Health, now: number): Health {
  const next = { ...health, strikes: health.strikes + 1 };
  return next.strikes >= STRIKES ? suspended(next, "unreachable", now) : next;
}

/** It took what it was given: it can be reached. */
export function reached(health: Health): Health {
  if (health.strikes === 0) return health;
  // Suspended for its engine, it has to show more than that.
  return health.reason === "engine_faults" ? { ...health, strikes: 0 } : { ...HEALTHY, faults: health.faults };
}

/** An execution of `account` ended by a fault of the engine. */
export function faulted(health: Health, account: string, now: number): Health {
  const faults = [...health.faults, account].slice(-ENGINE_FAULTS);
  const next = { ...health, strikes: 0, faults };
  const enough = faults.length === ENGINE_FAULTS && new Set(faults).size >= FAULTED_ACCOUNTS;
  const again = health.probation && health.reason === "engine_faults";
  return enough || again ? suspended(next, "engine_faults", now) : next;
}
