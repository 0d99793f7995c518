import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { output, PlayedRunner, playInternet, TIMES } from "./played-runner.ts";
import { accountObject, call, HELLO, newAccount, readJob, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

it("carries a job from submission to its picture", async () => {
  const runner = await PlayedRunner.ready("whole-way");
  const { api_key, account_id } = await newAccount("pro", "whole-way");
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  expect(dispatch.order).toMatchObject({ account: account_id, job: job_id, fence: 1, boot: runner.boot });
  expect(dispatch.order.timeout_ms).toBe(600_000);
  expect(dispatch.order.prompt).toEqual(HELLO);

  const running = await vi.waitFor(async () => {
    const job = await readJob(api_key, job_id);
    expect(job.status).toBe("running");
    return job;
  });
  expect(running).toMatchObject({ attempt: 1, started_at: expect.any(String) });
  expect(await (await runner.progress(dispatch, 0.5)).json()).toMatchObject({ fenced: false });
  expect((await readJob(api_key, job_id)).progress).toMatchObject({ value: 0.5, nodes_done: 1 });

  const { bytes, description } = await output("a picture");
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(201);
  const ended = await runner.end(dispatch, { outcome: "completed", outputs: [description] });
  expect(ended.status).toBe(200);
  expect(await ended.json()).toEqual({ ok: true });

  const job = await readJob(api_key, job_id);
  expect(job).toMatchObject({ status: "completed", attempt: 1, execution_time_ms: TIMES.execution_ms });
  expect(job.timing).toMatchObject(TIMES);
  expect(job.progress).toBeUndefined();
  expect(job.error).toBeUndefined();
  expect(job.expires_at).toBe(new Date(Date.parse(job.completed_at ?? "") + 7 * 86_400_000).toISOString());
  expect(job.outputs?.files).toEqual([{ ...description, url: job.outputs?.images[0] }]);
  const url = new URL(job.outputs?.images[0] ?? "");
  const picture = await call(url.pathname + url.search);
  expect(new Uint8Array(await picture.arrayBuffer())).toEqual(bytes);
});

/** An account of a pool of its own, and a dispatch of its job that the runner has taken. */
async function executing(pool: string) {
  const runner = await PlayedRunner.ready(pool);
  const account = await newAccount("pro", pool);
  const { job_id } = await submitted(account.api_key);
  return { runner, account, api_key: account.api_key, job_id, dispatch: await runner.dispatched(job_id) };
}

it("answers a repeated end report like the first and changes nothing", async () => {
  const { runner, api_key, job_id, dispatch } = await executing("repeated-end");
  const { description } = await output("x");
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(200);
  const before = await readJob(api_key, job_id);
  for (const report of [
    { outcome: "completed", outputs: [description] },
    { outcome: "completed", outputs: [] },
    { outcome: "failed", error: { code: "execution_failed", message: "late" } },
    { outcome: "handed_back" },
  ]) {
    const repeated = await runner.end(dispatch, report);
    expect(repeated.status).toBe(200);
    expect(await repeated.json()).toEqual({ ok: true });
  }
  expect(await readJob(api_key, job_id)).toEqual(before);
});

it("shows why a job failed, and which node did it", async () => {
  const { runner, api_key, job_id, dispatch } = await executing("failing");
  const error = { code: "execution_failed", message: "SaveImage: no such colour", node_id: "2", details: { line: 3 } };
  expect((await runner.end(dispatch, { outcome: "failed", error })).status).toBe(200);
  const job = await readJob(api_key, job_id);
  expect(job).toMatchObject({ status: "failed", error, attempt: 1 });
  expect(job.completed_at).toBeDefined();
  expect(job.outputs).toBeUndefined();
  expect(job.execution_time_ms).toBeUndefined();
});

it("runs a crashed job again elsewhere and refuses whatever the first execution still says", async () => {
  const { runner, account, api_key, job_id, dispatch } = await executing("stale-fence");
  const crash = { outcome: "failed", error: { code: "engine_crashed", message: "gone" } };
  runner.drop(job_id);
  expect((await runner.end(dispatch, crash)).status).toBe(200);
  const second = await runner.dispatched(job_id, 2);
  expect(second.text).toContain(JSON.stringify(HELLO));

  const { bytes, description } = await output("stale");
  const upload = await runner.upload(dispatch, 0, bytes, description);
  expect(upload.status).toBe(409);
  expect(await upload.json()).toMatchObject({ error: { code: "fenced" } });
  expect((await env.STORE.list({ prefix: `o/d7/${account.account_id}/${job_id}/` })).objects).toEqual([]);
  expect(await (await runner.progress(dispatch, 0.9)).json()).toMatchObject({ fenced: true });
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(409);

  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
  const job = await readJob(api_key, job_id);
  expect(job.attempt).toBe(2);
  expect(job.progress).toBeUndefined();
  expect(job.error).toBeUndefined();
  expect((await runner.end(second, { outcome: "completed", outputs: [] })).status).toBe(200);
  expect(await readJob(api_key, job_id)).toMatchObject({ status: "completed", attempt: 2 });
  expect((await runner.end(dispatch, crash)).status).toBe(410);
});

it("stores no output whose bytes are not those that were promised", async () => {
  const { runner, account, job_id, dispatch } = await executing("other-bytes");
  const { bytes, description } = await output("promised");
  const altered = new TextEncoder().encode("PROMISED") as Uint8Array<ArrayBuffer>;
  expect((await runner.upload(dispatch, 0, bytes, description, altered)).status).toBeGreaterThanOrEqual(400);
  expect((await runner.upload(dispatch, 0, bytes, { ...description, sha256: "0".repeat(64) })).status).toBe(400);
  expect((await runner.upload(dispatch, 0, bytes, { ...description, size_bytes: 7 })).status).toBe(411);
  expect((await runner.upload(dispatch, 256, bytes, description)).status).toBe(400);
  expect((await env.STORE.list({ prefix: `o/d7/${account.account_id}/${job_id}/` })).objects).toEqual([]);
});

it("writes an output once: a repeat is answered like the first, another one is refused", async () => {
  const { runner, account, job_id, dispatch } = await executing("written-once");
  const first = await output("first");
  const other = await output("other");
  expect((await runner.upload(dispatch, 0, first.bytes, first.description)).status).toBe(201);
  expect((await runner.upload(dispatch, 0, first.bytes, first.description)).status).toBe(201);
  expect((await runner.upload(dispatch, 0, other.bytes, other.description)).status).toBe(422);
  const stored = await env.STORE.get(`o/d7/${account.account_id}/${job_id}/1/0`);
  expect(await stored?.text()).toBe("first");
});

it("drops the prompt when the job ends and removes what a losing execution stored", async () => {
  const { runner, account, job_id, dispatch } = await executing("tidy");
  const { bytes, description } = await output("lost");
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(201);
  runner.drop(job_id);
  await runner.end(dispatch, { outcome: "failed", error: { code: "engine_crashed", message: "gone" } });
  const second = await runner.dispatched(job_id, 2);
  const kept = await output("kept");
  expect((await runner.upload(second, 0, kept.bytes, kept.description)).status).toBe(201);
  expect((await runner.end(second, { outcome: "completed", outputs: [kept.description] })).status).toBe(200);
  const prefix = `o/d7/${account.account_id}/${job_id}/`;
  await vi.waitFor(async () => {
    const { objects } = await env.STORE.list({ prefix });
    expect(objects.map(({ key }) => key)).toEqual([`${prefix}2/0`]);
  });
  const prompts = await runInDurableObject(accountObject(account), (_, state) =>
    state.storage.sql.exec("SELECT COUNT(*) AS n FROM prompts").one(),
  );
  expect(prompts).toEqual({ n: 0 });
});
