import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { accountObject, api, errorOf, HELLO, newAccount, operator, submit, submitted } from "./service.ts";

const LIST = "/v1/jobs?limit=1";
const remaining = (response: Response): number => Number(response.headers.get("x-ratelimit-remaining"));
const statuses = (responses: readonly Response[]): Record<number, number> => {
  const counts: Record<number, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

it("lets exactly 60 of 200 simultaneous requests of a free key through", async () => {
  const { api_key } = await newAccount("free");
  const responses = await Promise.all(Array.from({ length: 200 }, () => api(api_key, LIST)));
  expect(statuses(responses)).toEqual({ 200: 60, 429: 140 });
  const left = responses.filter(({ status }) => status === 200).map(remaining);
  expect(left.sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, i) => i));
  for (const response of responses.filter(({ status }) => status === 429)) {
    expect(remaining(response)).toBe(0);
    const retryAfter = Number(response.headers.get("retry-after"));
    expect(retryAfter).toBeGreaterThanOrEqual(1);
    expect(retryAfter).toBeLessThanOrEqual(60);
    expect((await errorOf(response)).code).toBe("rate_limit_exceeded");
  }
});

it("opens a fresh window when the old one ends, and not before", async () => {
  const account = await newAccount("free");
  await Promise.all(Array.from({ length: 3 }, () => submit(account.api_key)));
  const age = (ms: number): Promise<void> =>
    runInDurableObject(accountObject(account), (_, state) => {
      state.storage.sql.exec("UPDATE keys SET window_opened_at = ?", Date.now() - ms);
    });
  await age(58_000);
  await evictDurableObject(accountObject(account));
  expect(remaining(await api(account.api_key, LIST))).toBe(56);
  await expectWritten(account, 4);
  await age(60_000);
  await evictDurableObject(accountObject(account));
  const fresh = await api(account.api_key, LIST);
  expect(remaining(fresh)).toBe(59);
  expect(Number(fresh.headers.get("x-ratelimit-reset")) - Date.now() / 1000).toBeGreaterThan(58);
});

/** Waits until the requests counted in memory are in storage: a second after the first unwritten one. */
async function expectWritten(account: { account_id: string }, used: number): Promise<void> {
  await expect
    .poll(
      () =>
        runInDurableObject(accountObject(account), (_, state) =>
          Number(state.storage.sql.exec("SELECT window_used FROM keys").one().window_used),
        ),
      { timeout: 3_000 },
    )
    .toBe(used);
}

it("keeps the window when the object loses its memory a second after the last request", async () => {
  const account = await newAccount("free");
  await Promise.all(Array.from({ length: 80 }, () => api(account.api_key, LIST)));
  await expectWritten(account, 60);
  await evictDurableObject(accountObject(account));
  // Another path, which the isolate's memory of the exhausted window does not answer either.
  const other = await runInDurableObject(accountObject(account), async (object, state) => {
    const hash = String(state.storage.sql.exec("SELECT key_hash FROM keys").one().key_hash);
    return object.count(hash);
  });
  expect(other).toMatchObject({ ok: false, code: "rate_limit_exceeded", window: { remaining: 0 } });
  expect((await api(account.api_key, LIST)).status).toBe(429);
});

it("writes the window with a transaction that happens anyway", async () => {
  const account = await newAccount("free");
  for (let i = 0; i < 5; i++) await api(account.api_key, LIST);
  await submitted(account.api_key);
  await evictDurableObject(accountObject(account));
  expect(remaining(await api(account.api_key, LIST))).toBe(60 - 7);
});

it("counts keys of one account apart, and accounts apart", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  const stranger = await newAccount("free");
  const all = [api_key, second.api_key, stranger.api_key];
  const burst = await Promise.all(all.flatMap((key) => Array.from({ length: 17 }, () => submit(key))));
  expect(statuses(burst)).toEqual({ 202: 3 * 7, 429: 3 * 10 });
  for (const key of all) expect(remaining(await api(key, LIST))).toBe(60 - 18);
});

