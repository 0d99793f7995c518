import * as v from "valibot";
import { JsonObject } from "./json.ts";

/** Every code an API error may carry and its HTTP status (spec section 7.1, contract section 4). */
export const ERROR_STATUS = {
  invalid_json: 400,
  invalid_request: 400,
  invalid_webhook_url: 400,
  missing_auth: 401,
  invalid_auth_format: 401,
  invalid_api_key: 401,
  revoked_api_key: 401,
  account_suspended: 403,
  job_not_found: 404,
  not_found: 404,
  method_not_allowed: 405,
  job_not_finished: 409,
  webhook_not_redeliverable: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  invalid_prompt: 422,
  idempotency_key_reused: 422,
  rate_limit_exceeded: 429,
  queue_full: 429,
  internal_error: 500,
  service_unavailable: 503,
} as const;
export type ErrorCode = keyof typeof ERROR_STATUS;

/** The body of every refusal (contract section 4). */
export const ErrorEnvelope = v.object({
  error: v.object({
    code: v.picklist(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
    message: v.string(),
    details: v.optional(JsonObject),
    request_id: v.string(),
  }),
});
export type ErrorEnvelope = v.InferOutput<typeof ErrorEnvelope>;

/** A refusal as a value: what the caller did wrong, in words meant for it. */
export interface Refusal {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details?: JsonObject;
}
