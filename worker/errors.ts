import type { Context } from "hono";
import { ERROR_STATUS, type ErrorCode, type ErrorEnvelope, type Refusal } from "../schemas/error.ts";

/** A refusal on its way to the client. The status follows from the code; headers are what the code demands. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly refusal: Refusal;
  readonly headers: Readonly<Record<string, string>>;

  constructor(refusal: Refusal, headers: Readonly<Record<string, string>> = {}) {
    super(refusal.message);
    this.refusal = refusal;
    this.headers = headers;
  }
}

const WORDS: Partial<Record<ErrorCode, string>> = {
  invalid_api_key: "This API key does not exist.",
  revoked_api_key: "This API key was revoked.",
  account_suspended: "This account is suspended. Contact support.",
  job_not_found: "There is no such job.",
  job_not_finished: "This job has not ended. Cancel it first.",
  webhook_not_redeliverable:
    "There is nothing to deliver again: the job has not ended, has no webhook_url, or is being delivered right now.",
  not_found: "There is nothing at this address.",
  internal_error: "The service failed. It was not your request; try again.",
  service_unavailable: "The service is busy. Try again shortly.",
};

/** A refusal in the service's standard words. */
export const refusalOf = (code: ErrorCode, message = WORDS[code] ?? code): Refusal => ({ code, message });

/** The only place that writes the envelope (contract section 4). */
export function errorResponse(c: Context, { refusal, headers }: Pick<ApiError, "refusal" | "headers">): Response {
  const { code, message, details } = refusal;
  const body: ErrorEnvelope = {
    error: { code, message, ...(details === undefined ? {} : { details }), request_id: c.get("requestId") as string },
  };
  const status = ERROR_STATUS[code];
  if (status === 401) c.header("WWW-Authenticate", "Bearer");
  for (const [name, value] of Object.entries(headers)) c.header(name, value);
  return c.json(body, status);
}
