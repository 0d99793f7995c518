import type { Account } from "./account.ts";
import type { Delivery } from "./deliveries.ts";
import { currentDelivery } from "./notifications.ts";
import { type JobView, viewJob } from "./record.ts";
import { reopenDelivery } from "./redelivery.ts";
import { count, type Gated } from "./requests.ts";
import type { AttemptLog } from "./store.ts";

/** What API clients ask about their notifications (spec section 6, contract sections 2 and 5). */

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
  const stored = account.load(job_id);
  if (!stored) return { gate, value: { kind: "not_found" } };
  const answer = reopenDelivery(account, job_id, request, now);
  return { gate, value: answer.kind === "reopened" ? { ...answer, view: viewJob(account, stored) } : answer };
}

/** A job's delivery and every attempt that was made of it. */
export interface DeliveryView {
  readonly webhook_url: string;
  readonly ended: boolean;
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
  return {
    gate,
    value: { webhook_url, ended: stored.job.phase === "ended", attempts, ...(delivery ? { delivery } : {}) },
  };
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
  const { events, ...page } = store.events(from, limit);
  return { gate, value: { ...page, events: events.map((stored) => viewJob(account, stored)) } };
}
