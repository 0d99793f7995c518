import type { Account } from "./account.ts";
import { type AttemptResult, begin, type Delivery, finishAttempt, sweepAt } from "./deliveries.ts";
import { type JobView, viewJob } from "./record.ts";

/** What the webhook consumer asks of an account (design section 6, step 6). */

export type BeginAnswer =
  | {
      readonly kind: "granted";
      readonly n: number;
      readonly url: string;
      readonly view: JobView;
      /** Read at the time of each attempt; it travels in no message. */
      readonly secret: string;
    }
  | { readonly kind: "early"; readonly retry_in_s: number }
  | { readonly kind: "done" };

/** Stores a delivery and its sweep's time. */
function put(account: Account, delivery: Delivery): void {
  account.store.putDelivery(delivery);
  const at = sweepAt(delivery);
  if (at === undefined) account.store.clearTimer("delivery", delivery.job_id);
  else account.store.setTimer("delivery", delivery.job_id, at);
}

export function beginDelivery(account: Account, job_id: string, round: number, now: number): BeginAnswer {
  const stored = account.load(job_id);
  const delivery = account.store.delivery(job_id);
  if (stored?.job.webhook_url === undefined || !delivery) return { kind: "done" };
  const answer = begin(delivery, round, account.store.deliveriesInFlight(now), now);
  if (answer.delivery !== delivery) put(account, answer.delivery);
  if (answer.kind === "early") return { kind: "early", retry_in_s: answer.retry_in_s };
  if (answer.kind === "done") return { kind: "done" };
  const { webhook_secret } = account.mustSettings;
  return {
    kind: "granted",
    n: answer.n,
    url: stored.job.webhook_url,
    view: viewJob(account, stored),
    secret: webhook_secret,
  };
}

export interface AttemptReport extends AttemptResult {
  readonly started_at: number;
  readonly duration_ms: number;
  readonly answer?: string;
}

/** How long the message is to be held back for the next attempt; null where it is not needed any more. */
export function finishDelivery(
  account: Account,
  job_id: string,
  round: number,
  n: number,
  report: AttemptReport,
  now: number,
): { readonly retry_in_s: number } | null {
  const delivery = account.store.delivery(job_id);
  const next = delivery && finishAttempt(delivery, round, n, report, now);
  if (!next) return null;
  const { started_at, ...seen } = report;
  account.store.logAttempt(job_id, { round, n, at: started_at, ...seen });
  put(account, next);
  const waiting = account.store.overdueDelivery(now);
  if (waiting && waiting.job_id !== job_id) {
    account.owes({ kind: "deliver", job_id: waiting.job_id, round: waiting.round, delay_s: 0 });
  }
  return next.status === "pending" ? { retry_in_s: Math.max(0, Math.ceil((next.due_at - now) / 1000)) } : null;
}
