import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { accountObject, api, call, HELLO, newAccount, operator, readJob, submitted } from "../worker/service.ts";
import { cancel, refused, rows, use } from "./account.ts";
import { DAY, fire, HOUR, MINUTE, pass, resetClock } from "./clock.ts";
import { BY, NOTHING, place, playFleet, POOL, WORD } from "./played-fleet.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
  playFleet();
});

const untilRunning = (key: string, job_id: string): Promise<void> =>
  vi.waitFor(async () => expect((await readJob(key, job_id)).status).toBe("running"));

it("fails a job at its queue_timeout and not before, waiting or ready, and promotes the next", async () => {
  const account = await newAccount("free");
  const { api_key } = account;
  const ready = await submitted(api_key, { prompt: HELLO, queue_timeout_s: 100 });
  await submitted(api_key);
  const waiting = await submitted(api_key, { prompt: HELLO, queue_timeout_s: 200 });
  const last = await submitted(api_key);
  pass(98_000);
  await fire(account);
  expect((await readJob(api_key, ready.job_id)).status).toBe("queued");
  pass(3_000);
  await fire(account);
  const failed = await readJob(api_key, ready.job_id);
  expect(failed).toMatchObject({ status: "failed", error: { code: "queue_timeout" } });
  expect([failed.started_at, failed.attempt]).toEqual([undefined, undefined]);
  expect((await readJob(api_key, waiting.job_id)).queue_position).toBeUndefined();
  pass(100_000);
  await fire(account);
  expect(await readJob(api_key, waiting.job_id)).toMatchObject({ status: "failed", error: { code: "queue_timeout" } });
  expect((await readJob(api_key, last.job_id)).status).toBe("queued");
  expect(await use(api_key)).toEqual({ running: 2, queued: 0 });
});

it("keeps a deadline over the loss of the object's memory", async () => {
  const account = await newAccount("free");
  const { job_id } = await submitted(account.api_key, { prompt: HELLO, queue_timeout_s: 60 });
  await evictDurableObject(accountObject(account));
  pass(61_000);
  await fire(account);
  expect((await readJob(account.api_key, job_id)).error?.code).toBe("queue_timeout");
});

it("fails a running job with `timeout` at the end of its lease: timeout_s and 15 minutes", async () => {
  const account = await newAccount("free");
  const { api_key } = account;
  const { job_id } = await submitted(api_key, { prompt: HELLO, timeout_s: 30, queue_timeout_s: 5 });
  await place(account, job_id, 1);
  await untilRunning(api_key, job_id);
  pass(30_000 + 14 * MINUTE);
  await fire(account);
  expect((await readJob(api_key, job_id)).status).toBe("running");
  pass(2 * MINUTE);
  await fire(account);
  const record = await readJob(api_key, job_id);
  expect(record).toMatchObject({ status: "failed", attempt: 1, error: { code: "timeout" } });
  expect(record.started_at).toBeDefined();
  const late = { ...WORD, outcome: "handed_back" as const };
  expect(await accountObject(account).endExecution(job_id, 1, BY, late)).toBe("gone");
});

it("sends a placed job that nobody decides back to the queue, at no cost of an attempt", async () => {
  vi.restoreAllMocks();
  playFleet(() => new Promise<Response>(() => {}));
  const account = await newAccount("free");
  const { job_id } = await submitted(account.api_key, { prompt: HELLO, queue_timeout_s: 90 });
  await place(account, job_id, 1);
  pass(100_000);
  await fire(account);
  expect(await rows(account, "SELECT phase FROM jobs")).toEqual([{ phase: "placed" }]);
  pass(21_000);
  await fire(account);
  expect(await rows(account, "SELECT phase FROM jobs")).toEqual([{ phase: "ready" }]);
  await fire(account);
  const record = await readJob(account.api_key, job_id);
  expect(record).toMatchObject({ status: "failed", error: { code: "queue_timeout" } });
  expect(record.attempt).toBeUndefined();
});