it("shows the window on every answer, whatever is wrong with the request", async () => {
  const { api_key } = await newAccount("free");
  const json = { "content-type": "application/json" };
  const post = (body: string, headers: Record<string, string> = json): Promise<Response> =>
    api(api_key, "/v1/jobs", { method: "POST", headers, body });
  const job = await submitted(api_key);
  const requests: [status: number, () => Promise<Response>][] = [
    [202, () => submit(api_key)],
    [200, () => api(api_key, LIST)],
    [200, () => api(api_key, `/v1/jobs/${job.job_id}`)],
    [400, () => post("{")],
    [400, () => api(api_key, "/v1/jobs?limit=0")],
    [404, () => api(api_key, "/v1/jobs/nope")],
    [404, () => api(api_key, "/v1/nope")],
    [404, () => api(api_key, "/v1")],
    [405, () => api(api_key, "/v1/jobs", { method: "PUT", body: "x" })],
    [405, () => api(api_key, `/v1/jobs/${job.job_id}`, { method: "PATCH", body: "x" })],
    [413, () => post("{}", { ...json, "content-length": String(11 * 1024 * 1024) })],
    [415, () => post("{}", { "content-type": "text/plain" })],
    [422, () => submit(api_key, { prompt: {} })],
  ];
  let left = 59;
  for (const [status, request] of requests) {
    const response = await request();
    left--;
    expect(response.status).toBe(status);
    expect(response.headers.get("x-ratelimit-limit")).toBe("60");
    expect(remaining(response)).toBe(left);
    expect(response.headers.get("x-ratelimit-reset")).toMatch(/^\d{10}$/);
    expect(response.headers.get("ratelimit-policy")).toBe('"default";q=60;w=60');
    expect(response.headers.get("ratelimit")).toMatch(new RegExp(`^"default";r=${left};t=\\d+$`));
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    if (status === 405) expect(response.headers.get("allow")).toContain("GET");
  }
});

it("accepts exactly slots and places of a burst, and says how many places are taken", async () => {
  const { api_key } = await newAccount("free");
  const responses = await Promise.all(Array.from({ length: 17 }, () => submit(api_key)));
  expect(statuses(responses)).toEqual({ 202: 7, 429: 10 });
  for (const response of responses.filter(({ status }) => status === 429)) {
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(await errorOf(response)).toMatchObject({ code: "queue_full", details: { limit: 5, queued: 5 } });
  }
  const page = (await (await api(api_key, "/v1/jobs?limit=100")).json()) as {
    jobs: { status: string; queue_position?: number }[];
  };
  expect(page.jobs.map(({ queue_position }) => queue_position)).toEqual([5, 4, 3, 2, 1, undefined, undefined]);
  expect(page.jobs.every(({ status }) => status === "queued")).toBe(true);
});

it("takes slots and places of the new tier when it rises, and cancels nothing when it falls", async () => {
  const account = await newAccount("free");
  await Promise.all(Array.from({ length: 7 }, () => submit(account.api_key)));
  await operator(`/accounts/${account.account_id}/tier`, { tier: "pro" });
  const phases = (): Promise<Record<string, unknown>[]> =>
    runInDurableObject(accountObject(account), (_, state) =>
      state.storage.sql.exec("SELECT phase, COUNT(*) AS n FROM jobs GROUP BY phase").toArray(),
    );
  expect(await phases()).toEqual([{ phase: "ready", n: 7 }]);
  expect((await api(account.api_key, LIST)).headers.get("x-ratelimit-limit")).toBe("300");
  await operator(`/accounts/${account.account_id}/tier`, { tier: "free" });
  expect(await phases()).toEqual([{ phase: "ready", n: 7 }]);
  const queued = await submitted(account.api_key, { prompt: HELLO });
  expect(queued.queue_position).toBe(1);
});

it("gives the slot of a waiting job to one of higher priority", async () => {
  const { api_key } = await newAccount("free");
  const first = await submitted(api_key);
  const second = await submitted(api_key);
  const urgent = await submitted(api_key, { prompt: HELLO, priority: 5 });
  expect(urgent.queue_position).toBeUndefined();
  const position = async (job_id: string) =>
    ((await (await api(api_key, `/v1/jobs/${job_id}`)).json()) as { queue_position?: number }).queue_position;
  expect(await position(first.job_id)).toBeUndefined();
  expect(await position(second.job_id)).toBe(1);
});
