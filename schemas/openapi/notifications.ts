import { COMPLETED, DELIVERY, EVENTS } from "./examples.ts";
import { V1_HEADERS } from "./headers.ts";
import { EVERYWHERE } from "./jobs.ts";
import { answerRef, type Operation, parameterRef, type PathItem, schemaRef } from "./operation.ts";
import { refusals } from "./refusals.ts";

const readDelivery: Operation = {
  operationId: "getJobWebhook",
  summary: "Read a job's delivery log",
  tags: ["Notifications"],
  description:
    "How the delivery of the job's webhook stands, and what came of every attempt, in plain words. Kept as long as the job.",
  parameters: [parameterRef("JobId")],
  responses: {
    200: {
      description: "The delivery and its attempts.",
      headers: V1_HEADERS,
      content: { "application/json": { schema: schemaRef("WebhookDelivery"), example: DELIVERY } },
    },
    ...EVERYWHERE,
    ...refusals(["job_not_found", "no_webhook", "wrong_method_for_webhook"]),
  },
};

const redeliver: Operation = {
  operationId: "redeliverJobWebhook",
  summary: "Deliver a job's webhook again",
  tags: ["Notifications"],
  description:
    "Begins a fresh round of up to four attempts for a job that has ended, whether its webhook was delivered or has failed. At most 10 a minute for an account. Has no body.",
  parameters: [parameterRef("JobId")],
  responses: {
    202: {
      description: "The round has begun; `webhook` tells how it stands.",
      headers: V1_HEADERS,
      content: {
        "application/json": {
          schema: schemaRef("JobRecord"),
          example: { ...COMPLETED, webhook: { status: "pending", attempts: 0 } },
        },
      },
    },
    ...EVERYWHERE,
    404: answerRef("JobNotFound"),
    ...refusals(["webhook_not_redeliverable", "too_many_redeliveries", "wrong_method_for_redeliver"]),
  },
};

const events: Operation = {
  operationId: "listEvents",
  summary: "Read what has ended",
  tags: ["Notifications"],
  description: [
    "The ends of all jobs of the account, in the order in which they ended, the oldest first, with the bodies that their webhooks have or would have. For receivers that were down, and for those that have no public address.",
    "Keep `next_after` and give it as `after` to go on from there, now or next week. An event is there as long as its job is kept.",
  ].join("\n\n"),
  parameters: [
    {
      name: "after",
      in: "query",
      description:
        "`next_after` of an earlier answer; or the id of an event that you have had, such as the `webhook-id` of the last webhook. Absent: from the oldest event on.",
      schema: { type: "string" },
    },
    {
      name: "limit",
      in: "query",
      description: "Events on a page. More than 100 is taken as 100.",
      schema: { type: "integer", minimum: 1, default: 20 },
    },
  ],
  responses: {
    200: {
      description: "A page of events.",
      headers: V1_HEADERS,
      content: { "application/json": { schema: schemaRef("JobEventList"), example: EVENTS } },
    },
    ...EVERYWHERE,
    ...refusals(["bad_limit", "bad_after", "event_gone", "wrong_method_for_events"]),
  },
};

export const NOTIFICATION_PATHS: Readonly<Record<string, PathItem>> = {
  "/v1/jobs/{job_id}/webhook": { get: readDelivery },
  "/v1/jobs/{job_id}/webhook/redeliver": { post: redeliver },
  "/v1/events": { get: events },
};
