import * as v from "valibot";
import { beforeEach, expect, it, vi } from "vitest";
import { WebhookDelivery } from "../../schemas/webhook.ts";
import { failedJob, PlayedReceiver } from "../worker/played-receiver.ts";
import { playInternet } from "../worker/played-runner.ts";
import { api, HELLO, newAccount, submitted, type TestAccount } from "../worker/service.ts";
import { refused } from "./account.ts";

/** `GET /v1/jobs/{job_id}/webhook`: what a person reads who wants to know why no webhook came. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

async function logOf({ api_key }: TestAccount, job_id: string): Promise<WebhookDelivery> {
  const response = await api(api_key, `/v1/jobs/${job_id}/webhook`);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return v.parse(v.strictObject(WebhookDelivery.entries), await response.json());
}

/** The log once it has that many attempts. */
const logged = (account: TestAccount, job_id: string, attempts: number): Promise<WebhookDelivery> =>
  vi.waitFor(
    async () => {
      const delivery = await logOf(account, job_id);
      expect(delivery.log).toHaveLength(attempts);
      return delivery;
    },
    { timeout: 5_000 },
  );

it("tells each attempt in plain words, with what the receiver has to look for", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => new Response("the database is away", { status: 503 });
  const job_id = await failedJob(account, receiver.url);
  const delivery = await logged(account, job_id, 1);
  const [sent] = receiver.received;
  expect(delivery).toMatchObject({
    job_id,
    event_id: sent?.headers.get("webhook-id"),
    target: new URL(receiver.url).origin,
    status: "pending",
    attempts: 1,
    last_status: 503,
    message: "The last attempt failed; the next one is due.",
  });
  const [attempt] = delivery.log;
  expect(attempt).toMatchObject({
    round: 1,
    attempt: 1,
    at: sent?.headers.get("x-webhook-timestamp"),
    delivered: false,
    failure: "http_5xx",
    status: 503,
    answer: "the database is away",
    webhook_id: sent?.headers.get("x-webhook-id"),
  });
  expect(attempt?.message).toMatch(
    /^The receiver answered 503 after \d+ ms\. It says that it is not available\. Check that the application is running\.$/,
  );
  const due = Date.parse(delivery.next_attempt_at ?? "") - Date.parse(attempt?.at ?? "");
  expect(due).toBeGreaterThanOrEqual(1_000);

  receiver.answer = () => new Response(null, { status: 204 });
  const after = await logged(account, job_id, 2);
  expect(after).toMatchObject({
    status: "delivered",
    attempts: 2,
    last_status: 204,
    message: "The webhook was delivered.",
  });
  expect(after.next_attempt_at).toBeUndefined();
  expect(after.log[1]?.message).toMatch(/^Delivered\. The receiver answered 204 after \d+ ms\.$/);
  expect(after.log[1]?.answer).toBeUndefined();
});

it("names no more of the URL than its origin", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = ({ url }) =>
    new Response(`Cannot POST ${new URL(url).pathname}${new URL(url).search}`, { status: 404 });
  const job_id = await failedJob(account, receiver.url);
  expect((await logged(account, job_id, 1)).log[0]?.answer).toBe("Cannot POST …");
  const text = await (await api(account.api_key, `/v1/jobs/${job_id}/webhook`)).text();
  expect(text).not.toContain("s3cret");
  expect(text).not.toContain("/darkroom");
});

it("keeps 1 KiB of the answer", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => new Response("é".repeat(5_000), { status: 400 });
  const job_id = await failedJob(account, receiver.url);
  const { log } = await logged(account, job_id, 1);
  expect(log[0]?.answer).toBe("é".repeat(512));
});

it.each([
  [530, "error code: 1016", "dns", /does not resolve/],
  [521, "error code: 521", "connection_refused", /Nothing accepts connections/],
  [522, "error code: 522", "timeout", /did not answer within 10 s/],
  [525, "error code: 525", "tls", /certificate/],
  [526, "error code: 526", "tls", /certificate/],
  [403, "error code: 1003", "address_not_called", /calls no bare IP addresses/],
  [403, "go away", "http_4xx", /refuses the service/],
])("reads what the platform's edge answers for a host: %i %s", async (status, answer, failure, message) => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => new Response(answer, { status });
  const job_id = await failedJob(account, receiver.url);
  const { log } = await logged(account, job_id, 1);
  expect(log[0]).toMatchObject({ failure, status, answer });
  expect(log[0]?.message).toMatch(message);
});

it("is empty until the job has ended, and there for no job without a webhook", async () => {
  const account = await newAccount();
  const open = await submitted(account.api_key, { prompt: HELLO, webhook_url: new PlayedReceiver().url });
  expect(await logOf(account, open.job_id)).toMatchObject({
    status: "pending",
    attempts: 0,
    message: "The job has not ended. Its webhook is sent when it has.",
    log: [],
  });
  const without = await submitted(account.api_key);
  const { message } = await refused(await api(account.api_key, `/v1/jobs/${without.job_id}/webhook`), "not_found");
  expect(message).toBe("This job was submitted without webhook_url.");
  const stranger = await newAccount();
  await refused(await api(stranger.api_key, `/v1/jobs/${open.job_id}/webhook`), "job_not_found");
  const post = await api(account.api_key, `/v1/jobs/${open.job_id}/webhook`, { method: "POST" });
  expect(post.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
  await refused(post, "method_not_allowed");
});
