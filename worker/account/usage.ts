import type { RequestWindow } from "./keys.ts";
import type { UsageCounts } from "./owner-types.ts";
import type { AccountStore } from "./store.ts";

/**
 * What each key uses, by UTC day. Nothing is counted in memory and nothing has a transaction of its own: a submission and an end
 * are counted in the transaction that stores them, and a window's requests when the key's next window opens, with the write of that
 * window. Until then they stand in the window itself. So the counts forget what windows forget, one second at most.
 */

const DAY_MS = 86_400_000;
/** Rows of earlier days are removed with later writes (contract section 6). */
export const USAGE_DAYS = 90;
/** More than one for each that is written, so that they come to an end. */
const FORGOTTEN_AT_ONCE = 10;

/** The UTC day of a moment, counted from 1970 on. */
export const dayOf = (at: number): number => Math.floor(at / DAY_MS);

/** A day as `YYYY-MM-DD`. */
export const dateOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** Adds to what a key has used on the day of `at`. Call it inside a transaction that writes anyway. */
export function charge({ owner }: AccountStore, key_hash: string, counts: Partial<UsageCounts>, at: number): void {
  const day = dayOf(at);
  owner.addUsage(day, key_hash, counts);
  owner.forgetUsage(day - USAGE_DAYS, FORGOTTEN_AT_ONCE);
}

/** A window's requests are charged as a whole to the day on which it opened. */
export const chargeWindow = (store: AccountStore, key_hash: string, { opened_at, used }: RequestWindow): void =>
  charge(store, key_hash, { requests: used }, opened_at);

/** The engine's time of an execution, as far as its job's `timeout_s` allowed. */
export const gpuTime = (execution_ms: number, timeout_s: number): number =>
  Math.round(Math.min(execution_ms, timeout_s * 1000));
