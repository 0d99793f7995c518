import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { EDGE_PATHS } from "../../schemas/runner-protocol.ts";
import { DESCRIPTION, newToken, output, PlayedRunner, playInternet, TIMES } from "./played-runner.ts";
import { honest, honestUpload, wire } from "./proven-request.ts";
import { newAccount, operator, readJob, submitted } from "./service.ts";

/** The edge keeps no `jti` of its runners: a request that comes again, byte for byte, changes nothing (design section 7). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const json = (value: object): string => JSON.stringify(value);
const fleet = (pool: string) => operator(`/runners?pool=${pool}`);

async function executing(pool: string) {
  const runner = await PlayedRunner.ready(pool);
  const account = await newAccount("pro", pool);
  const { job_id } = await submitted(account.api_key);
  const dispatch = await runner.dispatched(job_id);
  const job = () => readJob(account.api_key, job_id);
  await vi.waitFor(async () => expect((await job()).status).toBe("running"));
  const { lease } = dispatch.order;
  const say = (path: string, report: object) =>
    honest(runner, { path, body: json(report), token: lease }).then((request) => wire(request));
  const beat = (change = {}) =>
    honest(runner, { path: EDGE_PATHS.heartbeat, body: runner.beatBody(change), token: runner.credential }).then(
      (request) => wire(request),
    );
  return { runner, account, job_id, dispatch, job, say, beat };
}

it("neither frees nor takes a seat for an old beat, nor counts it as a sign of life", async () => {
  const pool = "replayed-beats";
  const { runner, job, job_id, beat } = await executing(pool);
  const empty = await beat({ held: [] });
  const full = await beat();
  // The later of the two overtook the first.
  expect((await full()).status).toBe(200);
  const before = await fleet(pool);
  expect(JSON.stringify(before)).toContain(job_id);
  await new Promise((resolve) => setTimeout(resolve, 20));
  for (const again of [empty, full, empty]) expect((await again()).status).toBe(200);
  expect(await fleet(pool)).toEqual(before);

  runner.drop(job_id);
  await runner.beat();
  const after = await fleet(pool);
  expect(JSON.stringify(after)).not.toContain(job_id);
  expect((await full()).status).toBe(200);
  expect(await fleet(pool)).toEqual(after);
  expect((await job()).attempt).toBe(1);
});

it("gives a first beat that comes again the number of the boot that it began, and loses nothing", async () => {
  const pool = "replayed-boot";
  const runner = await PlayedRunner.make(pool);
  const { token } = await newToken(pool);
  runner.take(await (await runner.enrol(token)).json());
  const body = runner.beatBody({ beat: undefined, describe: DESCRIPTION });
  const first = await wire(await honest(runner, { path: EDGE_PATHS.heartbeat, body, token: runner.credential }));
  runner.boot = ((await (await first()).json()) as { boot: number }).boot;
  await runner.beat();
  const { api_key } = await newAccount("pro", pool);
  const { job_id } = await submitted(api_key);
  await runner.dispatched(job_id);
  await runner.beat();
  const before = await fleet(pool);
  expect(await (await first()).json()).toMatchObject({ boot: runner.boot });
  expect(await fleet(pool)).toEqual(before);
  expect(await readJob(api_key, job_id)).toMatchObject({ status: "running", attempt: 1 });
});

it("keeps the latest progress when an earlier report comes again", async () => {
  const { runner, job, say } = await executing("replayed-progress");
  const at = (running_ms: number, value: number) =>
    say(EDGE_PATHS.progress, { ...runner.word, running_ms, progress: { value } });
  const early = await at(1_000, 0.2);
  const late = await at(2_000, 0.8);
  await early();
  await late();
  expect((await job()).progress).toMatchObject({ value: 0.8 });
  expect((await early()).status).toBe(200);
  expect((await job()).progress).toMatchObject({ value: 0.8 });
});

it("answers an end that comes again like the first, and changes no record for it", async () => {
  const { runner, account, job, say } = await executing("replayed-end");
  const { description } = await output("x");
  const completed = { ...runner.word, outcome: "completed", outputs: [description], times: TIMES };
  const end = await say(EDGE_PATHS.end, completed);
  const progress = await say(EDGE_PATHS.progress, { ...runner.word, progress: { value: 0.9 } });
  expect((await end()).status).toBe(200);
  const before = await job();
  expect(before.status).toBe("completed");
  expect((await end()).status).toBe(200);
  expect(await (await progress()).json()).toMatchObject({ fenced: true });
  expect(await job()).toEqual(before);
  expect(account.api_key).toBeDefined();
});

it("hands a job back once for one report, however often that comes, also beside its successor", async () => {
  const { runner, job, job_id, say } = await executing("replayed-hand-back");
  const back = await say(EDGE_PATHS.end, { ...runner.word, outcome: "handed_back" });
  runner.drop(job_id);
  expect((await back()).status).toBe(200);
  await runner.dispatchedAfterBeat(job_id, 2);
  await vi.waitFor(async () => expect((await job()).status).toBe("running"));
  const before = await job();
  expect((await back()).status).toBe(409);
  expect(await job()).toEqual(before);
  expect(runner.dispatches).toHaveLength(2);
});

it("stores an upload that comes again once, and nothing after the end", async () => {
  const { runner, account, dispatch, job_id } = await executing("replayed-upload");
  const key = `o/d7/${account.account_id}/${job_id}/1/0`;
  const upload = await wire(await honestUpload(runner, dispatch, 0, "a picture"));
  expect((await upload()).status).toBe(201);
  const stored = await env.STORE.head(key);
  expect((await upload()).status).toBe(201);
  expect((await env.STORE.head(key))?.uploaded).toEqual(stored?.uploaded);
  const late = await wire(await honestUpload(runner, dispatch, 1, "another"));
  const { description } = await output("a picture");
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(200);
  for (const again of [upload, late]) expect((await again()).status).toBe(409);
  const { objects } = await env.STORE.list({ prefix: `o/d7/${account.account_id}/` });
  expect(objects.map((object) => object.key)).toEqual([key]);
});

it("enrols nobody twice for an enrolment that comes again", async () => {
  const pool = "replayed-enrolment";
  const runner = await PlayedRunner.make(pool);
  const { token } = await newToken(pool);
  const body = json({ token, name: "played", public_jwk: runner.key.jwk, url: runner.url });
  const enrol = await wire(await honest(runner, { path: EDGE_PATHS.enrol, body, token: undefined }));
  const [first, second] = [await enrol(), await enrol()];
  expect([first.status, second.status]).toEqual([200, 200]);
  const names = (await Promise.all([first, second].map((answer) => answer.json()))) as { runner_id: string }[];
  expect(names[0]?.runner_id).toBe(names[1]?.runner_id);
  expect(((await fleet(pool)) as { runners: unknown[] }).runners).toHaveLength(1);
});
