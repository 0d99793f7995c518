import * as v from "valibot";
import { JobError, JobRecord, Outputs } from "./job.ts";

/** Spec section 6.5: seconds to wait after the first, second and third failed attempt. */
export const RETRY_DELAYS_S = [1, 5, 30] as const;
export const MAX_DELIVERY_ATTEMPTS = RETRY_DELAYS_S.length + 1;
/** Spec section 6.1: a slower receiver counts as failed. */
export const RECEIVER_TIMEOUT_MS = 10_000;

export type WebhookEvent = "job.completed" | "job.failed" | "job.cancelled";

/** Why an attempt failed, in words a receiver's owner can act on (contract section 5). */
export type DeliveryFailure =
  | "connection_refused"
  | "dns"
  | "timeout"
  | "tls"
  | "redirect"
  | "http_4xx"
  | "http_5xx"
  | "http_other"
  | "forbidden_target"
  | "network"
  | "claim_expired";

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
