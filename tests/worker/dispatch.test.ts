import { env } from "cloudflare:workers";
import { createLocalJWKSet, type JSONWebKeySet } from "jose";
import { beforeEach, expect, it, vi } from "vitest";
import { RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256, verifyRequest } from "../../schemas/signed-request.ts";
import { DESCRIPTION, output, PlayedRunner, playInternet } from "./played-runner.ts";
import { call, HELLO, newAccount, operator, readJob, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const claimsOf = (token: string): Record<string, unknown> =>
  JSON.parse(atob((token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/"))) as Record<string, unknown>;

it("signs a dispatch so that its runner can hold it to the published keys", async () => {
  const runner = await PlayedRunner.ready("signed");
  const { api_key, account_id } = await newAccount("enterprise", "signed");
  const { job_id } = await submitted(api_key);
  const { token, text, url, order } = await runner.dispatched(job_id);
  expect(url).toBe(runner.url + RUNNER_PATHS.executions);

  const keys = (await (await call("/.well-known/jwks.json")).json()) as JSONWebKeySet;
  expect(JSON.stringify(keys)).not.toContain('"d"');
  const request = {
    type: "dispatch+jwt",
    audience: runner.url,
    method: "POST",
    url,
    bodySha256: await sha256(text),
    now: Date.now(),
  } as const;
  expect(await verifyRequest(token, request, createLocalJWKSet(keys))).toMatchObject({ ok: true });
  const altered = { ...request, bodySha256: await sha256(`${text} `) };
  expect(await verifyRequest(token, altered, createLocalJWKSet(keys))).toEqual({ ok: false, reason: "body" });

  expect(claimsOf(order.lease)).toMatchObject({
    sub: runner.runner_id,
    account: account_id,
    job: job_id,
    fence: 1,
    retention: "d30",
    cnf: { jkt: await runner.thumbprint() },
  });
  const lasts = Number(claimsOf(order.lease).exp) - Date.now() / 1000;
  expect(lasts).toBeGreaterThan(600 + 14 * 60);
  expect(lasts).toBeLessThan(600 + 16 * 60);
});

it("hands over the prompt's own text, numbers beyond 2^53 and all", async () => {
  const runner = await PlayedRunner.ready("own-text");
  const { api_key } = await newAccount("pro", "own-text");
  const prompt = '{ "1": {"class_type":"EmptyImage", "inputs":{"seed": 18446744073709551615, "s":"\\u00e9é"}}}';
  const { job_id } = await submitted(api_key, `{"prompt": ${prompt} , "timeout_s": 7}`);
  const { text, order } = await runner.dispatched(job_id);
  expect(text.endsWith(`,"prompt":${prompt}}`)).toBe(true);
  expect(order.timeout_ms).toBe(7000);
});

it("places a refused job again after the next beat, with a higher fence and no attempt counted", async () => {
  for (const refusal of [
    () => Response.json({ error: { code: "wrong_boot", message: "Another boot." } }, { status: 409 }),
    () => Response.json({ error: { code: "full", message: "Full." } }, { status: 429 }),
    () => Response.json({ error: { code: "draining", message: "Draining." } }, { status: 503 }),
  ]) {
    const pool = `refusing-${refusal().status}`;
    const runner = await PlayedRunner.ready(pool);
    const account = await newAccount("pro", pool);
    const { api_key } = account;
    runner.onDispatch = refusal;
    const { job_id } = await submitted(api_key);
    const refused = await runner.dispatched(job_id);
    const waiting = await readJob(api_key, job_id);
    expect(waiting.status).toBe("queued");
    expect(waiting.attempt).toBeUndefined();
    expect(runner.dispatches).toHaveLength(1);

    runner.onDispatch = (dispatch) => runner.accept(dispatch);
    const second = await runner.dispatchedAfterBeat(job_id, 2);
    expect(claimsOf(second.order.lease).fence).toBe(2);
    expect(claimsOf(refused.order.lease).fence).toBe(1);
    await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
    expect((await readJob(api_key, job_id)).attempt).toBe(1);
  }
});

it("posts a dispatch of unknown outcome again, to the same runner with the same fence", async () => {
  const runner = await PlayedRunner.ready("unknown");
  const other = await PlayedRunner.ready("unknown");
  const { api_key } = await newAccount("pro", "unknown");
  const runners = [runner, other];
  for (const one of runners) {
    one.onDispatch = () => {
      throw new TypeError("Network connection lost.");
    };
  }
  const { job_id } = await submitted(api_key);
  const first = await vi.waitFor(() => {
    const found = runners.find(({ dispatches }) => dispatches.length > 0);
    if (!found) throw new Error("Nobody was asked.");
    return found;
  });
  for (const one of runners) one.onDispatch = (dispatch) => one.accept(dispatch);
  await vi.waitFor(() => expect(first.dispatches).toHaveLength(2), { timeout: 4_000 });
  expect(first.dispatches.map(({ order }) => order.fence)).toEqual([1, 1]);
  expect(runners.flatMap(({ dispatches }) => dispatches)).toHaveLength(2);
  const [a, b] = first.dispatches.map(({ token }) => claimsOf(token));
  expect(a?.jti).not.toBe(b?.jti);
  await vi.waitFor(async () => expect(await readJob(api_key, job_id)).toMatchObject({ status: "running", attempt: 1 }));
});

it("takes an end report that overtakes the 202 as proof that the runner had it", async () => {
  const runner = await PlayedRunner.ready("overtaking");
  const { api_key } = await newAccount("pro", "overtaking");
  const { description } = await output("fast");
  runner.onDispatch = async (dispatch) => {
    const ended = await runner.end(dispatch, { outcome: "completed", outputs: [description] });
    expect(ended.status).toBe(200);
    return runner.accept(dispatch);
  };
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("completed"));
  const job = await readJob(api_key, job_id);
  expect(job).toMatchObject({ attempt: 1, started_at: expect.any(String) });
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(200);
  expect(await readJob(api_key, job_id)).toEqual(job);
});

it("takes progress that overtakes the 202 as proof that the runner has it", async () => {
  const runner = await PlayedRunner.ready("early-progress");
  const { api_key } = await newAccount("pro", "early-progress");
  runner.onDispatch = async (dispatch) => {
    expect(await (await runner.progress(dispatch, 0.25)).json()).toMatchObject({ fenced: false });
    const { status, progress } = await readJob(api_key, dispatch.order.job);
    expect({ status, value: progress?.value }).toEqual({ status: "running", value: 0.25 });
    return runner.accept(dispatch);
  };
  const { job_id } = await submitted(api_key);
  await runner.dispatched(job_id);
  await vi.waitFor(() => expect(runner.held).toHaveLength(1));
  expect((await readJob(api_key, job_id)).status).toBe("running");
});

it("follows no redirect of a runner and asks it again", async () => {
  const runner = await PlayedRunner.ready("redirecting");
  const { api_key } = await newAccount("pro", "redirecting");
  runner.onDispatch = () =>
    new Response(null, { status: 307, headers: { location: "https://elsewhere.example.org/" } });
  const { job_id } = await submitted(api_key);
  await runner.dispatched(job_id);
  runner.onDispatch = (dispatch) => runner.accept(dispatch);
  await vi.waitFor(() => expect(runner.dispatches).toHaveLength(2), { timeout: 4_000 });
  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
});

it("gives no work to a runner that lacks a class of the graph", async () => {
  const runner = await PlayedRunner.ready("classes");
  const { api_key } = await newAccount("pro", "classes");
  await runner.beat({ describe: { ...DESCRIPTION, classes: ["EmptyImage"] } });
  // It has both classes, so that the edge knows them, and takes no work.
  const draining = await PlayedRunner.ready("classes");
  await draining.beat({ draining: true });
  const foreign = await submitted(api_key);
  const { job_id } = await submitted(api_key, { prompt: { "1": HELLO["1"] } });
  await runner.dispatched(job_id);
  expect(runner.dispatches.map(({ order }) => order.job)).toEqual([job_id]);
  expect(draining.dispatches).toEqual([]);
  expect((await readJob(api_key, foreign.job_id)).status).toBe("queued");
});

it("fetches a large prompt from R2 for the dispatch, and removes it when the job ends", async () => {
  const runner = await PlayedRunner.ready("large");
  const { api_key, account_id } = await newAccount("pro", "large");
  const prompt = `{"1":{"class_type":"SaveImage","inputs":{"seed":18446744073709551615,"t":"${"é".repeat(70_000)}"}}}`;
  const { job_id } = await submitted(api_key, `{"prompt":${prompt}}`);
  const dispatch = await runner.dispatched(job_id);
  expect(dispatch.text.endsWith(`,"prompt":${prompt}}`)).toBe(true);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [] })).status).toBe(200);
  await vi.waitFor(async () => expect(await env.STORE.head(`prompts/${account_id}/${job_id}`)).toBeNull());
});

