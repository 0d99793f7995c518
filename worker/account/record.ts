import type { JobRecord, OutputDescription } from "../../schemas/job.ts";
import type { RetentionClass } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { attemptOf, statusOf } from "./jobs.ts";
import type { StoredJob } from "./store.ts";

/**
 * A job as the account shows it: the public record but for its URLs, which the Worker signs. Travels over RPC.
 */
export interface JobView {
  readonly seq: number;
  readonly record: Omit<JobRecord, "urls" | "outputs">;
  /** Of a completed job. */
  readonly outputs?: {
    readonly account: string;
    readonly retention: RetentionClass;
    readonly fence: number;
    readonly expires_at: number;
    readonly files: readonly OutputDescription[];
  };
}

const iso = (at: number): string => new Date(at).toISOString();

/** Status, times and errors by phase; a field that does not apply is absent (contract section 1). */
export function viewJob(account: Account, stored: StoredJob): JobView {
  const { store } = account;
  const { seq, job } = stored;
  const { end } = job;
  const record: JobView["record"] = {
    job_id: job.job_id,
    status: statusOf(job),
    created_at: iso(job.created_at),
  };
  if (job.started_at !== undefined) record.started_at = iso(job.started_at);
  if (job.phase === "waiting") record.queue_position = store.waitingBefore(stored) + 1;
  const word = account.progress.get(job.job_id);
  if (job.phase === "running" && word?.fence === job.fence) record.progress = word.progress;
  const attempt = attemptOf(job);
  if (attempt !== undefined) record.attempt = attempt;
  if (job.metadata !== undefined) record.metadata = job.metadata;
  if (job.webhook_url !== undefined) {
    const delivery = store.delivery(job.job_id);
    record.webhook = {
      status: delivery?.status ?? "pending",
      attempts: delivery?.n ?? 0,
      ...(delivery?.last_status === undefined ? {} : { last_status: delivery.last_status }),
    };
  }
  if (!end) return { seq, record };
  record[end.status === "cancelled" ? "cancelled_at" : "completed_at"] = iso(end.at);
  record.timing = end.timing;
  record.expires_at = iso(end.expires_at);
  if (end.error !== undefined) record.error = end.error;
  if (end.execution_ms !== undefined) record.execution_time_ms = end.execution_ms;
  if (end.status !== "completed" || end.fence === undefined) return { seq, record };
  const { account_id } = account.mustSettings;
  const { retention, fence, expires_at } = end;
  return {
    seq,
    record,
    outputs: { account: account_id, retention, fence, expires_at, files: store.files(job.job_id) },
  };
}
