import { MAX_BODY_BYTES, WINDOW_MS } from "../limits.ts";
import { type Header, headerRef, type Reference } from "./operation.ts";

/** Every header that an answer may carry, beside HTTP's own. */
export const HEADERS = {
  RequestId: {
    description: "Names this answer; the same as `error.request_id`. Tell it when you ask for help.",
    required: true,
    schema: { type: "string", format: "uuid" },
    example: "0b0e4f4e-6a43-4a9a-9a51-6d3c1a1f7b52",
  },
  RateLimit: {
    description: "Requests allowed in the window.",
    required: true,
    schema: { type: "integer", minimum: 1 },
    example: 300,
  },
  RateRemaining: {
    description: "Requests left in the window.",
    required: true,
    schema: { type: "integer", minimum: 0 },
    example: 299,
  },
  RateReset: {
    description: "When the window ends, as a Unix timestamp in seconds.",
    required: true,
    schema: { type: "integer", minimum: 0 },
    example: 1772366460,
  },
  RatePolicy: {
    description: `The window as the IETF draft writes it: q requests in w = ${WINDOW_MS / 1000} seconds.`,
    required: true,
    schema: { type: "string" },
    example: '"default";q=300;w=60',
  },
  RateState: {
    description: "The window's state as the IETF draft writes it: r requests left, t seconds until it ends.",
    required: true,
    schema: { type: "string" },
    example: '"default";r=299;t=58',
  },
  RetryAfter: {
    description: "Whole seconds to wait before the next request.",
    required: true,
    schema: { type: "integer", minimum: 1 },
    example: 12,
  },
  RetryAfterWhileOpen: {
    description: "Whole seconds to wait before the job is read again. Absent when it has ended.",
    schema: { type: "integer", minimum: 1 },
    example: 1,
  },
  Location: {
    description: "The job's address, as in `urls.self`.",
    required: true,
    schema: { type: "string", format: "uri" },
    example: "https://darkroom.example.com/v1/jobs/01994f3a-58f0-7c3e-9d55-0f6f1c8a2b41",
  },
  PreferenceApplied: {
    description: "The preference that was applied. Absent without a valid `Prefer: wait=N`.",
    schema: { type: "string", pattern: "^wait=[0-9]+$" },
    example: "wait=30",
  },
  IdempotentReplayed: {
    description: "`true` when the job was submitted before with the same Idempotency-Key. Absent otherwise.",
    schema: { type: "string", const: "true" },
    example: "true",
  },
  Authenticate: {
    description: "The scheme that the service wants (RFC 9110).",
    required: true,
    schema: { type: "string", const: "Bearer" },
    example: "Bearer",
  },
  Allow: {
    description: "The methods that this address has.",
    required: true,
    schema: { type: "string" },
    example: "GET, HEAD, POST",
  },
  ETag: {
    description: "Names these bytes. Give it as `If-None-Match` to be told that they are unchanged.",
    required: true,
    schema: { type: "string" },
    example: '"5f2b51ca2fdc5baa31ec02e002f69aec"',
  },
  CacheControl: {
    description: "How long the answer may be kept, and by whom.",
    required: true,
    schema: { type: "string" },
    example: "private, max-age=3600",
  },
  ContentRange: {
    description: "Which bytes these are, and of how many; `*` where the range could not be had.",
    required: true,
    schema: { type: "string", pattern: "^bytes ([0-9]+-[0-9]+|[*])/[0-9]+$" },
    example: `bytes 0-1023/${MAX_BODY_BYTES}`,
  },
  ContentDisposition: {
    description: "`inline` for PNG, JPEG, WebP, GIF, AVIF, video, audio and plain text, else `attachment`.",
    required: true,
    schema: { type: "string" },
    example: "inline; filename*=UTF-8''hello_00001_.png",
  },
} as const satisfies Record<string, Header>;

/** On every answer. */
export const REQUEST_ID: Readonly<Record<string, Reference>> = { "X-Request-Id": headerRef("RequestId") };

/** On every answer under /v1/, refusals included (spec section 8.2). */
export const V1_HEADERS: Readonly<Record<string, Reference>> = {
  ...REQUEST_ID,
  "X-RateLimit-Limit": headerRef("RateLimit"),
  "X-RateLimit-Remaining": headerRef("RateRemaining"),
  "X-RateLimit-Reset": headerRef("RateReset"),
  "RateLimit-Policy": headerRef("RatePolicy"),
  RateLimit: headerRef("RateState"),
};
