import type { Account } from "./account.ts";
import {
  type AttemptResult,
  begin,
  CLAIM_MS,
  call,
  type Delivery,
  expireClaim,
  finishAttempt,
  MAX_IN_FLIGHT,
  secondsUntil,
  SWEEP_MS,
  sweep,
  sweepAt,
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
function putDelivery(account: Account, delivery: Delivery, now: number): void {
  account.store.putDelivery(delivery);
  const at = sweepAt(delivery, now);
  if (at === undefined) account.store.clearTimer("delivery", delivery.job_id);
  else account.store.setTimer("delivery", delivery.job_id, at);
}

/**
 * A job's delivery as it stands now. An attempt whose claim ran out is over: the log says so, and the next one's message is owed.
 */
export function currentDelivery(account: Account, job_id: string, now: number): Delivery | undefined {
  const { store } = account;
  const delivery = store.delivery(job_id);
  const expired = delivery && expireClaim(delivery, now);
  if (!expired) return delivery;
  const { round, n, claimed_until = now } = delivery;
  const at = claimed_until - CLAIM_MS;
  store.logAttempt(job_id, { round, n, at, duration_ms: CLAIM_MS, ok: false, failure: "claim_expired" });
  putDelivery(account, expired, now);
  if (expired.status === "pending") sendMessage(account, expired, now);
  callDeferred(account, now);
  return expired;
}

/** Calls those that wait longest while there is room. To be done wherever a place among those in flight becomes free. */
export function callDeferred(account: Account, now: number): void {
  const { store } = account;
  for (let room = MAX_IN_FLIGHT - store.deliveriesInFlight(now); room > 0; room--) {
    const first = store.firstDeferred();
    if (!first) return;
    const called = call(first, now);
    putDelivery(account, called, now);
    sendMessage(account, called, now);
  }
}

export function beginDelivery(account: Account, job_id: string, round: number, now: number): BeginAnswer {
  const { store } = account;
  const stored = account.load(job_id);
  const delivery = currentDelivery(account, job_id, now);
  if (stored?.job.webhook_url === undefined || !delivery) return { kind: "done" };
  const own = delivery.called_until !== undefined && delivery.called_until > now ? 1 : 0;
  const first = store.firstDeferred();
  const crowd = {
    taken: store.deliveriesInFlight(now) - own,
    ...(first && first.job_id !== job_id ? { waiting_since: first.due_at } : {}),
  };
  const answer = begin(delivery, round, crowd, now);
  if (answer.kind === "deferred") {
    putDelivery(account, answer.delivery, now);
    callDeferred(account, now);
    return { kind: "done" };
  }
  if (answer.kind !== "granted") return answer;
  putDelivery(account, answer.delivery, now);
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

/**
 * What became of an attempt; the next one's message is owed.
 * @returns whether that attempt was its round's last, and failed; a repeated report is answered alike
 */
export function finishDelivery(
  account: Account,
  job_id: string,
  round: number,
  n: number,
  report: AttemptReport,
  now: number,
): boolean {
  const delivery = account.store.delivery(job_id);
  const next = delivery && finishAttempt(delivery, round, n, report, now);
  if (next) {
    const { started_at, ...seen } = report;
    account.store.logAttempt(job_id, { round, n, at: started_at, ...seen });
    putDelivery(account, next, now);
    // Where its claim was seen to run out, a message is on its way already.
    if (next.status === "pending" && delivery.claimed_until !== undefined) sendMessage(account, next, now);
  }
  callDeferred(account, now);
  const stands = next ?? delivery;
  return stands?.status === "failed" && stands.round === round && stands.n === n;
}

/** A round of attempts begins. */
export function openRound(account: Account, delivery: Delivery, now: number): void {
  putDelivery(account, delivery, now);
  sendMessage(account, delivery, now);
}

/** Owes the queue a message for the delivery's next attempt. */
function sendMessage(account: Account, { job_id, round, due_at }: Delivery, now: number): void {
  account.owes({ kind: "deliver", job_id, round, delay_s: secondsUntil(due_at, now) });
}

/** The sweep's timer is due: what the queue lost is sent again. */
export function sweepDelivery(account: Account, job_id: string, now: number): void {
  const { store } = account;
  const delivery = store.delivery(job_id);
  if (!delivery || !store.job(job_id)) {
    // What belongs to no job is nobody's.
    store.deleteJob(job_id);
    store.clearTimer("delivery", job_id);
    return;
  }
  if (expireClaim(delivery, now)) {
    currentDelivery(account, job_id, now);
  } else if (sweep(delivery).send) {
    const again = delivery.called_until === undefined ? delivery : call(delivery, now);
    putDelivery(account, again, now);
    store.setTimer("delivery", job_id, Math.max(now, again.due_at) + SWEEP_MS);
    sendMessage(account, again, now);
  } else {
    putDelivery(account, delivery, now);
    callDeferred(account, now);
  }
}
