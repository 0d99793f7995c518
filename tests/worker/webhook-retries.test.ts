import { createExecutionContext, createMessageBatch, getQueueResult, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import worker from "../../worker/index.ts";
import type { WebhookMessage } from "../../worker/webhooks/message.ts";
import { failedJob, PlayedReceiver } from "./played-receiver.ts";
import { playInternet } from "./played-runner.ts";
import { accountObject, fireTimers, newAccount, readJob, type TestAccount } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

type Row = Record<string, unknown>;

const delivery = (account: TestAccount): Promise<Row> =>
  runInDurableObject(accountObject(account), (_, state) =>
    JSON.parse(String(state.storage.sql.exec("SELECT body FROM deliveries").one().body)),
  ) as Promise<Row>;

const attempts = (account: TestAccount): Promise<Row[]> =>
  runInDurableObject(accountObject(account), (_, state) =>
    state.storage.sql
      .exec("SELECT body FROM attempts ORDER BY round, n")
      .toArray()
      .map(({ body }) => JSON.parse(String(body)) as Row),
  );

/** When the next attempt is due, and when a claim that was left open ends. */
const setDue = (account: TestAccount, due_at: number, claimed_until?: number): Promise<void> =>
  runInDurableObject(accountObject(account), (_, state) => {
    const claim = claimed_until === undefined ? "" : `, '$.claimed_until', ${claimed_until}`;
    state.storage.sql.exec(
      `UPDATE deliveries SET due_at = ${due_at}, body = json_set(body, '$.due_at', ${due_at}${claim})`,
    );
  });
const makeDue = (account: TestAccount, claimed_until?: number): Promise<void> => setDue(account, 1000, claimed_until);

/** A batch as the queue hands it over; what each message was told. */
async function consume(account: TestAccount, jobs: readonly string[], round = 1) {
  const messages = jobs.map((job, i) => ({
    id: `m${i}`,
    timestamp: new Date(),
    attempts: 1,
    body: { account: account.account_id, job, round } satisfies WebhookMessage,
  }));
  const batch = createMessageBatch<WebhookMessage>("darkroom-webhooks", messages);
  const delays = batch.messages.map((message) => vi.spyOn(message, "retry"));
  const ctx = createExecutionContext();
  await worker.queue(batch, env, ctx);
  const { explicitAcks, retryMessages } = await getQueueResult(batch, ctx);
  return {
    acked: [...explicitAcks].sort(),
    retried: retryMessages.map(({ msgId }) => msgId),
    delays: delays.map(({ mock }) => mock.calls[0]?.[0]?.delaySeconds),
  };
}

let lost: { mockRestore(): void } | undefined;

/** The delays of the messages that are sent from here on; none of them arrives. */
function loseMessages(): number[] {
  const delays: number[] = [];
  const sends = vi.spyOn(env.WEBHOOKS, "send");
  lost = sends;
  sends.mockImplementation((_message, options) => {
    delays.push(options?.delaySeconds ?? 0);
    return Promise.resolve({ metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } });
  });
  return delays;
}

/** Resolves when attempt `n` of the first round has been reported. */
const attempted = (account: TestAccount, n: number): Promise<void> =>
  vi.waitFor(async () => expect(await attempts(account)).toHaveLength(n), { timeout: 5_000 });

/** A job whose first delivery the receiver has refused. From then on no message arrives: the test drives. */
async function refusedOnce() {
  lost?.mockRestore();
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  receiver.answer = () => {
    delays = loseMessages();
    return new Response("x".repeat(5_000), { status: 500 });
  };
  let delays: number[] = [];
  const job_id = await failedJob(account, receiver.url);
  await attempted(account, 1);
  receiver.answer = () => new Response("x".repeat(5_000), { status: 500 });
  return { account, receiver, job_id, delays };
}

it("waits 1, 5 and 30 seconds, and gives up after the fourth failure", async () => {
  const { account, receiver, job_id, delays } = await refusedOnce();
  for (let n = 2; n <= 4; n++) {
    await makeDue(account);
    expect(await consume(account, [job_id])).toMatchObject({ acked: ["m0"], retried: [] });
    await attempted(account, n);
    expect(receiver.received).toHaveLength(n);
  }
  await vi.waitFor(() => expect(delays).toEqual([1, 5, 30]));
  expect((await readJob(account.api_key, job_id)).webhook).toEqual({ status: "failed", attempts: 4, last_status: 500 });
  await makeDue(account);
  expect(await consume(account, [job_id])).toMatchObject({ acked: ["m0"], retried: [] });
  expect(receiver.received).toHaveLength(4);
  const log = await attempts(account);
  expect(log.map(({ n }) => n)).toEqual([1, 2, 3, 4]);
  expect(log[0]).toMatchObject({ round: 1, ok: false, status: 500, failure: "http_5xx", answer: "x".repeat(1024) });
});

it("holds a message back that comes before its time", async () => {
  const { account, receiver, job_id } = await refusedOnce();
  await setDue(account, Date.now() + 4_500);
  expect(await consume(account, [job_id])).toMatchObject({ retried: ["m0"], delays: [5] });
  expect(receiver.received).toHaveLength(1);
});