it("runs a job again elsewhere when its runner is revoked, and hears that one no more", async () => {
  const runner = await PlayedRunner.ready("revoked-runner");
  const { api_key } = await newAccount("pro", "revoked-runner");
  const { job_id } = await submitted(api_key);
  const first = await runner.dispatched(job_id);
  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
  const other = await PlayedRunner.ready("revoked-runner");
  await operator(`/runners/${runner.runner_id}/revoke?pool=revoked-runner`, {});
  const second = await other.dispatched(job_id, 2);
  expect(second.order.fence).toBe(2);
  const late = await runner.end(first, { outcome: "completed", outputs: [] });
  expect(late.status).toBe(409);
  await vi.waitFor(async () => expect(await readJob(api_key, job_id)).toMatchObject({ status: "running", attempt: 2 }));
});

it("posts the same fence again when the runner has seen that very request: a copy of it may have been taken", async () => {
  const runner = await PlayedRunner.ready("replayed");
  const { api_key } = await newAccount("pro", "replayed");
  runner.onDispatch = () => Response.json({ error: { code: "replayed", message: "Seen before." } }, { status: 401 });
  const { job_id } = await submitted(api_key);
  await runner.dispatched(job_id);
  runner.onDispatch = (dispatch) => runner.accept(dispatch);
  await vi.waitFor(() => expect(runner.dispatches).toHaveLength(2), { timeout: 4_000 });
  expect(runner.dispatches.map(({ order }) => order.fence)).toEqual([1, 1]);
  const [a, b] = runner.dispatches.map(({ token }) => claimsOf(token));
  expect(a?.jti).not.toBe(b?.jti);
});
