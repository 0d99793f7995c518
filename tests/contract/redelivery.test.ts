import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, it, vi } from "vitest";
import { MAX_REDELIVERIES_PER_WINDOW } from "../../schemas/limits.ts";
import { failedJob, PlayedReceiver } from "../worker/played-receiver.ts";
import { playInternet } from "../worker/played-runner.ts";
import { accountObject, api, HELLO, newAccount, readJob, submitted, type TestAccount } from "../worker/service.ts";
import { recordIn, refused, remove, rows } from "./account.ts";

/** `POST /v1/jobs/{job_id}/webhook/redeliver` (contract section 2). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const redeliver = ({ api_key }: TestAccount, job_id: string): Promise<Response> =>
  api(api_key, `/v1/jobs/${job_id}/webhook/redeliver`, { method: "POST" });

const webhookOf = async ({ api_key }: TestAccount, job_id: string) => (await readJob(api_key, job_id)).webhook;

const untilDelivered = (account: TestAccount, job_id: string): Promise<void> =>
  vi.waitFor(async () => expect(await webhookOf(account, job_id)).toMatchObject({ status: "delivered" }));

async function deliveredJob() {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  const job_id = await failedJob(account, receiver.url);
  await untilDelivered(account, job_id);
  return { account, receiver, job_id };
}

it("delivers again what was delivered: a round of its own with the same body and event", async () => {
  const { account, receiver, job_id } = await deliveredJob();
  const answer = await redeliver(account, job_id);
  expect(answer.status).toBe(202);
  expect((await recordIn(answer)).webhook).toEqual({ status: "pending", attempts: 0 });
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2));
  await untilDelivered(account, job_id);
  const [first, second] = receiver.received;
  expect(second?.body).toBe(first?.body);
  expect(second?.headers.get("webhook-id")).toBe(first?.headers.get("webhook-id"));
  expect(second?.headers.get("x-webhook-id")).not.toBe(first?.headers.get("x-webhook-id"));
  expect(await webhookOf(account, job_id)).toEqual({ status: "delivered", attempts: 1, last_status: 200 });
});

it("delivers again what has failed for good, with four attempts of its own", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => new Response("down", { status: 500 });
  const job_id = await failedJob(account, receiver.url);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1));
  await runInDurableObject(accountObject(account), (_, { storage }) => {
    storage.sql.exec(
      "UPDATE deliveries SET status = 'failed', claimed_until = NULL, body = json_remove(json_set(body, '$.status', 'failed', '$.n', 4), '$.claimed_until')",
    );
  });
  expect(await webhookOf(account, job_id)).toMatchObject({ status: "failed", attempts: 4 });
  expect((await redeliver(account, job_id)).status).toBe(202);
  await vi.waitFor(async () =>
    expect(await webhookOf(account, job_id)).toEqual({ status: "pending", attempts: 1, last_status: 500 }),
  );
});

it("refuses while there is nothing to deliver again", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  const without = await submitted(account.api_key);
  await refused(await redeliver(account, without.job_id), "webhook_not_redeliverable");
  const open = await submitted(account.api_key, { prompt: HELLO, webhook_url: receiver.url });
  await refused(await redeliver(account, open.job_id), "webhook_not_redeliverable");
  receiver.answer = () => new Response("down", { status: 500 });
  const pending = await failedJob(account, receiver.url);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1));
  await refused(await redeliver(account, pending), "webhook_not_redeliverable");
  const stranger = await newAccount();
  await refused(await redeliver(stranger, pending), "job_not_found");
  await refused(await redeliver(account, "01900000-0000-7000-8000-000000000000"), "job_not_found");
  await refused(await redeliver(account, "none"), "job_not_found");
  expect((await api(account.api_key, `/v1/jobs/${pending}/webhook/redeliver`)).status).toBe(405);
});

it("allows ten a minute for the account, and a refused one costs none", async () => {
  const { account, receiver, job_id } = await deliveredJob();
  for (let n = 2; n <= MAX_REDELIVERIES_PER_WINDOW + 1; n++) {
    expect((await redeliver(account, job_id)).status).toBe(202);
    await untilDelivered(account, job_id);
    expect(receiver.received).toHaveLength(n);
    await refused(await redeliver(account, "none"), "job_not_found");
  }
  const refusal = await redeliver(account, job_id);
  expect(Number(refusal.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  const { message } = await refused(refusal, "rate_limit_exceeded");
  expect(message).toMatch(/^At most 10 redeliveries of an account may be asked for in a minute\. The window resets in/);
  await runInDurableObject(accountObject(account), (_, { storage }) => {
    storage.sql.exec("UPDATE windows SET opened_at = opened_at - 60000");
  });
  expect((await redeliver(account, job_id)).status).toBe(202);
});

it("keeps the attempts of the last ten rounds", async () => {
  const { account, job_id } = await deliveredJob();
  for (let n = 0; n < 10; n++) {
    expect((await redeliver(account, job_id)).status).toBe(202);
    await untilDelivered(account, job_id);
  }
  const kept = await rows(account, "SELECT round FROM attempts ORDER BY round");
  expect(kept.map(({ round }) => round)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

it("begins one round when the same request comes twice", async () => {
  const { account, job_id } = await deliveredJob();
  const [key] = await rows(account, "SELECT key_hash FROM keys");
  const stub = accountObject(account);
  const which = { job_id, request: "the same" };
  const answers = [
    await stub.redeliver(String(key?.key_hash), which),
    await stub.redeliver(String(key?.key_hash), which),
  ];
  expect(answers.map(({ value }) => value?.kind)).toEqual(["reopened", "reopened"]);
  await untilDelivered(account, job_id);
  const [delivery] = await rows(account, "SELECT body FROM deliveries");
  expect(JSON.parse(String(delivery?.body))).toMatchObject({ round: 2 });
});

it("drops what is owed when the job is deleted in mid-round", async () => {
  const { account, receiver, job_id } = await deliveredJob();
  receiver.answer = () => new Response("down", { status: 500 });
  await redeliver(account, job_id);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2));
  expect((await remove(account.api_key, job_id)).status).toBe(204);
  for (const table of ["deliveries", "attempts", "events"])
    expect(await rows(account, `SELECT * FROM ${table}`)).toEqual([]);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(receiver.received).toHaveLength(2);
});
