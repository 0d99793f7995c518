import { Hono } from "hono";
import * as v from "valibot";
import type { Refusal } from "../../schemas/error.ts";
import { JobId } from "../../schemas/ids.ts";
import {
  eventIdOf,
  type JobEvent,
  type JobEventList,
  type WebhookDelivery,
  type WebhookEvent,
  webhookPayload,
} from "../../schemas/webhook.ts";
import { MAX_IN_FLIGHT } from "../account/deliveries.ts";
import type { JobView } from "../account/record.ts";
import type { DeliveryView, EventPage, EventsAfter } from "../account/webhook-requests.ts";
import type { AuthVariables } from "../auth.ts";
import type { Env } from "../env.ts";
import { ApiError } from "../errors.ts";
import { presentJob } from "../outputs/present.ts";
import { explain } from "../webhooks/explain.ts";
import { decodeCursor, encodeCursor, Limit, queryRefusal } from "./list-query.ts";

/** How notifications look to API clients: a delivery's log, and the feed of events (contract sections 2 and 5). */

const iso = (at: number): string => new Date(at).toISOString();

/** How a delivery stands, for a person who wonders why nothing comes. */
function standing({ delivery, ended }: DeliveryView): string {
  if (!delivery)
    return ended
      ? "The job was submitted without a webhook."
      : "The job has not ended. Its webhook is sent when it has.";
  if (delivery.status === "delivered") return "The webhook was delivered.";
  if (delivery.status === "failed")
    return "All four attempts have failed, and no more is made. Mend what the log says, then deliver it again.";
  if (delivery.claimed_until !== undefined) return "An attempt is under way.";
  if (delivery.deferred)
    return `It waits: ${MAX_IN_FLIGHT} deliveries of the account are under way, and it is among the next.`;
  return delivery.n === 0 ? "The first attempt is about to be made." : "The last attempt failed; the next one is due.";
}

export function presentDelivery(job_id: string, view: DeliveryView): WebhookDelivery {
  const { webhook_url, delivery, attempts } = view;
  const waits = delivery?.status === "pending" && delivery.claimed_until === undefined && !delivery.deferred;
  return {
    job_id,
    event_id: eventIdOf(job_id),
    target: new URL(webhook_url).origin,
    status: delivery?.status ?? "pending",
    attempts: delivery?.n ?? 0,
    message: standing(view),
    ...(delivery?.last_status === undefined ? {} : { last_status: delivery.last_status }),
    ...(waits ? { next_attempt_at: iso(delivery.due_at) } : {}),
    log: attempts.map((attempt) => {
      const { round, n, at, ok, failure, status, duration_ms, answer, attempt_id } = attempt;
      return {
        round,
        attempt: n,
        at: iso(at),
        delivered: ok,
        message: explain(attempt),
        ...(failure === undefined ? {} : { failure }),
        ...(status === undefined ? {} : { status }),
        duration_ms,
        ...(answer === undefined || answer === "" ? {} : { answer }),
        ...(attempt_id === undefined ? {} : { webhook_id: attempt_id }),
      };
    }),
  };
}

const MISPLACED = "must be the next_after of an earlier page, or an event's id";
const EVENT_ID = /^evt_(.{36})$/;

const After = v.pipe(
  v.string(),
  v.rawTransform<string, EventsAfter>(({ dataset, addIssue, NEVER }) => {
    const [, job_id] = EVENT_ID.exec(dataset.value) ?? [];
    if (v.is(JobId, job_id)) return { job_id };
    const event = decodeCursor(dataset.value, "e");
    if (event !== undefined) return { event };
    addIssue({ message: MISPLACED });
    return NEVER;
  }),
);

const EventQuery = v.object({ after: v.optional(After), limit: Limit });

const UNKNOWN_EVENT: Refusal = {
  code: "invalid_request",
  message: "after names an event that is not kept any more. Leave it out to begin with the oldest one.",
  details: { field: "after" },
};

type ParsedEventQuery =
  | { readonly ok: true; readonly page: { readonly after: EventsAfter; readonly limit: number } }
  | { readonly ok: false; readonly refusal: Refusal };

function parseEventQuery(query: Record<string, string>): ParsedEventQuery {
  const parsed = v.safeParse(EventQuery, query);
  if (!parsed.success) return { ok: false, refusal: queryRefusal(parsed.issues) };
  const { after = { event: 0 }, limit } = parsed.output;
  return { ok: true, page: { after, limit } };
}

async function presentEvent(env: Env, view: JobView): Promise<JobEvent> {
  const record = await presentJob(env, view);
  return {
    id: eventIdOf(record.job_id),
    type: `job.${record.status}` as WebhookEvent,
    occurred_at: record.completed_at ?? record.cancelled_at ?? record.created_at,
    job: webhookPayload(record) as JobEvent["job"],
  };
}

async function presentEvents(env: Env, { events, last, has_more }: EventPage): Promise<JobEventList> {
  return {
    events: await Promise.all(events.map((view) => presentEvent(env, view))),
    has_more,
    ...(last === 0 ? {} : { next_after: encodeCursor(last, "e") }),
  };
}

/** `GET /v1/events` (contract section 2). */
export const eventRoutes = new Hono<{ Bindings: Env; Variables: AuthVariables }>().get("/", async (c) => {
  const caller = c.get("caller");
  const query = parseEventQuery(c.req.query());
  if (!query.ok) throw await caller.refuse(query.refusal);
  const page = await caller.ask((account, keyHash) => account.listEvents(keyHash, query.page));
  if (page === "unknown") throw new ApiError(UNKNOWN_EVENT);
  return c.json(await presentEvents(c.env, page));
});
