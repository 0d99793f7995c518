import { beforeEach, expect, it, vi } from "vitest";
import { PlayedRunner, playInternet } from "../worker/played-runner.ts";
import { api, HELLO, newAccount, operator, readJob, submitted } from "../worker/service.ts";
import { cancel, list, recordIn, refused, remove, statuses } from "./account.ts";
import { DAY, HOUR, pass, resetClock } from "./clock.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
  playInternet();
});

const BODY = JSON.stringify({ prompt: HELLO });

const post = (key: string, idempotency: string, body: unknown = BODY, headers: Record<string, string> = {}) =>
  api(key, "/v1/jobs", {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": idempotency, ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

it("replays the job with its current record and the original status", async () => {
  const { api_key } = await newAccount("free");
  const first = await post(api_key, "order-1");
  expect([first.status, first.headers.get("idempotent-replayed")]).toEqual([202, null]);
  const job = await recordIn(first);
  await cancel(api_key, job.job_id);
  const again = await post(api_key, "order-1");
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([202, "true"]);
  expect(again.headers.get("location")).toBe(job.urls.self);
  const record = await recordIn(again);
  expect([record.job_id, record.status]).toEqual([job.job_id, "cancelled"]);
  expect((await list(api_key)).jobs).toHaveLength(1);
});

it("replays 200 where the first answer was the end of the job", async () => {
  const runner = await PlayedRunner.ready("replay-200");
  const { api_key } = await newAccount("pro", "replay-200");
  const waiting = post(api_key, "waited", BODY, { prefer: "wait=10" });
  const dispatch = await vi.waitUntil(() => runner.dispatches[0]);
  await runner.end(dispatch, { outcome: "completed", outputs: [] });
  const first = await waiting;
  expect(first.status).toBe(200);
  const job = await recordIn(first);
  expect(job.status).toBe("completed");
  const again = await post(api_key, "waited");
  expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([200, "true"]);
  expect(await recordIn(again)).toEqual(job);
});

it("has the account for its scope: another key replays, another account does not", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  const stranger = await newAccount("free");
  const job = await recordIn(await post(api_key, "shared"));
  expect((await recordIn(await post(second.api_key, "shared"))).job_id).toBe(job.job_id);
  const other = await post(stranger.api_key, "shared");
  expect([other.status, other.headers.get("idempotent-replayed")]).toEqual([202, null]);
});

it("refuses another body, even one whose webhook URL or graph is bad", async () => {
  const { api_key } = await newAccount("free");
  await post(api_key, "claimed");
  const bodies = [
    { prompt: HELLO, priority: 1 },
    `${BODY} `,
    { prompt: {} },
    { prompt: { "1": { class_type: "" } } },
    { prompt: HELLO, webhook_url: "http://example.org/" },
  ];
  for (const body of bodies) {
    const error = await refused(await post(api_key, "claimed", body), "idempotency_key_reused");
    expect(error.details).toEqual({ field: "Idempotency-Key" });
  }
  // Shape, JSON and content type come before idempotency.
  await refused(await post(api_key, "claimed", { prompt: HELLO, priority: 99 }), "invalid_request");
  await refused(await post(api_key, "claimed", "{"), "invalid_json");
  await refused(await post(api_key, "claimed", BODY, { "content-type": "text/plain" }), "unsupported_media_type");
  expect((await list(api_key)).jobs).toHaveLength(1);
});

it("is claimed by nothing but a 2xx", async () => {
  const { api_key } = await newAccount("free");
  const refusals: [unknown, Parameters<typeof refused>[1]][] = [
    ["{", "invalid_json"],
    [{ prompt: HELLO, timeout_s: 0 }, "invalid_request"],
    [{ prompt: {} }, "invalid_prompt"],
    [{ prompt: HELLO, webhook_url: "http://example.org/" }, "invalid_webhook_url"],
  ];
  for (const [body, code] of refusals) await refused(await post(api_key, "free", body), code);
  const jobs = await Promise.all(Array.from({ length: 7 }, () => submitted(api_key)));
  await refused(await post(api_key, "free"), "queue_full");
  await cancel(api_key, jobs[0]?.job_id ?? "");
  const taken = await post(api_key, "free", { prompt: HELLO, priority: 3 });
  expect([taken.status, taken.headers.get("idempotent-replayed")]).toEqual([202, null]);
});

it("is not claimed by a request beyond the limit", async () => {
  const { api_key } = await newAccount("free");
  for (let n = 0; n < 60; n++) await api(api_key, "/v1/limits");
  await refused(await post(api_key, "limited"), "rate_limit_exceeded");
  pass(61_000);
  const response = await post(api_key, "limited", { prompt: HELLO, priority: 1 });
  expect([response.status, response.headers.get("idempotent-replayed")]).toEqual([202, null]);
});

it("replays while the queue is full", async () => {
  const { api_key } = await newAccount("free");
  const job = await recordIn(await post(api_key, "early"));
  await Promise.all(Array.from({ length: 6 }, () => submitted(api_key)));
  await refused(await post(api_key, "late"), "queue_full");
  expect((await recordIn(await post(api_key, "early"))).job_id).toBe(job.job_id);
});

it("never runs a deleted job again", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await recordIn(await post(api_key, "gone"));
  await cancel(api_key, job_id);
  await remove(api_key, job_id);
  await refused(await post(api_key, "gone"), "job_not_found");
  await refused(await post(api_key, "gone", { prompt: HELLO, priority: 1 }), "idempotency_key_reused");
  await refused(await post(api_key, "gone", { prompt: {} }), "idempotency_key_reused");
  expect((await list(api_key)).jobs).toEqual([]);
});

