import type { WebhookEvent } from "../webhook.ts";
import { NOTIFICATIONS } from "./examples.ts";
import { type Parameter, type PathItem, schemaRef } from "./operation.ts";

/** The notifications that the service sends (spec section 6, contract section 5). */

const header = (name: string, description: string, schema: Parameter["schema"], example: unknown): Parameter => ({
  name,
  in: "header",
  required: true,
  description,
  schema,
  example,
});

const parameters = (event: WebhookEvent): Parameter[] => [
  header(
    "X-Webhook-ID",
    "Unique to this attempt.",
    { type: "string", format: "uuid" },
    "5b0d6a5e-7d0c-4a53-8f3e-a1c1f5a0f0b7",
  ),
  header(
    "X-Webhook-Timestamp",
    "When it was sent, ISO 8601, UTC, milliseconds. Reject a delivery that is more than 300 s away from your clock.",
    { type: "string", format: "date-time" },
    "2026-03-01T12:00:09.602Z",
  ),
  header("X-Webhook-Event", "What happened.", { type: "string", const: event }, event),
  header(
    "X-Webhook-Signature",
    "`sha256=` and the lower-case hex of HMAC-SHA256 over the X-Webhook-Timestamp header, a period and the raw body, keyed with the account's webhook secret. Compare in constant time.",
    { type: "string", pattern: "^sha256=[0-9a-f]{64}$" },
    "sha256=6f1ed002ab5595859014ebf0951522d9f5a2f0b2b1e5a1c4d0b2f6f7a9c3e1d8",
  ),
  header(
    "webhook-id",
    "Standard Webhooks: names the event; the same in every attempt.",
    { type: "string" },
    "evt_01994f3a-58f0-7c3e-9d55-0f6f1c8a2b41",
  ),
  header("webhook-timestamp", "Standard Webhooks: Unix seconds.", { type: "string" }, "1772366409"),
  header(
    "webhook-signature",
    "Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over webhook-id, webhook-timestamp and the raw body, joined by periods, keyed with the same secret. After the secret was regenerated it carries both signatures for 24 h, separated by a space.",
    { type: "string" },
    "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
  ),
];

const DESCRIPTION = [
  "Sent once when a job that was submitted with a `webhook_url` has ended. A delivery may arrive more than once: keep what you have seen by `job_id`.",
  "Answer with a 2xx status within 10 seconds. Anything else, a redirect too, is a failure: three more attempts follow, after 1, 5 and 30 seconds. The body's bytes are the same in every attempt; its time, signature and `X-Webhook-ID` are new.",
].join("\n\n");

function notification(event: WebhookEvent, schema: string, what: string): PathItem {
  return {
    post: {
      operationId: `on${schema.replace("Notification", "")}`,
      summary: what,
      security: [],
      description: DESCRIPTION,
      parameters: parameters(event),
      requestBody: {
        description: "What the job has come to.",
        required: true,
        content: { "application/json": { schema: schemaRef(schema), example: NOTIFICATIONS[event] } },
      },
      responses: {
        "2XX": { description: "The receiver has it." },
        "4XX": { description: "A failure: it is sent again." },
        "5XX": { description: "A failure: it is sent again." },
      },
    },
  };
}

export const WEBHOOKS: Readonly<Record<WebhookEvent, PathItem>> = {
  "job.completed": notification("job.completed", "CompletedNotification", "A job has completed"),
  "job.failed": notification("job.failed", "FailedNotification", "A job has failed"),
  "job.cancelled": notification("job.cancelled", "CancelledNotification", "A job was cancelled"),
};
