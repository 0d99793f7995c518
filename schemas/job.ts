import * as v from "valibot";
import { JobId } from "./ids.ts";
import { JsonObject } from "./json.ts";
import { MAX_METADATA_BYTES } from "./limits.ts";

/** ISO 8601, UTC, milliseconds. */
export const Timestamp = v.pipe(v.string(), v.isoTimestamp());

/** Spec section 3 and contract section 1. The last three are terminal and never change again. */
export const JobStatus = v.picklist(["queued", "running", "completed", "failed", "cancelled"]);
export type JobStatus = v.InferOutput<typeof JobStatus>;

/** `error.code` of a failed job (contract section 4, "Job error codes"). */
export const JobErrorCode = v.picklist([
  "execution_failed",
  "invalid_prompt",
  "missing_node",
  "missing_model",
  "input_download_failed",
  "out_of_memory",
  "timeout",
  "queue_timeout",
  "stalled",
  "runner_lost",
  "engine_crashed",
  "no_outputs",
  "output_upload_failed",
  "outputs_too_large",
  "internal_error",
]);
export type JobErrorCode = v.InferOutput<typeof JobErrorCode>;

export const JobError = v.object({
  code: JobErrorCode,
  message: v.string(),
  node_id: v.optional(v.string()),
  details: v.optional(JsonObject),
});
export type JobError = v.InferOutput<typeof JobError>;

export const OutputKind = v.picklist(["image", "video", "audio", "text", "file"]);
export type OutputKind = v.InferOutput<typeof OutputKind>;

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Milliseconds = v.pipe(v.number(), v.minValue(0));

/** What an output is, without where it lies. */
export const OutputDescription = v.object({
  node_id: v.pipe(v.string(), v.maxLength(200)),
  filename: v.pipe(v.string(), v.minLength(1), v.maxLength(255)),
  kind: OutputKind,
  content_type: v.pipe(v.string(), v.maxLength(200)),
  size_bytes: Count,
  /** Lower-case hex of the bytes' SHA-256. */
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
});
export type OutputDescription = v.InferOutput<typeof OutputDescription>;

export const OutputFile = v.object({ url: v.pipe(v.string(), v.url()), ...OutputDescription.entries });
export type OutputFile = v.InferOutput<typeof OutputFile>;

export const Progress = v.object({
  value: v.pipe(v.number(), v.minValue(0), v.maxValue(1)),
  node_id: v.optional(v.string()),
  node_class: v.optional(v.string()),
  step: v.optional(Count),
  steps: v.optional(Count),
  nodes_done: v.optional(Count),
  nodes_total: v.optional(Count),
});
export type Progress = v.InferOutput<typeof Progress>;

/** Where the time went: waiting, fetching inputs, in the engine, storing outputs. */
export const Timing = v.object({
  queue_ms: Milliseconds,
  download_ms: Milliseconds,
  execution_ms: Milliseconds,
  upload_ms: Milliseconds,
});
export type Timing = v.InferOutput<typeof Timing>;

/** The caller's own words, returned with the job. */
export const Metadata = v.pipe(
  JsonObject,
  v.check(
    (value) => new TextEncoder().encode(JSON.stringify(value)).length <= MAX_METADATA_BYTES,
    `must be at most ${MAX_METADATA_BYTES} bytes as JSON`,
  ),
);

/** The record of a job, in one shape everywhere (contract section 1). A field that does not apply is absent. */
export const JobRecord = v.object({
  job_id: JobId,
  status: JobStatus,
  created_at: Timestamp,
  started_at: v.optional(Timestamp),
  completed_at: v.optional(Timestamp),
  cancelled_at: v.optional(Timestamp),
  execution_time_ms: v.optional(Milliseconds),
  outputs: v.optional(v.object({ images: v.array(v.pipe(v.string(), v.url())), files: v.array(OutputFile) })),
  error: v.optional(JobError),
  queue_position: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  progress: v.optional(Progress),
  attempt: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  timing: v.optional(Timing),
  metadata: v.optional(JsonObject),
  webhook: v.optional(
    v.object({
      status: v.picklist(["pending", "delivered", "failed"]),
      attempts: Count,
      last_status: v.optional(v.pipe(v.number(), v.integer())),
    }),
  ),
  expires_at: v.optional(Timestamp),
  urls: v.object({ self: v.pipe(v.string(), v.url()) }),
});
export type JobRecord = v.InferOutput<typeof JobRecord>;

export const JobList = v.object({
  jobs: v.array(JobRecord),
  has_more: v.boolean(),
  next_cursor: v.optional(v.string()),
});
export type JobList = v.InferOutput<typeof JobList>;

/** What a submission says beside its prompt and webhook URL, which have rules and codes of their own (contract section 2). */
export const SubmissionOptions = v.object({
  metadata: v.optional(Metadata),
  /** The engine's time, from each attempt's start. */
  timeout_s: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(3600)), 600),
  /** From `created_at` to the first start, and afresh after the loss of an attempt. */
  queue_timeout_s: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400)), 3600),
  /** Orders one key's own jobs that no runner has accepted yet; higher goes first. */
  priority: v.optional(v.pipe(v.number(), v.integer(), v.minValue(-10), v.maxValue(10)), 0),
});
export type SubmissionOptions = v.InferOutput<typeof SubmissionOptions>;
