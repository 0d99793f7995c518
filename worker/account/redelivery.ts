import { MAX_REDELIVERIES_PER_WINDOW } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { type Delivery, reopen } from "./deliveries.ts";
import { EMPTY_WINDOW, takeFrom, viewWindow } from "./keys.ts";
import { currentDelivery, openRound } from "./notifications.ts";

/** Fresh rounds of deliveries, whoever asks for them. At most ten requests a minute an account (contract section 2). */

/** Rounds whose attempts stay in a job's log. */
const ROUNDS_KEPT = 10;
/** Requests for all that has failed that are remembered: two minutes' worth, so that one that comes twice is one. */
const REMEMBERED = 20;

/** Of the account's ten a minute none is left. */
interface TooMany {
  readonly kind: "too_many";
  readonly reset_at: number;
}

/** Counts one request of the account's ten a minute; what it answers is a refusal. */
function refusalOf(account: Account, now: number): TooMany | undefined {
  const window = account.store.window("redeliveries") ?? EMPTY_WINDOW;
  const taken = takeFrom(window, MAX_REDELIVERIES_PER_WINDOW, now);
  if (!taken) return { kind: "too_many", reset_at: viewWindow(window, MAX_REDELIVERIES_PER_WINDOW, now).reset_at };
  account.store.putAccountWindow("redeliveries", taken);
  return undefined;
}

function beginRound(account: Account, fresh: Delivery, now: number): void {
  account.store.forgetAttempts(fresh.job_id, fresh.round - ROUNDS_KEPT);
  openRound(account, fresh, now);
}

export type Reopened = { readonly kind: "reopened" } | { readonly kind: "not_redeliverable" } | TooMany;

/**
 * Begins a fresh round of deliveries of a job.
 * @param request made by the caller: the same one begins one round, however often it comes
 */
export function reopenDelivery(account: Account, job_id: string, request: string, now: number): Reopened {
  const delivery = currentDelivery(account, job_id, now);
  if (delivery?.request === request) return { kind: "reopened" };
  const fresh = delivery && reopen(delivery, request, now);
  if (!fresh) return { kind: "not_redeliverable" };
  const refusal = refusalOf(account, now);
  if (refusal) return refusal;
  beginRound(account, fresh, now);
  return { kind: "reopened" };
}

/** What became of one request for all that has failed. */
export interface RedeliveredFailed {
  readonly request: string;
  readonly begun: number;
}

/**
 * Begins fresh rounds of at most `limit` failed deliveries, those whose jobs ended first; says how many. Nothing to begin counts
 * as no request.
 * @param request made by the caller: the same one begins no others while the latest 20 are remembered
 */
export function reopenFailed(
  account: Account,
  request: string,
  limit: number,
  now: number,
): { readonly kind: "begun"; readonly begun: number } | TooMany {
  const { redelivered_failed: before = [] } = account.mustSettings;
  const known = before.find((one) => one.request === request);
  if (known) return { kind: "begun", begun: known.begun };
  const failed = account.store.owner.oldestFailed(limit);
  if (failed.length === 0) return { kind: "begun", begun: 0 };
  const refusal = refusalOf(account, now);
  if (refusal) return refusal;
  let begun = 0;
  for (const delivery of failed) {
    const fresh = reopen(delivery, request, now);
    if (!fresh) continue;
    beginRound(account, fresh, now);
    begun++;
  }
  const redelivered_failed = [{ request, begun }, ...before].slice(0, REMEMBERED);
  account.putSettings({ ...account.mustSettings, redelivered_failed });
  return { kind: "begun", begun };
}