it("gives a lost attempt a queue time afresh, and fails with what it was lost by", async () => {
  const account = await newAccount("free");
  const { api_key } = account;
  const { job_id } = await submitted(api_key, { prompt: HELLO, queue_timeout_s: 60 });
  await place(account, job_id, 1);
  await untilRunning(api_key, job_id);
  pass(5 * MINUTE);
  await accountObject(account).fleetNews(POOL, { ...NOTHING, verdicts: [{ job: job_id, fence: 1, verdict: "lost" }] });
  const queued = await readJob(api_key, job_id);
  expect(queued).toMatchObject({ status: "queued", attempt: 2 });
  expect([queued.started_at, queued.progress, queued.error]).toEqual([undefined, undefined, undefined]);
  pass(58_000);
  await fire(account);
  expect((await readJob(api_key, job_id)).status).toBe("queued");
  pass(3_000);
  await fire(account);
  const failed = await readJob(api_key, job_id);
  expect(failed).toMatchObject({ status: "failed", error: { code: "runner_lost" } });
  expect(failed.started_at).toBeUndefined();
});

it("fails a job whose runner was lost in three attempts", async () => {
  const account = await newAccount("free");
  const { api_key } = account;
  const { job_id } = await submitted(api_key);
  for (const fence of [1, 2, 3]) {
    await place(account, job_id, fence);
    await untilRunning(api_key, job_id);
    expect((await readJob(api_key, job_id)).attempt).toBe(fence);
    await accountObject(account).fleetNews(POOL, { ...NOTHING, verdicts: [{ job: job_id, fence, verdict: "lost" }] });
  }
  expect(await readJob(api_key, job_id)).toMatchObject({
    status: "failed",
    attempt: 3,
    error: { code: "runner_lost" },
  });
});

it.each([
  ["free", 1],
  ["pro", 7],
  ["enterprise", 30],
] as const)("forgets a job of tier %s and its outputs %i days after its end", async (tier, days) => {
  const account = await newAccount(tier);
  const { api_key, account_id } = account;
  const { job_id } = await submitted(api_key);
  await place(account, job_id, 1);
  await untilRunning(api_key, job_id);
  const bytes = new TextEncoder().encode("a picture");
  const key = `o/d${days}/${account_id}/${job_id}/1/0`;
  await env.STORE.put(key, bytes);
  const description = {
    node_id: "2",
    filename: "a.png",
    kind: "image" as const,
    content_type: "image/png",
    size_bytes: bytes.length,
    sha256: "0".repeat(64),
  };
  const times = { download_ms: 1, execution_ms: 1, upload_ms: 1 };
  await accountObject(account).endExecution(job_id, 1, BY, {
    ...WORD,
    outcome: "completed",
    outputs: [description],
    times,
  });
  // What counts is the tier when it was dispatched.
  await operator(`/accounts/${account_id}/tier`, { tier: "free" });
  const record = await readJob(api_key, job_id);
  expect(Date.parse(record.expires_at ?? "") - Date.parse(record.completed_at ?? "")).toBe(days * DAY);
  const { pathname, search } = new URL(record.outputs?.images[0] ?? "");
  pass(days * DAY - HOUR);
  await fire(account);
  expect((await readJob(api_key, job_id)).status).toBe("completed");
  expect((await call(pathname + search)).status).toBe(200);
  pass(HOUR + 1_000);
  await refused(await call(pathname + search), "not_found");
  await fire(account);
  await refused(await api(api_key, `/v1/jobs/${job_id}`), "job_not_found");
  await vi.waitFor(async () => expect(await env.STORE.head(key)).toBeNull());
  expect(await rows(account, "SELECT * FROM files")).toEqual([]);
});

it("keeps a cancelled job for the time of the account's tier", async () => {
  const account = await newAccount("pro");
  const { job_id } = await submitted(account.api_key);
  await cancel(account.api_key, job_id);
  pass(7 * DAY - HOUR);
  await fire(account);
  expect((await readJob(account.api_key, job_id)).status).toBe("cancelled");
  pass(HOUR + 1_000);
  await fire(account);
  await refused(await api(account.api_key, `/v1/jobs/${job_id}`), "job_not_found");
});

it("has no alarm and no timer left when nothing is left to do", async () => {
  const account = await newAccount("free");
  const { job_id } = await submitted(account.api_key);
  await cancel(account.api_key, job_id);
  pass(DAY + 1_000);
  await fire(account);
  await vi.waitFor(async () => expect(await rows(account, "SELECT * FROM timers")).toEqual([]));
  expect(await fire(account)).toBe(false);
});