it("delivers once when a message comes twice", async () => {
  const { account, receiver, job_id } = await refusedOnce();
  receiver.answer = async () => {
    await scheduler.wait(50);
    return new Response("ok");
  };
  await makeDue(account);
  expect(await consume(account, [job_id, job_id, job_id])).toMatchObject({ acked: ["m0", "m1", "m2"], retried: [] });
  await attempted(account, 2);
  expect(receiver.received).toHaveLength(2);
  await consume(account, [job_id, job_id]);
  expect(receiver.received).toHaveLength(2);
  expect((await readJob(account.api_key, job_id)).webhook).toEqual({
    status: "delivered",
    attempts: 2,
    last_status: 200,
  });
});

it("lets a message of another round or of an unknown job go", async () => {
  const { account, receiver, job_id } = await refusedOnce();
  await makeDue(account);
  expect((await consume(account, [job_id], 2)).acked).toEqual(["m0"]);
  expect((await consume(account, ["01900000-0000-7000-8000-00000000000f"])).acked).toEqual(["m0"]);
  expect(receiver.received).toHaveLength(1);
});

it("takes everything but a 2xx for a failure, and says what it was", async () => {
  const outcomes: [answer: () => Response, failure: string, status: number | undefined][] = [
    [() => new Response(null, { status: 302, headers: { location: "https://other.example.org" } }), "redirect", 302],
    [() => new Response(null, { status: 304 }), "redirect", 304],
    [() => new Response("no", { status: 404 }), "http_4xx", 404],
    [() => new Response("no", { status: 410 }), "http_4xx", 410],
    [() => new Response("no", { status: 429 }), "http_4xx", 429],
    [
      () => {
        throw new TypeError("connection refused");
      },
      "connection_refused",
      undefined,
    ],
    [
      () => {
        throw new DOMException("The operation timed out.", "TimeoutError");
      },
      "timeout",
      undefined,
    ],
  ];
  for (const [answer, failure, status] of outcomes) {
    const { account, receiver, job_id, delays } = await refusedOnce();
    receiver.answer = answer;
    await makeDue(account);
    await consume(account, [job_id]);
    await attempted(account, 2);
    await vi.waitFor(() => expect(delays).toEqual([1, 5]));
    const [, second] = await attempts(account);
    expect(second).toMatchObject({ n: 2, ok: false, failure });
    expect(second?.status).toBe(status);
    const { webhook } = await readJob(account.api_key, job_id);
    expect(webhook).toEqual({
      status: "pending",
      attempts: 2,
      ...(status === undefined ? {} : { last_status: status }),
    });
  }
});

it("judges the target again at each attempt, and calls no forbidden one", async () => {
  const { account, receiver, job_id } = await refusedOnce();
  const forbidden = ["http://hooks.example.org/", "https://127.0.0.1/", "https://169.254.169.254/latest"];
  for (const [n, url] of forbidden.entries()) {
    await runInDurableObject(accountObject(account), (_, state) => {
      state.storage.sql.exec("UPDATE jobs SET body = json_set(body, '$.webhook_url', ?)", url);
    });
    await makeDue(account);
    await consume(account, [job_id]);
    await attempted(account, n + 2);
  }
  expect(receiver.received).toHaveLength(1);
  const fetched = vi.mocked(globalThis.fetch).mock.calls.map(([input]) => String(input));
  expect(fetched.filter((url) => forbidden.includes(url))).toEqual([]);
  expect((await attempts(account)).map(({ failure }) => failure)).toEqual([
    "http_5xx",
    "forbidden_target",
    "forbidden_target",
    "forbidden_target",
  ]);
  expect((await readJob(account.api_key, job_id)).webhook).toMatchObject({ status: "failed", attempts: 4 });
});

it("uses up the attempt of a courier that died, says so in the log, and sends a fresh message", async () => {
  const { account, receiver, job_id, delays } = await refusedOnce();
  receiver.answer = () => new Response("ok");
  const begun = await runInDurableObject(accountObject(account), async (object, state) => {
    state.storage.sql.exec("UPDATE deliveries SET due_at = 1000, body = json_set(body, '$.due_at', 1000)");
    return object.beginDelivery(job_id, 1);
  });
  expect(begun).toMatchObject({ kind: "granted", n: 2 });
  expect((await consume(account, [job_id])).acked).toEqual(["m0"]);
  await makeDue(account, Date.now() - 1);
  expect(receiver.received).toHaveLength(1);
  await fireTimers(account, "delivery");
  const after = await delivery(account);
  expect(after).toMatchObject({ n: 2, status: "pending", last_failure: "claim_expired" });
  expect(Number(after.due_at) - Date.now()).toBeGreaterThan(3_000);
  await vi.waitFor(() => expect(delays).toEqual([1, 5]));
  expect((await attempts(account))[1]).toMatchObject({ n: 2, ok: false, failure: "claim_expired" });
  await makeDue(account);
  expect((await consume(account, [job_id])).acked).toEqual(["m0"]);
  await attempted(account, 3);
  expect((await readJob(account.api_key, job_id)).webhook).toMatchObject({ status: "delivered", attempts: 3 });
});

it("settles each message of a batch on its own", async () => {
  const { account, receiver, job_id } = await refusedOnce();
  receiver.answer = () => new Response("ok");
  await setDue(account, Date.now() + 4_500);
  const other = await newAccount();
  const { acked, retried } = await consume(account, [job_id, "01900000-0000-7000-8000-00000000000f"]);
  expect({ acked, retried }).toEqual({ acked: ["m1"], retried: ["m0"] });
  expect((await consume(other, [job_id])).acked).toEqual(["m0"]);
});
