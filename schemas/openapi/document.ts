import { namedSchemas } from "./components.ts";
import { HEADERS } from "./headers.ts";
import { JOB_PATHS } from "./jobs.ts";
import { LIMIT_PATHS } from "./limits.ts";
import { type Parameter, schemaRef } from "./operation.ts";
import { PUBLIC_PATHS } from "./public.ts";
import { NOTIFICATION_PATHS } from "./notifications.ts";
import { SHARED_REFUSALS } from "./refusals.ts";
import { WEBHOOKS } from "./webhooks.ts";

const ABOUT = `
Darkroom runs ComfyUI workflows on a fleet of GPU runners. Submit a workflow, then read the job until it has ended, wait for it, or
be told by a webhook. The pictures are at the addresses in the job's record.

**Keys.** Every request under \`/v1/\` carries \`Authorization: Bearer <API_KEY>\`. A key in a URL is never accepted.

**Limits.** Each key has a number of requests a minute, of slots for jobs, and of queue places beyond its slots:

| tier | requests a minute | slots | queue places |
| --- | --- | --- | --- |
| Free | 60 | 2 | 5 |
| Pro | 300 | 10 | 50 |
| Enterprise | 1000 | 50 | 500 |

A submission takes a slot, else a queue place, else it is refused with 429 \`queue_full\`. Every answer under \`/v1/\` says in its
headers how many requests are left; past the limit it is 429 \`rate_limit_exceeded\`, which costs nothing. Wait as long as
\`Retry-After\` says.

**Errors.** Every refusal has the same body. Branch on \`error.code\`, and show \`error.message\` to people. Refusals come in this
order: key, limit, address and method, size, media type, JSON, fields, idempotency, webhook URL, workflow, queue. An unknown
address is 404 \`not_found\`. \`HEAD\` works wherever \`GET\` does.

**Growth.** New fields, codes of failed jobs and headers may appear at any time; ignore what you do not know. What is here does not
change its meaning within \`/v1\`.

**Retention.** An ended job, its outputs included, is kept for 24 hours (Free), 7 days (Pro) or 30 days (Enterprise).
`.trim();

const PARAMETERS: Readonly<Record<string, Parameter>> = {
  JobId: {
    name: "job_id",
    in: "path",
    required: true,
    description: "The job's `job_id`.",
    schema: schemaRef("JobId"),
  },
  Wait: {
    name: "wait",
    in: "query",
    description: "Seconds to wait for the job's end. At most 100 requests of a key may wait at once.",
    schema: { type: "integer", minimum: 1, maximum: 60 },
  },
  Prefer: {
    name: "Prefer",
    in: "header",
    description:
      "`wait=N` (RFC 7240): seconds to wait for the job's end, 1 to 60, as in `wait=30`. Anything else is ignored.",
    schema: { type: "string" },
  },
  IdempotencyKey: {
    name: "Idempotency-Key",
    in: "header",
    description:
      "Your name for this submission within the account: 1 to 255 visible ASCII characters. Remembered for 24 hours, or until the job has ended where that is later, once the submission was accepted. The same name with the same body gets the first answer's status and the job's current record; with another body it is refused.",
    schema: { type: "string", minLength: 1, maxLength: 255, pattern: "^[\\x21-\\x7e]+$" },
  },
};

/** The OpenAPI 3.1 document of the public API. Where the service is reached is filled in when it is served. */
export const openApiDocument = () => ({
  openapi: "3.1.0",
  info: {
    title: "Darkroom API",
    version: "1.0.0",
    summary: "Runs ComfyUI workflows on GPUs and keeps the pictures.",
    description: ABOUT,
  },
  servers: [{ url: "/", description: "This service" }],
  security: [{ apiKey: [] }],
  tags: [
    { name: "Jobs", description: "Submit workflows and see what becomes of them." },
    { name: "Notifications", description: "How webhooks were delivered, and what has ended." },
    { name: "Limits", description: "What a key may use." },
    { name: "Outputs", description: "The pictures and other files that jobs have made." },
    { name: "Service", description: "The service itself. Needs no key." },
  ],
  paths: { ...JOB_PATHS, ...NOTIFICATION_PATHS, ...LIMIT_PATHS, ...PUBLIC_PATHS },
  webhooks: WEBHOOKS,
  components: {
    securitySchemes: {
      apiKey: {
        type: "http",
        scheme: "bearer",
        description: "An API key: `sk_live_` and 43 characters, 51 in all. Keys are made in the portal and shown once.",
      },
    },
    schemas: namedSchemas(),
    parameters: PARAMETERS,
    headers: HEADERS,
    responses: SHARED_REFUSALS,
  },
});
