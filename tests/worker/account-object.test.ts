import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, it, vi } from "vitest";
import { accountObject, api, HELLO, newAccount, readJob, submitted, type TestAccount } from "./service.ts";

type Row = Record<string, string | number | null>;

const sql = (account: TestAccount, query: string, ...bindings: (string | number)[]): Promise<Row[]> =>
  runInDurableObject(
    accountObject(account),
    (_, state) => state.storage.sql.exec(query, ...bindings).toArray() as Row[],
  );

const alarmOf = (account: TestAccount): Promise<number | null> =>
  runInDurableObject(accountObject(account), (_, state) => state.storage.getAlarm());

it("stores a submission in one transaction, with its prompt, its timer and the window", async () => {
  const account = await newAccount("free");
  const transactions = await runInDurableObject(accountObject(account), async (object, state) => {
    const spy = vi.spyOn(state.storage, "transactionSync");
    const [key] = state.storage.sql.exec("SELECT key_hash FROM keys").toArray();
    const options = { timeout_s: 600, queue_timeout_s: 3600, priority: 0 };
    const needs = { classes: ["SaveImage"], models: [] };
    const job_id = "01900000-0000-7000-8000-000000000001";
    const prompt = '{"1":{"class_type":"SaveImage","inputs":{}}}';
    // Its fleet is told later: what counts here is what stands when the verb returns.
    const { value } = object.submit(String(key?.key_hash), { job_id, prompt, needs, options });
    expect(value).toBeDefined();
    const calls = spy.mock.calls.length;
    spy.mockRestore();
    return calls;
  });
  expect(transactions).toBe(1);
  expect(await sql(account, "SELECT phase FROM jobs")).toEqual([{ phase: "ready" }]);
  expect(await sql(account, "SELECT COUNT(*) AS n FROM prompts")).toEqual([{ n: 1 }]);
  expect(await sql(account, "SELECT kind FROM timers ORDER BY kind")).toEqual([{ kind: "job" }, { kind: "sync" }]);
  expect(await sql(account, "SELECT window_used FROM keys")).toEqual([{ window_used: 1 }]);
});

it("answers a repeated submission of a job id with its record and counts it once", async () => {
  const account = await newAccount("free");
  const answers = await runInDurableObject(accountObject(account), (object, state) => {
    const [key] = state.storage.sql.exec("SELECT key_hash FROM keys").toArray();
    const options = { timeout_s: 600, queue_timeout_s: 3600, priority: 0 };
    const job_id = "01900000-0000-7000-8000-000000000002";
    const submission = { job_id, prompt: "{}", needs: { classes: ["X"], models: [] }, options };
    return [1, 2, 3].map(() => object.submit(String(key?.key_hash), submission).value);
  });
  expect(answers[1]).toEqual(answers[0]);
  expect(answers[2]).toEqual(answers[0]);
  expect(await sql(account, "SELECT COUNT(*) AS n FROM jobs")).toEqual([{ n: 1 }]);
  const list = await api(account.api_key, "/v1/jobs");
  expect(list.headers.get("x-ratelimit-remaining")).toBe("58");
});

it("keeps the alarm at or before the earliest timer", async () => {
  const account = await newAccount();
  expect(await alarmOf(account)).toBeNull();
  await submitted(account.api_key, { prompt: HELLO, queue_timeout_s: 3 });
  const [timers] = await sql(account, "SELECT MIN(due_at) AS due_at FROM timers");
  const alarm = await alarmOf(account);
  expect(alarm).not.toBeNull();
  expect(Number(alarm)).toBeLessThanOrEqual(Math.max(Number(timers?.due_at), Date.now()));
});

