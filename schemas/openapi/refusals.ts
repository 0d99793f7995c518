import { ERROR_STATUS, type ErrorCode, type ErrorEnvelope, type Refusal } from "../error.ts";
import { MAX_BODY_BYTES, MAX_REDELIVERIES_PER_WINDOW } from "../limits.ts";
import { REQUEST_ID, V1_HEADERS } from "./headers.ts";
import { type Answer, type Example, headerRef, type Reference, schemaRef } from "./operation.ts";

/** The refusals of the API in the service's own words, by the name of their example. */
const REFUSALS = {
  missing_auth: {
    code: "missing_auth",
    message: 'Send your API key in the header "Authorization: Bearer <API_KEY>".',
  },
  invalid_auth_format: {
    code: "invalid_auth_format",
    message: 'The Authorization header must be "Bearer <API_KEY>".',
  },
  invalid_api_key: { code: "invalid_api_key", message: "This API key does not exist." },
  sandbox_key: {
    code: "invalid_api_key",
    message: "Sandbox keys (sk_test_) are not available yet. Use a live key.",
  },
  revoked_api_key: { code: "revoked_api_key", message: "This API key was revoked." },
  account_suspended: { code: "account_suspended", message: "This account is suspended. Contact support." },
  rate_limit_exceeded: {
    code: "rate_limit_exceeded",
    message: "Too many requests. The window resets in 12 s.",
  },
  too_many_waits: { code: "rate_limit_exceeded", message: "At most 100 requests of a key may wait at once." },
  queue_full: {
    code: "queue_full",
    message: "This key's 5 queue places are taken. Wait for jobs to end.",
    details: { limit: 5, queued: 5 },
  },
  job_not_found: { code: "job_not_found", message: "There is no such job." },
  not_found: { code: "not_found", message: "There is nothing at this address." },
  job_not_finished: { code: "job_not_finished", message: "This job has not ended. Cancel it first." },
  webhook_not_redeliverable: {
    code: "webhook_not_redeliverable",
    message:
      "There is nothing to deliver again: the job has not ended, has no webhook_url, or is being delivered right now.",
  },
  no_webhook: { code: "not_found", message: "This job was submitted without webhook_url." },
  too_many_redeliveries: {
    code: "rate_limit_exceeded",
    message: `At most ${MAX_REDELIVERIES_PER_WINDOW} redeliveries of an account may be asked for in a minute. The window resets in 12 s.`,
  },
  bad_after: {
    code: "invalid_request",
    message: "after must be the next_after of an earlier page, or an event's id.",
    details: { field: "after" },
  },
  event_gone: {
    code: "invalid_request",
    message: "after names an event that is not kept any more. Leave it out to begin with the oldest one.",
    details: { field: "after" },
  },
  invalid_json: { code: "invalid_json", message: "The body is not valid JSON in UTF-8." },
  body_not_an_object: { code: "invalid_request", message: "The body must be a JSON object." },
  prompt_missing: {
    code: "invalid_request",
    message: "prompt is required and must be an object: a workflow in ComfyUI's API format.",
    details: { field: "prompt" },
  },
  option_out_of_bounds: {
    code: "invalid_request",
    message: "timeout_s: Invalid value: Expected <=3600 but received 4000",
    details: { field: "timeout_s" },
  },
  too_deep: { code: "invalid_request", message: "The body is nested deeper than 100 levels." },
  bad_idempotency_key: {
    code: "invalid_request",
    message: "Idempotency-Key must have 1 to 255 visible ASCII characters.",
    details: { field: "Idempotency-Key" },
  },
  invalid_webhook_url: {
    code: "invalid_webhook_url",
    message: "webhook_url is refused: its address is not publicly reachable.",
    details: { field: "webhook_url" },
  },
  bad_wait: {
    code: "invalid_request",
    message: "wait must be a whole number of seconds from 1 to 60.",
    details: { field: "wait" },
  },
  bad_limit: {
    code: "invalid_request",
    message: "limit must be an integer of at least 1.",
    details: { field: "limit" },
  },
  bad_cursor: {
    code: "invalid_request",
    message: "cursor is not one of this list's.",
    details: { field: "cursor" },
  },
  bad_status: {
    code: "invalid_request",
    message: "status must be one of queued, running, completed, failed, cancelled.",
    details: { field: "status" },
  },
  bad_time: {
    code: "invalid_request",
    message: "created_after must be an ISO 8601 time, such as 2026-01-31T09:00:00Z.",
    details: { field: "created_after" },
  },
  payload_too_large: {
    code: "payload_too_large",
    message: `The body may have at most ${MAX_BODY_BYTES} bytes.`,
    details: { max_bytes: MAX_BODY_BYTES },
  },
  unsupported_media_type: {
    code: "unsupported_media_type",
    message: "Send the body as Content-Type: application/json.",
  },
  compressed_body: { code: "unsupported_media_type", message: "Compressed bodies are not supported." },
  broken_link: {
    code: "invalid_prompt",
    message: "The prompt has an error.",
    details: {
      node_errors: {
        "2": [
          {
            field: "images",
            reason: "unknown_node",
            message: 'This input is linked to node "7", which is not in the prompt.',
          },
        ],
      },
    },
  },
  unknown_class: {
    code: "invalid_prompt",
    message: "No runner of this service has the class SaveImages.",
    details: {
      node_errors: {
        "2": [
          {
            field: "class_type",
            reason: "unknown_class",
            message: "No runner of this service has the class SaveImages. The nearest known class is SaveImage.",
          },
        ],
      },
    },
  },
  idempotency_key_reused: {
    code: "idempotency_key_reused",
    message: "This Idempotency-Key was used with another body.",
    details: { field: "Idempotency-Key" },
  },
  wrong_method_for_jobs: {
    code: "method_not_allowed",
    message: "This address allows GET, HEAD, OPTIONS, POST.",
  },
  wrong_method_for_job: {
    code: "method_not_allowed",
    message: "This address allows DELETE, GET, HEAD, OPTIONS.",
  },
  wrong_method_for_cancel: { code: "method_not_allowed", message: "This address allows OPTIONS, POST." },
  wrong_method_for_redeliver: { code: "method_not_allowed", message: "This address allows OPTIONS, POST." },
  wrong_method_for_webhook: { code: "method_not_allowed", message: "This address allows GET, HEAD, OPTIONS." },
  wrong_method_for_events: { code: "method_not_allowed", message: "This address allows GET, HEAD, OPTIONS." },
  wrong_method_for_limits: { code: "method_not_allowed", message: "This address allows GET, HEAD, OPTIONS." },
  internal_error: {
    code: "internal_error",
    message: "The service failed. It was not your request; try again.",
  },
  service_unavailable: { code: "service_unavailable", message: "The service is busy. Try again shortly." },
} satisfies Record<string, Refusal>;

