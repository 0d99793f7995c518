import type { Account } from "./account.ts";
import { CLAIM_MS, type Delivery } from "./deliveries.ts";
import { type Job, statusOf } from "./jobs.ts";
import { currentDelivery } from "./notifications.ts";
import { granted, MAX_COUNTED } from "./owner.ts";
import type {
  OwnerDelivery,
  OwnerDeliveryFilter,
  OwnerDeliveryPage,
  OwnerRedeliver,
  OwnerRedeliverFailed,
  OwnerWebhook,
} from "./owner-types.ts";
import { reopenDelivery, reopenFailed } from "./redelivery.ts";
import type { StoredDelivery } from "./store.ts";

/** What an owner sees of the account's notifications, and how it has them delivered again (contract section 5). */

/** The rest of a webhook URL may be secret. */
const targetOf = (webhook_url: string): string => new URL(webhook_url).origin;

/** A job's notification with every attempt of the last 10 rounds; undefined where it has no webhook. */
export function webhookOf(account: Account, { job_id, webhook_url }: Job, now: number): OwnerWebhook | undefined {
  if (webhook_url === undefined) return undefined;
  const delivery = currentDelivery(account, job_id, now);
  const attempts = account.store.attempts(job_id);
  return { target: targetOf(webhook_url), attempts, ...(delivery ? { delivery } : {}) };
}

/** When the latest attempt was made; one in flight is in no log yet. */
function lastAttemptAt(account: Account, { job_id, claimed_until }: Delivery): number | undefined {
  return claimed_until === undefined ? account.store.owner.lastAttempt(job_id)?.at : claimed_until - CLAIM_MS;
}

function viewDelivery(account: Account, { event, delivery, job }: StoredDelivery): OwnerDelivery[] {
  if (job.webhook_url === undefined) return [];
  const { job_id, status, round, n, last_status, last_failure, claimed_until, due_at } = delivery;
  const last_attempt_at = lastAttemptAt(account, delivery);
  const waits = status === "pending" && claimed_until === undefined;
  return [
    {
      event,
      job_id,
      job_status: statusOf(job),
      target: targetOf(job.webhook_url),
      state: status,
      round,
      attempts: n,
      ...(last_status === undefined ? {} : { last_status }),
      ...(last_failure === undefined ? {} : { last_failure }),
      ...(last_attempt_at === undefined ? {} : { last_attempt_at }),
      ...(waits ? { next_attempt_at: due_at } : {}),
    },
  ];
}

/** The account's deliveries, all or those in one state; the one whose job ended last first. */
export function pageOfDeliveries(account: Account, filter: OwnerDeliveryFilter, limit: number): OwnerDeliveryPage {
  const most = granted(limit);
  const rows = account.store.owner.deliveries(filter, most + 1);
  return {
    deliveries: rows.slice(0, most).flatMap((stored) => viewDelivery(account, stored)),
    has_more: rows.length > most,
  };
}

/**
 * Begins a fresh round of deliveries of an ended job, as `POST /v1/jobs/{job_id}/webhook/redeliver` does: one of the account's ten
 * requests a minute, and refused while the account is suspended.
 * @param request made by the caller: the same one begins one round, however often it comes
 */
export function redeliverOne(
  account: Account,
  { job_id, request }: { readonly job_id: string; readonly request: string },
  now: number,
): OwnerRedeliver {
  if (account.mustSettings.suspended) return { kind: "account_suspended" };
  return account.load(job_id) ? reopenDelivery(account, job_id, request, now) : { kind: "not_found" };
}

/**
 * Begins fresh rounds of at most `limit` (1..100) failed deliveries, those whose jobs ended first: one of the account's ten requests
 * a minute, and refused while the account is suspended.
 * @param request made by the caller: the same one begins no others, however often it comes
 */
export function redeliverFailed(account: Account, request: string, limit: number, now: number): OwnerRedeliverFailed {
  if (account.mustSettings.suspended) return { kind: "account_suspended" };
  const answer = reopenFailed(account, request, granted(limit), now);
  if (answer.kind === "too_many") return answer;
  return { ...answer, left: account.store.owner.countFailed(0, MAX_COUNTED) };
}
