import { beforeEach, expect, it, vi } from "vitest";
import { PlayedRunner, playInternet } from "../worker/played-runner.ts";
import { api, HELLO, newAccount, operator, submitted } from "../worker/service.ts";
import { cancel, recordIn, refused, statuses } from "./account.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const submitWaiting = (key: string, prefer: string): Promise<Response> =>
  api(key, "/v1/jobs", {
    method: "POST",
    headers: { "content-type": "application/json", prefer },
    body: JSON.stringify({ prompt: HELLO }),
  });

const wait = (key: string, job_id: string, seconds: string | number): Promise<Response> =>
  api(key, `/v1/jobs/${job_id}?wait=${seconds}`);

/** Real milliseconds that something takes. */
async function timed<T>(work: Promise<T>): Promise<[T, number]> {
  const started = performance.now();
  const value = await work;
  return [value, performance.now() - started];
}

const soon = (ms = 60): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

it("answers 200 with the end when a preferred wait is long enough", async () => {
  const runner = await PlayedRunner.ready("prefer-in-time", 4);
  const { api_key } = await newAccount("pro", "prefer-in-time");
  for (const [n, prefer] of ["wait=20", 'respond-async, wait="20"', "WAIT=20; x=y"].entries()) {
    const waiting = timed(submitWaiting(api_key, prefer));
    const dispatch = await vi.waitUntil(() => runner.dispatches[n]);
    await runner.end(dispatch, { outcome: "completed", outputs: [] });
    const [response, ms] = await waiting;
    expect([response.status, response.headers.get("preference-applied")]).toEqual([200, "wait=20"]);
    expect(response.headers.get("retry-after")).toBeNull();
    expect((await recordIn(response)).status).toBe("completed");
    expect(ms).toBeLessThan(5_000);
  }
});

it("answers 202 with the job as it is when the preferred wait is over", async () => {
  const { api_key } = await newAccount("free");
  const [response, ms] = await timed(submitWaiting(api_key, "wait=1"));
  expect([response.status, response.headers.get("preference-applied")]).toEqual([202, "wait=1"]);
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect((await recordIn(response)).status).toBe("queued");
  expect(ms).toBeGreaterThan(900);
  expect(ms).toBeLessThan(4_000);
});

it("ignores a preference that it does not understand", async () => {
  const { api_key } = await newAccount("pro");
  for (const prefer of ["wait=0", "wait=61", "wait=-1", "wait=1.5", "wait=x", "wait", "respond-async", "", ";;,,=="]) {
    const [response, ms] = await timed(submitWaiting(api_key, prefer));
    expect([response.status, response.headers.get("preference-applied")]).toEqual([202, null]);
    expect(ms).toBeLessThan(900);
  }
});

it("answers a waiting GET as soon as the job has ended", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const waiting = timed(wait(api_key, job_id, 30));
  await soon();
  await cancel(api_key, job_id);
  const [response, ms] = await waiting;
  expect((await recordIn(response)).status).toBe("cancelled");
  expect(response.headers.get("retry-after")).toBeNull();
  expect(ms).toBeLessThan(3_000);
  const [again, at_once] = await timed(wait(api_key, job_id, 30));
  expect((await recordIn(again)).status).toBe("cancelled");
  expect(at_once).toBeLessThan(900);
});

it("answers a waiting GET of a job that goes on after its time, with Retry-After", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const [response, ms] = await timed(wait(api_key, job_id, 1));
  expect((await recordIn(response)).status).toBe("queued");
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(ms).toBeGreaterThan(900);
});

it("refuses a malformed wait, and counts it", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  for (const bad of ["", "0", "61", "-1", "1.5", "x", "1s", "%201", "1e1", "0x1"]) {
    const error = await refused(await wait(api_key, job_id, bad), "invalid_request");
    expect(error.details).toEqual({ field: "wait" });
  }
  expect((await api(api_key, "/v1/limits")).headers.get("x-ratelimit-remaining")).toBe(String(60 - 12));
});

it("answers a wait for no job at once", async () => {
  const { api_key } = await newAccount("free");
  const [response, ms] = await timed(wait(api_key, "01900000-0000-7000-8000-000000000000", 30));
  await refused(response, "job_not_found");
  expect(ms).toBeLessThan(900);
});

it("answers 401 at once when the key is revoked in the middle of a wait", async () => {
  const { api_key, account_id } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const waits = [timed(wait(api_key, job_id, 30)), timed(submitWaiting(api_key, "wait=30"))];
  await soon();
  await operator(`/accounts/${account_id}/keys/revoke`, { key: api_key.slice(0, 12) });
  for (const [response, ms] of await Promise.all(waits)) {
    await refused(response, "revoked_api_key");
    expect(ms).toBeLessThan(3_000);
  }
});

it("answers 403 at once when the account is suspended in the middle of a wait", async () => {
  const { api_key, account_id } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const waiting = timed(wait(api_key, job_id, 30));
  await soon();
  await operator(`/accounts/${account_id}/suspend`, {});
  const [response, ms] = await waiting;
  await refused(response, "account_suspended");
  expect(ms).toBeLessThan(3_000);
  await operator(`/accounts/${account_id}/resume`, {});
  expect((await api(api_key, `/v1/jobs/${job_id}`)).status).toBe(200);
});

it("answers when another key of the account cancels the job in the middle of a wait", async () => {
  const { api_key, account_id } = await newAccount("free");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  const { job_id } = await submitted(api_key);
  const waiting = wait(api_key, job_id, 30);
  await soon();
  await cancel(second.api_key, job_id);
  expect((await recordIn(await waiting)).status).toBe("cancelled");
});

it("keeps at most 100 waits of a key open; another key has its own", async () => {
  const { api_key, account_id } = await newAccount("pro");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  const { job_id } = await submitted(api_key);
  const open = Array.from({ length: 104 }, () => wait(api_key, job_id, 30));
  const over = Promise.race(open).then((response) => response.clone());
  await refused(await over, "rate_limit_exceeded");
  expect(Number((await over).headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  const others = wait(second.api_key, job_id, 30);
  await soon();
  await cancel(api_key, job_id);
  expect(statuses(await Promise.all(open))).toEqual({ 200: 100, 429: 4 });
  expect((await others).status).toBe(200);
});

it("does not cancel the job of a client that hangs up", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const hangUp = new AbortController();
  const waiting = api(api_key, `/v1/jobs/${job_id}?wait=30`, { signal: hangUp.signal }).catch(() => undefined);
  await soon();
  hangUp.abort();
  await Promise.race([waiting, soon(200)]);
  expect((await recordIn(await api(api_key, `/v1/jobs/${job_id}`))).status).toBe("queued");
  await cancel(api_key, job_id);
  await waiting;
});
