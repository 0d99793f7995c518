import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { output, PlayedRunner, playInternet } from "../worker/played-runner.ts";
import { api, call, HELLO, newAccount, readJob, submitted } from "../worker/service.ts";
import { cancel, list, refused, remove, rows } from "./account.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const stored = async (prefix: string): Promise<string[]> =>
  (await env.STORE.list({ prefix })).objects.map(({ key }) => key);

it("removes record, outputs, prompt, delivery and timers of an ended job", async () => {
  const runner = await PlayedRunner.ready("delete-whole");
  const account = await newAccount("pro", "delete-whole");
  const { api_key, account_id } = account;
  const large = { ...HELLO, "3": { class_type: "SaveImage", inputs: { images: ["1", 0], note: "n".repeat(140_000) } } };
  const { job_id } = await submitted(api_key, { prompt: large, webhook_url: "https://hooks.example.org/x" });
  expect(await stored(`prompts/${account_id}/`)).toEqual([`prompts/${account_id}/${job_id}`]);
  const dispatch = await runner.dispatched(job_id);
  const { bytes, description } = await output("a picture");
  await runner.upload(dispatch, 0, bytes, description);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(200);
  const record = await readJob(api_key, job_id);
  const picture = new URL(record.outputs?.images[0] ?? "");
  expect((await call(picture.pathname + picture.search)).status).toBe(200);

  const response = await remove(api_key, job_id);
  expect(response.status).toBe(204);
  expect(await response.text()).toBe("");
  expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  expect(response.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);

  await refused(await api(api_key, `/v1/jobs/${job_id}`), "job_not_found");
  await refused(await cancel(api_key, job_id), "job_not_found");
  await refused(await remove(api_key, job_id), "job_not_found");
  expect((await list(api_key)).jobs).toEqual([]);
  await vi.waitFor(async () => {
    expect(await stored(`o/d7/${account_id}/`)).toEqual([]);
    expect(await stored(`prompts/${account_id}/`)).toEqual([]);
  });
  await refused(await call(picture.pathname + picture.search), "not_found");
  for (const table of ["jobs", "files", "prompts", "deliveries", "attempts"]) {
    expect(await rows(account, `SELECT * FROM ${table}`)).toEqual([]);
  }
  expect(await rows(account, "SELECT * FROM timers WHERE kind IN ('job', 'delivery')")).toEqual([]);
  // Once more after the lease: a doubled upload may still be on its way.
  await vi.waitFor(async () => {
    const owed = await rows(account, "SELECT due_at FROM timers WHERE kind = 'removal'");
    expect(owed.filter(({ due_at }) => Number(due_at) < Date.now() + 600_000)).toEqual([]);
    expect(owed).toHaveLength(1);
  });
});

it("refuses to remove a job that has not ended", async () => {
  const runner = await PlayedRunner.ready("delete-open", 1);
  const { api_key } = await newAccount("free", "delete-open");
  const { job_id } = await submitted(api_key);
  await runner.dispatched(job_id);
  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
  await refused(await remove(api_key, job_id), "job_not_finished");
  const ready = await submitted(api_key);
  const waiting = await submitted(api_key);
  for (const job of [ready, waiting]) await refused(await remove(api_key, job.job_id), "job_not_finished");
  expect((await list(api_key)).jobs.map(({ status }) => status)).toEqual(["queued", "queued", "running"]);
});

it("removes a cancelled job while its runner still works on it, and drops what comes", async () => {
  const runner = await PlayedRunner.ready("delete-cancelled");
  const account = await newAccount("free", "delete-cancelled");
  const { job_id } = await submitted(account.api_key);
  const dispatch = await runner.dispatched(job_id);
  const { bytes, description } = await output("slipped through");
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(201);
  await cancel(account.api_key, job_id);
  expect((await remove(account.api_key, job_id)).status).toBe(204);
  expect(await (await runner.progress(dispatch, 0.5)).json()).toMatchObject({ fenced: true });
  expect((await runner.upload(dispatch, 1, bytes, description)).status).toBe(409);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [] })).status).toBe(404);
  await refused(await api(account.api_key, `/v1/jobs/${job_id}`), "job_not_found");
  await vi.waitFor(async () => expect(await stored(`o/d1/${account.account_id}/`)).toEqual([]));
});

it("removes no job of another account", async () => {
  const [mine, other] = [await newAccount("free"), await newAccount("free")];
  const { job_id } = await submitted(mine.api_key);
  await cancel(mine.api_key, job_id);
  await refused(await remove(other.api_key, job_id), "job_not_found");
  expect((await readJob(mine.api_key, job_id)).status).toBe("cancelled");
});
