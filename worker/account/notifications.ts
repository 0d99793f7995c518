import type { Account } from "./account.ts";
import {
  type AttemptResult,
  begin,
  CLAIM_MS,
  type Delivery,
  expireClaim,
  finishAttempt,
  secondsUntil,
  sweep,
  sweepAt,
  undeferred,
} from "./deliveries.ts";
import { type JobView, viewJob } from "./record.ts";
import { signingSecrets } from "./webhook-secrets.ts";

/** What the webhook courier asks of an account, and what its sweep does (design section 6, step 6). */

export type BeginAnswer =
  | {
      readonly kind: "granted";
      readonly n: number;
      readonly url: string;
      readonly view: JobView;
      /** Read at the time of each attempt, the current one first; they travel in no message. */
      readonly secrets: readonly string[];
    }
  | { readonly kind: "early"; readonly retry_in_s: number }
  | { readonly kind: "done" };

/** Stores a delivery and its sweep's time. */
function putDelivery(account: Account, delivery: Delivery): void {
  account.store.putDelivery(delivery);
  const at = sweepAt(delivery);
  if (at === undefined) account.store.clearTimer("delivery", delivery.job_id);
  else account.store.setTimer("delivery", delivery.job_id, at);
}

/** A job's delivery as it stands now: an attempt whose claim ran out is over, and the log says so. */
export function currentDelivery(account: Account, job_id: string, now: number): Delivery | undefined {
  const { store } = account;
  const delivery = store.delivery(job_id);
  const expired = delivery && expireClaim(delivery, now);
  if (!expired) return delivery;
  const { round, n, claimed_until = now } = delivery;
  const at = claimed_until - CLAIM_MS;
  store.logAttempt(job_id, { round, n, at, duration_ms: CLAIM_MS, ok: false, failure: "claim_expired" });
  putDelivery(account, expired);
  return expired;
}

export function beginDelivery(account: Account, job_id: string, round: number, now: number): BeginAnswer {
  const stored = account.load(job_id);
  const delivery = currentDelivery(account, job_id, now);
  if (stored?.job.webhook_url === undefined || !delivery) return { kind: "done" };
  const answer = begin(delivery, round, account.store.deliveriesInFlight(now), now);
  if (answer.kind === "deferred") {
    account.store.putDelivery(answer.delivery);
    return { kind: "done" };
  }
  if (answer.kind !== "granted") return answer;
  putDelivery(account, answer.delivery);
  return {
    kind: "granted",
    n: answer.n,
    url: stored.job.webhook_url,
    view: viewJob(account, stored),
    secrets: signingSecrets(account.mustSettings, now),
  };
}

export interface AttemptReport extends AttemptResult {
  /** X-Webhook-ID of the attempt. */
  readonly attempt_id: string;
  readonly started_at: number;
  readonly duration_ms: number;
  /** The first 1 KiB of the receiver's answer. */
  readonly answer?: string;
  /** Which rule forbids the target, where it was not called. */
  readonly rule?: string;
}

/** What became of an attempt; the next one's message is owed. */
export function finishDelivery(
  account: Account,
  job_id: string,
  round: number,
  n: number,
  report: AttemptReport,
  now: number,
): void {
  const delivery = account.store.delivery(job_id);
  const next = delivery && finishAttempt(delivery, round, n, report, now);
  if (!next) return;
  const { started_at, ...seen } = report;
  account.store.logAttempt(job_id, { round, n, at: started_at, ...seen });
  putDelivery(account, next);
  // Where its claim was seen to run out, a message is on its way already.
  if (next.status === "pending" && delivery.claimed_until !== undefined) sendMessage(account, next, now);
  const deferred = account.store.firstDeferred();
  if (deferred) {
    account.store.putDelivery(undeferred(deferred));
    sendMessage(account, deferred, now);
  }
}

/** A round of attempts begins. */
export function openRound(account: Account, delivery: Delivery, now: number): void {
  putDelivery(account, delivery);
  sendMessage(account, delivery, now);
}

/** Owes the queue a message for the delivery's next attempt. */
function sendMessage(account: Account, { job_id, round, due_at }: Delivery, now: number): void {
  account.owes({ kind: "deliver", job_id, round, delay_s: secondsUntil(due_at, now) });
}

/** The sweep's timer is due: what the queue lost is sent again. */
export function sweepDelivery(account: Account, job_id: string, now: number): void {
  const { store } = account;
  const delivery = currentDelivery(account, job_id, now);
  const swept = delivery && sweep(delivery, now);
  if (swept?.next_at === undefined) store.clearTimer("delivery", job_id);
  else store.setTimer("delivery", job_id, swept.next_at);
  if (delivery && swept?.send) sendMessage(account, delivery, now);
}