it("makes one job of simultaneous posts", async () => {
  const { api_key } = await newAccount("free");
  const responses = await Promise.all(Array.from({ length: 12 }, () => post(api_key, "burst")));
  expect(statuses(responses)).toEqual({ 202: 12 });
  expect(responses.filter(({ headers }) => headers.get("idempotent-replayed") === "true")).toHaveLength(11);
  const ids = new Set((await Promise.all(responses.map(recordIn))).map(({ job_id }) => job_id));
  expect(ids.size).toBe(1);
  const mixed = await Promise.all(
    Array.from({ length: 8 }, (_, n) => post(api_key, "mixed", { prompt: HELLO, priority: n % 2 })),
  );
  expect(statuses(mixed)).toEqual({ 202: 4, 422: 4 });
});

it("must be 1 to 255 visible ASCII characters", async () => {
  const { api_key } = await newAccount("free");
  for (const bad of ["", "with space", "x".repeat(256), "caf\u00e9", "tab\tbed"]) {
    const error = await refused(await post(api_key, bad), "invalid_request");
    expect(error.details).toEqual({ field: "Idempotency-Key" });
  }
  for (const good of ["x".repeat(255), "!~", "__proto__", "a,b;c='\"--"]) {
    expect((await post(api_key, good)).status).toBe(202);
  }
});

it("is remembered for 24 hours, and longer while its job has not ended", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await recordIn(await post(api_key, "old", { prompt: HELLO, queue_timeout_s: 86_400 }));
  const same = () => post(api_key, "old", { prompt: HELLO, queue_timeout_s: 86_400 });
  pass(DAY - HOUR);
  expect((await same()).headers.get("idempotent-replayed")).toBe("true");
  pass(2 * HOUR);
  expect((await same()).headers.get("idempotent-replayed")).toBe("true");
  await refused(await post(api_key, "old"), "idempotency_key_reused");
  expect((await readJob(api_key, job_id)).status).toBe("queued");
  await cancel(api_key, job_id);
  const fresh = await same();
  expect([fresh.status, fresh.headers.get("idempotent-replayed")]).toEqual([202, null]);
  expect((await recordIn(fresh)).job_id).not.toBe(job_id);
});

it("is remembered for 24 hours after its job has ended and expired", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await recordIn(await post(api_key, "short"));
  await cancel(api_key, job_id);
  pass(DAY - HOUR);
  expect((await post(api_key, "short")).headers.get("idempotent-replayed")).toBe("true");
  pass(2 * HOUR);
  expect((await post(api_key, "short")).headers.get("idempotent-replayed")).toBeNull();
});
