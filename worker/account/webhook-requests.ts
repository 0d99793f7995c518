import { MAX_REDELIVERIES_PER_WINDOW } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { type Delivery, reopen } from "./deliveries.ts";
import { EMPTY_WINDOW, takeFrom, viewWindow } from "./keys.ts";
import { currentDelivery, openRound } from "./notifications.ts";
import { type JobView, viewJob } from "./record.ts";
import { count, type Gated } from "./requests.ts";
import type { AttemptLog } from "./store.ts";

/** What API clients ask about their notifications (spec section 6, contract sections 2 and 5). */

/** Rounds whose attempts stay in a job's log. */
const ROUNDS_KEPT = 10;

export type Redelivered =
  | { readonly kind: "reopened"; readonly view: JobView }
  | { readonly kind: "not_found" }
  | { readonly kind: "not_redeliverable" }
  | { readonly kind: "too_many"; readonly reset_at: number };

/**
 * Begins a fresh round of deliveries of an ended job.
 * @param request made by the caller: the same one begins one round, however often it comes
 */
export function redeliver(
  account: Account,
  key_hash: string,
  { job_id, request }: { readonly job_id: string; readonly request: string },
  now: number,
): Gated<Redelivered> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const { store } = account;
  const stored = account.load(job_id);
  if (!stored) return { gate, value: { kind: "not_found" } };
  const delivery = currentDelivery(account, job_id, now);
  if (delivery?.request === request) return { gate, value: { kind: "reopened", view: viewJob(account, stored) } };
  const fresh = delivery && reopen(delivery, request, now);
  if (!fresh) return { gate, value: { kind: "not_redeliverable" } };
  const window = store.window("redeliveries") ?? EMPTY_WINDOW;
  const taken = takeFrom(window, MAX_REDELIVERIES_PER_WINDOW, now);
  if (!taken) {
    const { reset_at } = viewWindow(window, MAX_REDELIVERIES_PER_WINDOW, now);
    return { gate, value: { kind: "too_many", reset_at } };
  }
  store.putAccountWindow("redeliveries", taken);
  store.forgetAttempts(job_id, fresh.round - ROUNDS_KEPT);
  openRound(account, fresh, now);
  return { gate, value: { kind: "reopened", view: viewJob(account, stored) } };
}

/** A job's delivery and every attempt that was made of it. */
export interface DeliveryView {
  readonly webhook_url: string;
  /** Absent until the job has ended. */
  readonly delivery?: Delivery;
  readonly attempts: readonly AttemptLog[];
}

export type DeliveryRead = DeliveryView | "not_found" | "no_webhook";

export function readDelivery(account: Account, key_hash: string, job_id: string, now: number): Gated<DeliveryRead> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const stored = account.load(job_id);
  if (!stored) return { gate, value: "not_found" };
  const { webhook_url } = stored.job;
  if (webhook_url === undefined) return { gate, value: "no_webhook" };
  const delivery = currentDelivery(account, job_id, now);
  const attempts = account.store.attempts(job_id);
  return { gate, value: { webhook_url, attempts, ...(delivery ? { delivery } : {}) } };
}

/** Where a page of events begins: after a number, or after the end of a job. */
export type EventsAfter = { readonly event: number } | { readonly job_id: string };

export interface EventPage {
  readonly events: readonly JobView[];
  /** The number of the last one of this page, or where it began. */
  readonly last: number;
  readonly has_more: boolean;
}

/** The ends of the account's jobs, oldest first. "unknown": the job that `after` names is not kept any more. */
export function listEvents(
  account: Account,
  key_hash: string,
  { after, limit }: { readonly after: EventsAfter; readonly limit: number },
  now: number,
): Gated<EventPage | "unknown"> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const { store } = account;
  const from = "event" in after ? after.event : store.eventOf(after.job_id);
  if (from === undefined) return { gate, value: "unknown" };
  const found = store.events(from, limit + 1);
  const page = found.slice(0, limit);
  const events = page.map((stored) => viewJob(account, stored));
  return { gate, value: { events, last: page.at(-1)?.event ?? from, has_more: found.length > limit } };
}
