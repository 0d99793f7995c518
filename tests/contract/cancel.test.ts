import { beforeEach, expect, it, vi } from "vitest";
import { RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { output, PlayedRunner, players, playInternet } from "../worker/played-runner.ts";
import { api, HELLO, newAccount, readJob, submitted } from "../worker/service.ts";
import { cancel, recordIn, refused, use } from "./account.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const untilRunning = (key: string, job_id: string): Promise<void> =>
  vi.waitFor(async () => expect((await readJob(key, job_id)).status).toBe("running"));

it("cancels a waiting job at once and gives its place back", async () => {
  const { api_key } = await newAccount("free");
  const [first, second, third, fourth] = [
    await submitted(api_key),
    await submitted(api_key),
    await submitted(api_key),
    await submitted(api_key),
  ];
  expect(fourth.queue_position).toBe(2);
  const record = await recordIn(await cancel(api_key, third.job_id));
  expect(record).toMatchObject({ status: "cancelled", cancelled_at: expect.any(String) });
  expect([record.started_at, record.attempt, record.error]).toEqual([undefined, undefined, undefined]);
  expect(await use(api_key)).toEqual({ running: 2, queued: 1 });
  expect((await readJob(api_key, fourth.job_id)).queue_position).toBe(1);
  for (const { job_id } of [first, second]) expect((await readJob(api_key, job_id)).status).toBe("queued");
});

it("cancels a ready job at once and promotes the next of its key", async () => {
  const { api_key } = await newAccount("free");
  const jobs = [await submitted(api_key), await submitted(api_key), await submitted(api_key)];
  expect(jobs.map(({ queue_position }) => queue_position)).toEqual([undefined, undefined, 1]);
  expect((await recordIn(await cancel(api_key, jobs[0]?.job_id ?? ""))).status).toBe("cancelled");
  expect(await use(api_key)).toEqual({ running: 2, queued: 0 });
  expect((await readJob(api_key, jobs[2]?.job_id ?? "")).queue_position).toBeUndefined();
});

it("cancels a placed job, and drops whatever its runner says later", async () => {
  const runner = await PlayedRunner.ready("cancel-placed");
  runner.onDispatch = () => new Promise<Response>(() => {});
  const { api_key } = await newAccount("free", "cancel-placed");
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  const record = await recordIn(await cancel(api_key, job_id));
  expect(record.status).toBe("cancelled");
  expect(record.started_at).toBeUndefined();
  expect(await use(api_key)).toEqual({ running: 0, queued: 0 });

  const { bytes, description } = await output("late");
  expect(await (await runner.progress(dispatch, 0.2)).json()).toMatchObject({ fenced: true });
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(409);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(410);
  expect(await readJob(api_key, job_id)).toEqual(record);
});

it("cancels a running job at once, tells its runner to stop that one, and starts the next", async () => {
  const runner = await PlayedRunner.ready("cancel-running", 3);
  const stops: unknown[] = [];
  const { host } = new URL(runner.url);
  const play = players.get(host);
  players.set(host, async (request) => {
    if (new URL(request.url).pathname.endsWith(RUNNER_PATHS.stops)) stops.push(await request.clone().json());
    return play ? play(request) : new Response(null, { status: 404 });
  });
  const { api_key, account_id } = await newAccount("free", "cancel-running");
  const [first, second, third] = [
    await submitted(api_key),
    await submitted(api_key),
    await submitted(api_key, { prompt: HELLO, priority: -1 }),
  ];
  const dispatch = await runner.dispatched(first.job_id);
  await runner.dispatched(second.job_id);
  await untilRunning(api_key, first.job_id);
  expect((await runner.progress(dispatch, 0.25)).status).toBe(200);

  const record = await recordIn(await cancel(api_key, first.job_id));
  expect(record).toMatchObject({ status: "cancelled", started_at: expect.any(String), attempt: 1 });
  expect(record.progress).toBeUndefined();
  const execution = { account: account_id, job: first.job_id, fence: 1 };
  await vi.waitFor(() => expect(stops).toEqual([execution]));
  await vi.waitFor(async () => expect((await runner.beat({ seats: 3 })).stop).toEqual([execution]));
  await runner.dispatched(third.job_id);

  const { bytes, description } = await output("late");
  expect(await (await runner.progress(dispatch, 0.9)).json()).toMatchObject({ fenced: true });
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(409);
  for (const report of [
    { outcome: "completed", outputs: [description] },
    { outcome: "failed", error: { code: "execution_failed", message: "late" } },
    { outcome: "handed_back" },
    { outcome: "stopped" },
  ]) {
    expect((await runner.end(dispatch, report)).status).toBe(410);
  }
  expect(await readJob(api_key, first.job_id)).toEqual(record);
});

it("cancels a job that waits for another attempt, and shows no trace of the lost one", async () => {
  const runner = await PlayedRunner.ready("cancel-again", 1);
  const { api_key } = await newAccount("free", "cancel-again");
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  await untilRunning(api_key, job_id);
  // It keeps the seat taken, so that the job stays ready.
  await runner.end(dispatch, { outcome: "failed", error: { code: "engine_crashed", message: "gone" } });
  runner.onDispatch = () => new Response(null, { status: 429 });
  const record = await recordIn(await cancel(api_key, job_id));
  expect(record).toMatchObject({ status: "cancelled", attempt: 2 });
  expect([record.started_at, record.error]).toEqual([undefined, undefined]);
});

it("is idempotent, and leaves a job that has ended as it is", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const all = await Promise.all([cancel(api_key, job_id), cancel(api_key, job_id), cancel(api_key, job_id)]);
  const records = await Promise.all(all.map(recordIn));
  for (const record of records) expect(record).toEqual(records[0]);
  const withBody = await api(api_key, `/v1/jobs/${job_id}/cancel`, { method: "POST", body: "{ not json" });
  expect(await recordIn(withBody)).toEqual(records[0]);
});

it("leaves a completed job completed", async () => {
  const runner = await PlayedRunner.ready("cancel-completed");
  const { api_key } = await newAccount("pro", "cancel-completed");
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  await runner.end(dispatch, { outcome: "completed", outputs: [] });
  const record = await readJob(api_key, job_id);
  expect(record.status).toBe("completed");
  expect(await recordIn(await cancel(api_key, job_id))).toEqual(record);
});

it("knows no job of another account, and none that never was", async () => {
  const [mine, other] = [await newAccount("free"), await newAccount("free")];
  const { job_id } = await submitted(mine.api_key);
  await refused(await cancel(other.api_key, job_id), "job_not_found");
  await refused(await cancel(mine.api_key, "01900000-0000-7000-8000-00000000ffff"), "job_not_found");
  await refused(await cancel(mine.api_key, "nope"), "job_not_found");
  expect((await readJob(mine.api_key, job_id)).status).toBe("queued");
});