it("fails a job that no runner started within its queue time", async () => {
  const account = await newAccount("free");
  const first = await submitted(account.api_key);
  await submitted(account.api_key);
  const third = await submitted(account.api_key);
  expect(third.queue_position).toBe(1);
  await runInDurableObject(accountObject(account), (_, state) => {
    const { sql } = state.storage;
    sql.exec("UPDATE jobs SET body = json_set(body, '$.queue_until', 1000) WHERE job_id = ?", first.job_id);
    sql.exec("UPDATE timers SET due_at = 1000 WHERE ref = ?", first.job_id);
  });
  await runDurableObjectAlarm(accountObject(account));
  const failed = await readJob(account.api_key, first.job_id);
  expect(failed).toMatchObject({ status: "failed", error: { code: "queue_timeout" } });
  expect(failed.started_at).toBeUndefined();
  expect(failed.attempt).toBeUndefined();
  const promoted = await readJob(account.api_key, third.job_id);
  expect(promoted.queue_position).toBeUndefined();
});

it("forgets a job when its retention is over", async () => {
  const account = await newAccount("free");
  const { job_id } = await submitted(account.api_key);
  const due = (path: string): Promise<Row[]> =>
    sql(account, `UPDATE jobs SET body = json_set(body, '${path}', 1000) RETURNING job_id`);
  await due("$.queue_until");
  await sql(account, "UPDATE timers SET due_at = 1000 WHERE kind = 'job'");
  await runDurableObjectAlarm(accountObject(account));
  expect((await readJob(account.api_key, job_id)).status).toBe("failed");
  await due("$.end.expires_at");
  await sql(account, "UPDATE timers SET due_at = 1000 WHERE kind = 'job'");
  await runDurableObjectAlarm(accountObject(account));
  expect((await api(account.api_key, `/v1/jobs/${job_id}`)).status).toBe(404);
  expect(await sql(account, "SELECT COUNT(*) AS n FROM timers WHERE ref = ?", job_id)).toEqual([{ n: 0 }]);
});

it("lets one poisoned row delay itself and nobody else", async () => {
  const account = await newAccount("free");
  const jobs = await Promise.all(Array.from({ length: 4 }, () => submitted(account.api_key)));
  const [poisoned, ...others] = jobs.map(({ job_id }) => job_id);
  await sql(account, "UPDATE jobs SET body = json_set(body, '$.queue_until', 1000)");
  await sql(account, "UPDATE jobs SET phase = 'poisoned', body = '{' WHERE job_id = ?", poisoned ?? "");
  await sql(account, "UPDATE timers SET due_at = 1000 WHERE kind = 'job'");
  await sql(account, "UPDATE timers SET due_at = 999 WHERE ref = ?", poisoned ?? "");
  const before = Date.now();
  await runDurableObjectAlarm(accountObject(account));
  for (const id of others) expect((await readJob(account.api_key, id)).status).toBe("failed");

  const timer = () => sql(account, "SELECT due_at, tries FROM timers WHERE ref = ?", poisoned ?? "");
  const [first] = await timer();
  expect(first?.tries).toBe(1);
  expect(Number(first?.due_at)).toBeGreaterThanOrEqual(before + 5_000);
  const alarm = Number(await alarmOf(account));
  expect(alarm).toBeLessThanOrEqual(Number(first?.due_at));

  await sql(account, "UPDATE timers SET due_at = 1000 WHERE ref = ?", poisoned ?? "");
  const again = Date.now();
  await runDurableObjectAlarm(accountObject(account));
  const [second] = await timer();
  expect(second?.tries).toBe(2);
  expect(Number(second?.due_at)).toBeGreaterThanOrEqual(again + 10_000);
  // It is nobody's slot, and the service's own words only.
  const broken = await api(account.api_key, `/v1/jobs/${poisoned}`);
  expect(broken.status).toBe(500);
  const text = await broken.text();
  expect(text).toContain("internal_error");
  expect(text).not.toMatch(/JSON|SyntaxError|position/);
  expect(broken.headers.get("x-ratelimit-limit")).not.toBeNull();
});

it("arms a lost alarm again when it starts", async () => {
  const account = await newAccount();
  await submitted(account.api_key);
  await runInDurableObject(accountObject(account), (_, state) => state.storage.deleteAlarm());
  await evictDurableObject(accountObject(account));
  await readJob(account.api_key, (await submitted(account.api_key)).job_id);
  const [timers] = await sql(account, "SELECT MIN(due_at) AS due_at FROM timers");
  expect(Number(await alarmOf(account))).toBeLessThanOrEqual(Math.max(Number(timers?.due_at), Date.now()));
});
