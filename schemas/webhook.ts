import * as v from "valibot";
import { JobId } from "./ids.ts";
import { JobError, JobRecord, Outputs, timestamp, WebhookState } from "./job.ts";

/** Spec section 6.5: seconds to wait after the first, second and third failed attempt. */
export const RETRY_DELAYS_S = [1, 5, 30] as const;
export const MAX_DELIVERY_ATTEMPTS = RETRY_DELAYS_S.length + 1;
/** Spec section 6.1: a slower receiver counts as failed. */
export const RECEIVER_TIMEOUT_MS = 10_000;

/** The Standard Webhooks id of a job's one event; the same in every attempt and round. */
export const eventIdOf = (job_id: string): string => `evt_${job_id}`;

export const WebhookEvent = v.picklist(["job.completed", "job.failed", "job.cancelled"]);
export type WebhookEvent = v.InferOutput<typeof WebhookEvent>;

/** Why an attempt failed (contract section 5). */
export const DeliveryFailure = v.picklist([
  "connection_refused",
  "dns",
  "timeout",
  "tls",
  "redirect",
  "http_4xx",
  "http_5xx",
  "http_other",
  "forbidden_target",
  // Allowed by the rules, but the platform calls no bare addresses and no private ones.
  "address_not_called",
  "network",
  // Nobody can say what became of it.
  "claim_expired",
]);
export type DeliveryFailure = v.InferOutput<typeof DeliveryFailure>;

const { job_id, created_at, metadata } = JobRecord.entries;
const { started_at, completed_at, cancelled_at, execution_time_ms } = JobRecord.entries;

/** The three shapes of a notification's body, selected by `status` (spec section 6.3). */
export const CompletedNotification = v.object({
  job_id,
  status: v.literal("completed"),
  created_at,
  started_at: started_at.wrapped,
  completed_at: completed_at.wrapped,
  execution_time_ms: execution_time_ms.wrapped,
  outputs: v.pick(Outputs, ["images"]),
  metadata,
});
export const FailedNotification = v.object({
  job_id,
  status: v.literal("failed"),
  created_at,
  started_at,
  completed_at: completed_at.wrapped,
  error: v.pick(JobError, ["code", "message", "node_id"]),
  metadata,
});
export const CancelledNotification = v.object({
  job_id,
  status: v.literal("cancelled"),
  created_at,
  started_at,
  cancelled_at: cancelled_at.wrapped,
  metadata,
});

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));

/** One attempt of a delivery, as its log shows it. */
export const DeliveryAttempt = v.object({
  round: v.pipe(Count, v.description("1 for the first deliveries; each redelivery is a round of its own.")),
  attempt: v.pipe(Count, v.description("The attempt within its round, 1 to 4.")),
  at: timestamp("When it was made."),
  delivered: v.pipe(v.boolean(), v.description("Whether the receiver took it: it answered 2xx in time.")),
  message: v.pipe(v.string(), v.description("What happened and what to do about it, in plain words.")),
  failure: v.optional(v.pipe(DeliveryFailure, v.description("The kind of failure."))),
  status: v.optional(
    v.pipe(v.number(), v.integer(), v.description("The HTTP status of the answer, if there was one.")),
  ),
  duration_ms: v.pipe(v.number(), v.minValue(0), v.description("Until the answer or the failure, milliseconds.")),
  answer: v.optional(v.pipe(v.string(), v.description("The first 1 KiB of the receiver's answer."))),
  webhook_id: v.optional(v.pipe(v.string(), v.description("The `X-Webhook-ID` that this attempt carried."))),
});
export type DeliveryAttempt = v.InferOutput<typeof DeliveryAttempt>;

/** What `GET /v1/jobs/{job_id}/webhook` answers. */
export const WebhookDelivery = v.object({
  job_id: JobId,
  event_id: v.pipe(v.string(), v.description("The `webhook-id` of every attempt.")),
  target: v.pipe(v.string(), v.description("Scheme, host and port of the job's webhook URL; the rest may be secret.")),
  ...WebhookState.entries,
  message: v.pipe(v.string(), v.description("How it stands, in plain words.")),
  next_attempt_at: v.optional(timestamp("When the next attempt is due, while one is.")),
  log: v.pipe(v.array(DeliveryAttempt), v.description("Every attempt of the last 10 rounds, the oldest first.")),
});
export type WebhookDelivery = v.InferOutput<typeof WebhookDelivery>;

/** The end of a job, with the body that its webhook has or would have. */
export const JobEvent = v.object({
  id: v.pipe(v.string(), v.description("`evt_` and the job's id; the `webhook-id` of its webhook.")),
  type: WebhookEvent,
  occurred_at: timestamp("When the job ended."),
  job: v.variant("status", [CompletedNotification, FailedNotification, CancelledNotification]),
});
export type JobEvent = v.InferOutput<typeof JobEvent>;

export const JobEventList = v.object({
  events: v.pipe(v.array(JobEvent), v.description("The oldest first.")),
  has_more: v.pipe(v.boolean(), v.description("Whether later events are there already.")),
  next_after: v.optional(
    v.pipe(
      v.string(),
      v.description("Give it as `after`, now or later, to get what follows. Absent until a job ends."),
    ),
  ),
});
export type JobEventList = v.InferOutput<typeof JobEventList>;

/** The body of a notification: the strict subset of the record that spec section 6.3 names, plus `metadata`. */
export function webhookPayload(record: JobRecord): Record<string, unknown> {
  const { job_id, status, created_at, started_at, metadata } = record;
  const payload: Record<string, unknown> = { job_id, status, created_at };
  if (started_at !== undefined) payload.started_at = started_at;
  if (status === "cancelled") payload.cancelled_at = record.cancelled_at;
  else payload.completed_at = record.completed_at;
  if (status === "completed") {
    payload.execution_time_ms = record.execution_time_ms;
    payload.outputs = { images: record.outputs?.images ?? [] };
  }
  if (status === "failed" && record.error) {
    const { code, message, node_id } = record.error;
    payload.error = node_id === undefined ? { code, message } : { code, message, node_id };
  }
  if (metadata !== undefined) payload.metadata = metadata;
  return payload;
}
