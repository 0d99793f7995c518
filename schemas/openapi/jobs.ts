import { MAX_BODY_BYTES } from "../limits.ts";
import { CANCELLED, COMPLETED, FAILED, FULL_SUBMISSION, LIST, QUEUED, RUNNING, SUBMISSION } from "./examples.ts";
import { V1_HEADERS } from "./headers.ts";
import {
  type Answer,
  answerRef,
  headerRef,
  type Operation,
  parameterRef,
  type PathItem,
  schemaRef,
} from "./operation.ts";
import { refusals } from "./refusals.ts";

/** What every operation under /v1/ may answer. */
export const EVERYWHERE: Operation["responses"] = {
  401: answerRef("Unauthorized"),
  403: answerRef("Suspended"),
  429: answerRef("TooManyRequests"),
  500: answerRef("InternalError"),
  503: answerRef("Unavailable"),
};

const record = (description: string, examples: Record<string, unknown>, headers: Answer["headers"] = {}): Answer => ({
  description,
  headers: { ...V1_HEADERS, ...headers },
  content: {
    "application/json": {
      schema: schemaRef("JobRecord"),
      examples: Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }])),
    },
  },
});

const submitted = {
  Location: headerRef("Location"),
  "Preference-Applied": headerRef("PreferenceApplied"),
  "Idempotent-Replayed": headerRef("IdempotentReplayed"),
};

const submit: Operation = {
  operationId: "submitJob",
  summary: "Submit a job",
  tags: ["Jobs"],
  description: [
    "Stores a job that runs a ComfyUI workflow, and answers with its record. A 2xx means that the job is durably stored: it will end, as `completed`, `failed` or `cancelled`.",
    `The body has at most ${MAX_BODY_BYTES / 1024 ** 2} MiB, 200,000 JSON values and 100 levels.`,
    "With `Prefer: wait=N` the answer comes when the job has ended, or after N seconds. A client that hangs up never cancels its job.",
    "With an `Idempotency-Key` it is safe to send the same submission again when an answer was lost: it is answered with the first one's job.",
  ].join("\n\n"),
  parameters: [parameterRef("Prefer"), parameterRef("IdempotencyKey")],
  requestBody: {
    description: "The workflow and what is to happen with it.",
    required: true,
    content: {
      "application/json": {
        schema: schemaRef("Submission"),
        examples: {
          smallest: { summary: "A prompt and nothing else", value: SUBMISSION },
          full: { summary: "With every option", value: FULL_SUBMISSION },
        },
      },
    },
  },
  responses: {
    200: record("The job has ended within the wait.", { completed: COMPLETED, failed: FAILED }, submitted),
    202: record(
      "The job is stored.",
      { queued: QUEUED, running: RUNNING },
      { ...submitted, "Retry-After": headerRef("RetryAfterWhileOpen") },
    ),
    ...EVERYWHERE,
    ...refusals([
      "invalid_json",
      "body_not_an_object",
      "prompt_missing",
      "option_out_of_bounds",
      "too_deep",
      "bad_idempotency_key",
      "invalid_webhook_url",
      "job_not_found",
      "wrong_method_for_jobs",
      "payload_too_large",
      "unsupported_media_type",
      "compressed_body",
      "broken_link",
      "unknown_class",
      "idempotency_key_reused",
      "rate_limit_exceeded",
      "queue_full",
    ]),
  },
};

const list: Operation = {
  operationId: "listJobs",
  summary: "List jobs",
  tags: ["Jobs"],
  description:
    "The account's jobs, whichever of its keys submitted them, newest first. Follow `next_cursor` while `has_more` is true, with the same filters.",
  parameters: [
    {
      name: "limit",
      in: "query",
      description: "Jobs on a page. More than 100 is taken as 100.",
      schema: { type: "integer", minimum: 1, default: 20 },
    },
    {
      name: "cursor",
      in: "query",
      description: "`next_cursor` of the page before.",
      schema: { type: "string" },
    },
    { name: "status", in: "query", description: "Only jobs in this state.", schema: schemaRef("JobStatus") },
    {
      name: "created_after",
      in: "query",
      description:
        "Only jobs submitted after this ISO 8601 time, as in 2026-03-01T00:00:00Z; that instant itself is excluded.",
      schema: { type: "string", format: "date-time" },
    },
    {
      name: "created_before",
      in: "query",
      description: "Only jobs submitted before this ISO 8601 time; that instant itself is excluded.",
      schema: { type: "string", format: "date-time" },
    },
  ],
  responses: {
    200: {
      description: "A page of jobs.",
      headers: V1_HEADERS,
      content: { "application/json": { schema: schemaRef("JobList"), example: LIST } },
    },
    ...EVERYWHERE,
    ...refusals(["bad_limit", "bad_cursor", "bad_status", "bad_time"]),
  },
};

const read: Operation = {
  operationId: "getJob",
  summary: "Read a job",
  tags: ["Jobs"],
  description:
    "The record of a job in whatever state it is. With `wait` the answer comes when the job has ended, or after that many seconds; without, at once.",
  parameters: [parameterRef("JobId"), parameterRef("Wait")],
  responses: {
    200: record(
      "The job as it is.",
      { queued: QUEUED, running: RUNNING, completed: COMPLETED, failed: FAILED, cancelled: CANCELLED },
      { "Retry-After": headerRef("RetryAfterWhileOpen") },
    ),
    ...EVERYWHERE,
    404: answerRef("JobNotFound"),
    ...refusals(["bad_wait", "wrong_method_for_job", "rate_limit_exceeded", "too_many_waits"]),
  },
};

const remove: Operation = {
  operationId: "deleteJob",
  summary: "Delete a job",
  tags: ["Jobs"],
  description: "Removes an ended job: its record, its outputs and a notification that is still owed.",
  parameters: [parameterRef("JobId")],
  responses: {
    204: { description: "The job is gone.", headers: V1_HEADERS },
    ...EVERYWHERE,
    404: answerRef("JobNotFound"),
    ...refusals(["job_not_finished"]),
  },
};

const cancel: Operation = {
  operationId: "cancelJob",
  summary: "Cancel a job",
  tags: ["Jobs"],
  description:
    "Ends a job that has not ended, at once, also while it runs; what its runner still produces is dropped. A job that has ended stays as it is. May be repeated. Has no body.",
  parameters: [parameterRef("JobId")],
  responses: {
    200: record("The job, ended now or before.", { cancelled: CANCELLED, completed: COMPLETED }),
    ...EVERYWHERE,
    404: answerRef("JobNotFound"),
    ...refusals(["wrong_method_for_cancel"]),
  },
};

export const JOB_PATHS: Readonly<Record<string, PathItem>> = {
  "/v1/jobs": { post: submit, get: list },
  "/v1/jobs/{job_id}": { get: read, delete: remove },
  "/v1/jobs/{job_id}/cancel": { post: cancel },
};
