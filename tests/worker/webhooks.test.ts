import { beforeEach, expect, it, vi } from "vitest";
import { failedJob, hmacBase64, hmacHex, PlayedReceiver } from "./played-receiver.ts";
import { output, PlayedRunner, playInternet } from "./played-runner.ts";
import { HELLO, newAccount, readJob, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The first delivery, once it has come. */
const delivered = (receiver: PlayedReceiver) =>
  vi.waitFor(() => {
    const [first] = receiver.received;
    if (!first) throw new Error("Nothing was delivered.");
    return first;
  });

/** A job that a played runner ended, and its receiver. */
async function ended(pool: string, report: (outputs: object[]) => Record<string, unknown>) {
  const runner = await PlayedRunner.ready(pool);
  const account = await newAccount("pro", pool);
  const receiver = new PlayedReceiver();
  const { job_id } = await submitted(account.api_key, { prompt: HELLO, webhook_url: receiver.url });
  expect((await readJob(account.api_key, job_id)).webhook).toEqual({ status: "pending", attempts: 0 });
  const dispatch = await runner.dispatched(job_id);
  const { bytes, description } = await output("a picture");
  await runner.upload(dispatch, 0, bytes, description);
  expect((await runner.end(dispatch, report([description]))).status).toBe(200);
  return { account, receiver, job_id, delivery: await delivered(receiver) };
}

it("delivers a completed job as the specification writes it", async () => {
  const { account, job_id, receiver, delivery } = await ended("hook-completed", (outputs) => ({
    outcome: "completed",
    outputs,
  }));
  await vi.waitFor(async () =>
    expect((await readJob(account.api_key, job_id)).webhook).toEqual({
      status: "delivered",
      attempts: 1,
      last_status: 200,
    }),
  );
  const job = await readJob(account.api_key, job_id);
  expect(delivery.method).toBe("POST");
  expect(delivery.url).toBe(receiver.url);
  expect(JSON.parse(delivery.body)).toEqual({
    job_id,
    status: "completed",
    created_at: job.created_at,
    started_at: job.started_at,
    completed_at: job.completed_at,
    execution_time_ms: job.execution_time_ms,
    outputs: { images: job.outputs?.images },
  });
  expect(delivery.headers.get("x-webhook-event")).toBe("job.completed");
  expect(receiver.received).toHaveLength(1);
});

it("delivers a failed job with the node that failed", async () => {
  const error = { code: "execution_failed", message: "no such colour", node_id: "2", details: { secret: "inside" } };
  const { account, job_id, delivery } = await ended("hook-failed", () => ({ outcome: "failed", error }));
  const job = await readJob(account.api_key, job_id);
  expect(JSON.parse(delivery.body)).toEqual({
    job_id,
    status: "failed",
    created_at: job.created_at,
    started_at: job.started_at,
    completed_at: job.completed_at,
    error: { code: "execution_failed", message: "no such colour", node_id: "2" },
  });
  expect(delivery.headers.get("x-webhook-event")).toBe("job.failed");
});

it("delivers a job that never started without started_at, with its metadata", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  const job_id = await failedJob(account, receiver.url);
  const { body } = await delivered(receiver);
  const job = await readJob(account.api_key, job_id);
  expect(JSON.parse(body)).toEqual({
    job_id,
    status: "failed",
    created_at: job.created_at,
    completed_at: job.completed_at,
    error: { code: "queue_timeout", message: job.error?.message },
    metadata: { order: 7 },
  });
});

it("signs what it sends, in the specification's way and in the Standard Webhooks way", async () => {
  const account = await newAccount();
  expect(account.webhook_secret).toMatch(/^[0-9a-f]{64}$/);
  const receiver = new PlayedReceiver();
  const job_id = await failedJob(account, receiver.url);
  const { headers, body, at } = await delivered(receiver);
  const header = (name: string): string => headers.get(name) ?? "";
  expect(header("content-type")).toBe("application/json");
  expect(header("x-webhook-id")).toMatch(UUID);
  expect(header("x-webhook-id")).not.toBe(job_id);
  const timestamp = header("x-webhook-timestamp");
  expect(timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(Math.abs(Date.parse(timestamp) - at)).toBeLessThan(5_000);
  const signature = await hmacHex(account.webhook_secret, `${timestamp}.${body}`);
  expect(header("x-webhook-signature")).toBe(`sha256=${signature}`);

  expect(header("webhook-timestamp")).toBe(String(Math.floor(Date.parse(timestamp) / 1000)));
  const signed = `${header("webhook-id")}.${header("webhook-timestamp")}.${body}`;
  expect(header("webhook-signature")).toBe(`v1,${await hmacBase64(account.webhook_secret, signed)}`);
  expect(JSON.stringify([...headers])).not.toContain(account.webhook_secret);
});

it("delivers nothing for a job that asked for nothing", async () => {
  const account = await newAccount();
  const spy = vi.spyOn(globalThis, "fetch");
  const receiver = new PlayedReceiver();
  const { job_id } = await submitted(account.api_key);
  await failedJob(account, receiver.url);
  await delivered(receiver);
  expect(spy.mock.calls.length).toBe(receiver.received.length);
  expect((await readJob(account.api_key, job_id)).webhook).toBeUndefined();
});

it("tries again a second after a failure, with the same bytes and event and a new attempt's name", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => new Response("not today", { status: 503 });
  const job_id = await failedJob(account, receiver.url);
  const first = await delivered(receiver);
  receiver.answer = () => new Response(null, { status: 204 });
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), { timeout: 4_000 });
  const [, second] = receiver.received;
  expect(Number(second?.at) - first.at).toBeGreaterThanOrEqual(700);
  expect(second?.body).toBe(first.body);
  expect(second?.headers.get("webhook-id")).toBe(first.headers.get("webhook-id"));
  for (const name of ["x-webhook-id", "x-webhook-timestamp", "x-webhook-signature"]) {
    expect(second?.headers.get(name)).not.toBe(first.headers.get(name));
  }
  await vi.waitFor(async () =>
    expect((await readJob(account.api_key, job_id)).webhook).toEqual({
      status: "delivered",
      attempts: 2,
      last_status: 204,
    }),
  );
});