export type RefusalName = keyof typeof REFUSALS;

const WHAT: Readonly<Record<ErrorCode, string>> = {
  missing_auth: "There is no Authorization header.",
  invalid_auth_format: "The Authorization header is not `Bearer <API_KEY>`.",
  invalid_api_key: "There is no such API key.",
  revoked_api_key: "The API key was revoked.",
  account_suspended: "The account is suspended. Its queued jobs wait, its running jobs finish.",
  invalid_json: "The body is not JSON.",
  invalid_request:
    "A part of the request is malformed or out of bounds; `details.field` names it where one is to blame.",
  invalid_webhook_url: "The webhook URL may not be called; the message names the rule.",
  job_not_found: "The account has no such job. It may have expired or been deleted.",
  not_found: "There is nothing at this address, or not with this method.",
  method_not_allowed: "Any other method at this address.",
  job_not_finished: "The job has not ended.",
  webhook_not_redeliverable: "The job has not ended, has no webhook URL, or a round of deliveries is under way.",
  payload_too_large: "The body is larger than `details.max_bytes`.",
  unsupported_media_type: "The body is not `application/json`, or it is compressed.",
  invalid_prompt: "The workflow can't run; `details.node_errors` says why, by node.",
  idempotency_key_reused: "The Idempotency-Key belongs to a submission with another body.",
  rate_limit_exceeded: "The window's requests or redeliveries are used up, or too many requests wait at once.",
  queue_full: "All slots and queue places of this key are taken.",
  internal_error: "The service failed.",
  service_unavailable: "The service is overloaded for the moment.",
};

const HEADERS_OF: Readonly<Partial<Record<number, Readonly<Record<string, Reference>>>>> = {
  401: { "WWW-Authenticate": headerRef("Authenticate") },
  405: { Allow: headerRef("Allow") },
  429: { "Retry-After": headerRef("RetryAfter") },
  503: { "Retry-After": headerRef("RetryAfter") },
};

function exampleOf({ code, message, details }: Refusal): Example {
  const value: ErrorEnvelope = {
    error: {
      code,
      message,
      ...(details === undefined ? {} : { details }),
      request_id: "0b0e4f4e-6a43-4a9a-9a51-6d3c1a1f7b52",
    },
  };
  return { value };
}

/** One answer for each status among these refusals, with every one of them as an example. */
export function refusals(names: readonly RefusalName[], everywhere = V1_HEADERS): Record<string, Answer> {
  const answers: Record<string, Answer> = {};
  const statuses = new Set(names.map((name) => ERROR_STATUS[REFUSALS[name].code]));
  for (const status of statuses) {
    const here = names.filter((name) => ERROR_STATUS[REFUSALS[name].code] === status);
    const codes = [...new Set<ErrorCode>(here.map((name) => REFUSALS[name].code))];
    answers[status] = {
      description: codes.map((code) => `\`${code}\`: ${WHAT[code]}`).join("\n\n"),
      headers: { ...everywhere, ...HEADERS_OF[status] },
      content: {
        "application/json": {
          schema: schemaRef("ErrorEnvelope"),
          examples: Object.fromEntries(here.map((name) => [name, exampleOf(REFUSALS[name])])),
        },
      },
    };
  }
  return answers;
}

/** Refusals that many operations share; an operation refers to them by these names. */
export const SHARED_REFUSALS = {
  Unauthorized: refusals([
    "missing_auth",
    "invalid_auth_format",
    "invalid_api_key",
    "sandbox_key",
    "revoked_api_key",
  ])[401],
  Suspended: refusals(["account_suspended"])[403],
  JobNotFound: refusals(["job_not_found"])[404],
  TooManyRequests: refusals(["rate_limit_exceeded"])[429],
  InternalError: refusals(["internal_error"])[500],
  Unavailable: refusals(["service_unavailable"])[503],
  PublicInternalError: refusals(["internal_error"], REQUEST_ID)[500],
} satisfies Record<string, Answer | undefined>;
