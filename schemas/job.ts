import * as v from "valibot";
import { JobId } from "./ids.ts";
import { JsonObject } from "./json.ts";
import { MAX_ATTEMPTS, MAX_CLASS_NAME, MAX_METADATA_BYTES } from "./limits.ts";

/** ISO 8601, UTC, milliseconds. */
export const Timestamp = v.pipe(v.string(), v.isoTimestamp());

/** Words for the reader of the API's document; a validator passes over them. */
export const timestamp = (words: string) => v.pipe(Timestamp, v.description(words));

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
  message: v.pipe(v.string(), v.description("What happened, for people. Its wording may change.")),
  node_id: v.optional(v.pipe(v.string(), v.description("The node of the prompt that failed, where one did."))),
  details: v.optional(v.pipe(JsonObject, v.description("More about the error, different for each code."))),
});
export type JobError = v.InferOutput<typeof JobError>;

export const OutputKind = v.picklist(["image", "video", "audio", "text", "file"]);
export type OutputKind = v.InferOutput<typeof OutputKind>;

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Milliseconds = v.pipe(v.number(), v.minValue(0));

/** What an output is, without where it lies. */
export const OutputDescription = v.object({
  node_id: v.pipe(v.string(), v.maxLength(200), v.description("The node of the prompt that made it.")),
  filename: v.pipe(
    v.string(),
    v.minLength(1),
    v.maxLength(255),
    // It stands in a URL's path: no separator, no control character, no half of a character.
    v.check((name) => /^(?!\.{1,2}$)[^/\\\p{Cc}\p{Cs}]+$/u.test(name), "must be a plain file name"),
    v.description("Its name, as the node gave it."),
  ),
  kind: OutputKind,
  content_type: v.pipe(
    v.string(),
    v.maxLength(200),
    v.check((type) => /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(;[ -~]*)?$/.test(type), "must be a media type"),
    v.description("Its media type."),
  ),
  size_bytes: v.pipe(Count, v.description("Its size in bytes.")),
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/), v.description("SHA-256 of its bytes, lower-case hex.")),
});
export type OutputDescription = v.InferOutput<typeof OutputDescription>;

export const OutputFile = v.object({
  url: v.pipe(v.string(), v.url(), v.description("Where to fetch it, without an API key, until the job's expires_at.")),
  ...OutputDescription.entries,
});
export type OutputFile = v.InferOutput<typeof OutputFile>;

export const Progress = v.object({
  value: v.pipe(v.number(), v.minValue(0), v.maxValue(1), v.description("The share of the work that is done, 0 to 1.")),
  node_id: v.optional(v.pipe(v.string(), v.maxLength(200), v.description("The node that is being executed."))),
  node_class: v.optional(v.pipe(v.string(), v.maxLength(MAX_CLASS_NAME), v.description("The class of that node."))),
  step: v.optional(v.pipe(Count, v.description("The step that this node has reached."))),
  steps: v.optional(v.pipe(Count, v.description("How many steps this node has."))),
  nodes_done: v.optional(v.pipe(Count, v.description("Nodes that are done."))),
  nodes_total: v.optional(v.pipe(Count, v.description("Nodes to be executed."))),
});
export type Progress = v.InferOutput<typeof Progress>;

/** Where the time went: waiting, fetching inputs, in the engine, storing outputs. */
export const Timing = v.object({
  queue_ms: v.pipe(Milliseconds, v.description("Waiting for a slot and a runner, milliseconds.")),
  download_ms: v.pipe(Milliseconds, v.description("Fetching inputs, milliseconds.")),
  execution_ms: v.pipe(Milliseconds, v.description("In the engine, milliseconds.")),
  upload_ms: v.pipe(Milliseconds, v.description("Storing outputs, milliseconds.")),
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

export const Outputs = v.object({
  images: v.pipe(
    v.array(v.pipe(v.string(), v.url())),
    v.description("URLs of the generated images, in order of node id, then index. Empty if there is none."),
  ),
  files: v.pipe(v.array(OutputFile), v.description("Every output of any kind: at most 256 files and 2 GiB in all.")),
});

/** How the notification of a job stands. */
export const WebhookState = v.object({
  status: v.pipe(
    v.picklist(["pending", "delivered", "failed"]),
    v.description("`failed`: every attempt of the round has failed, and no more is made."),
  ),
  attempts: v.pipe(Count, v.description("Attempts made in this round, at most 4.")),
  last_status: v.optional(
    v.pipe(v.number(), v.integer(), v.description("The HTTP status of the last attempt, where the receiver answered.")),
  ),
});

/** The record of a job, in one shape everywhere (contract section 1). A field that does not apply is absent. */
export const JobRecord = v.object({
  job_id: JobId,
  status: JobStatus,
  created_at: timestamp("When the job was submitted."),
  started_at: v.optional(timestamp("When the attempt that runs or ended the job began. Absent if none has.")),
  completed_at: v.optional(timestamp("When a completed or failed job ended.")),
  cancelled_at: v.optional(timestamp("When a cancelled job was cancelled.")),
  execution_time_ms: v.optional(
    v.pipe(Milliseconds, v.description("Completed jobs: the time in the engine, milliseconds.")),
  ),
  outputs: v.optional(Outputs),
  error: v.optional(JobError),
  queue_position: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.description("Queued jobs without a slot: the place among this key's; 1 is next."),
    ),
  ),
  progress: v.optional(Progress),
  attempt: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.maxValue(MAX_ATTEMPTS),
      v.description("Counts up when an attempt that had started was lost or is made again."),
    ),
  ),
  timing: v.optional(Timing),
  metadata: v.optional(v.pipe(JsonObject, v.description("What the submission gave as metadata."))),
  webhook: v.optional(WebhookState),
  expires_at: v.optional(timestamp("Ended jobs: when the record and its outputs are removed.")),
  urls: v.object({
    self: v.pipe(v.string(), v.url(), v.description("This record.")),
    cancel: v.pipe(v.string(), v.url(), v.description("POST here to cancel the job.")),
  }),
});
export type JobRecord = v.InferOutput<typeof JobRecord>;

export const JobList = v.object({
  jobs: v.pipe(v.array(JobRecord), v.description("Newest first.")),
  has_more: v.pipe(v.boolean(), v.description("Whether older jobs follow.")),
  next_cursor: v.optional(v.pipe(v.string(), v.description("Give it as `cursor` to get the jobs that follow."))),
});
export type JobList = v.InferOutput<typeof JobList>;

/** What a submission says beside its prompt and webhook URL, which have rules and codes of their own (contract section 2). */
export const SubmissionOptions = v.object({
  metadata: v.optional(Metadata),
  timeout_s: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.maxValue(3600),
      v.description("The engine's time in seconds, from each attempt's start."),
    ),
    600,
  ),
  queue_timeout_s: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.maxValue(86_400),
      v.description(
        "How long the job may wait in seconds: from created_at to its first start, and afresh after the loss of an attempt.",
      ),
    ),
    3600,
  ),
  priority: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(-10),
      v.maxValue(10),
      v.description("Orders this key's own jobs that no runner has accepted yet; higher goes first."),
    ),
    0,
  ),
});
export type SubmissionOptions = v.InferOutput<typeof SubmissionOptions>;
