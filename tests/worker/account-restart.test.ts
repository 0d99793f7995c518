import {
  abortAllDurableObjects,
  evictAllDurableObjects,
  evictDurableObject,
  runInDurableObject,
} from "cloudflare:test";
import { beforeEach, expect, it, vi } from "vitest";
import { PlayedRunner, playInternet } from "./played-runner.ts";
import { accountObject, api, newAccount, readJob, submit, submitted, type TestAccount } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const rows = (account: TestAccount, query: string): Promise<Record<string, unknown>[]> =>
  runInDurableObject(accountObject(account), (_, state) => state.storage.sql.exec(query).toArray());

it("loses no accepted job and no deadline when it is started anew in the middle of submissions", async () => {
  const account = await newAccount("pro");
  const accepted: string[] = [];
  for (let round = 0; round < 4; round++) {
    const burst = Promise.all(Array.from({ length: 8 }, () => submit(account.api_key)));
    if (round % 2 === 1) await evictAllDurableObjects();
    for (const response of await burst) {
      if (response.status === 202) accepted.push(((await response.json()) as { job_id: string }).job_id);
    }
    await evictAllDurableObjects();
  }
  expect(accepted.length).toBeGreaterThan(0);
  const page = (await (await api(account.api_key, "/v1/jobs?limit=100")).json()) as { jobs: { job_id: string }[] };
  expect(page.jobs.map(({ job_id }) => job_id)).toEqual(expect.arrayContaining(accepted));
  expect(await rows(account, "SELECT COUNT(*) AS n FROM timers WHERE kind = 'job'")).toEqual([{ n: page.jobs.length }]);
});

it("still knows what a runner accepted after it was started anew, once somebody has looked", async () => {
  const runner = await PlayedRunner.ready("seen");
  const account = await newAccount("pro", "seen");
  const { job_id } = await submitted(account.api_key);
  const dispatch = await runner.dispatched(job_id);
  await vi.waitFor(async () => expect((await readJob(account.api_key, job_id)).status).toBe("running"));
  const before = await readJob(account.api_key, job_id);
  await evictDurableObject(accountObject(account));
  expect(await readJob(account.api_key, job_id)).toEqual(before);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [] })).status).toBe(200);
  expect(await readJob(account.api_key, job_id)).toMatchObject({ status: "completed", started_at: before.started_at });
});

it("posts a placed job again with the same fence after it was started anew", async () => {
  const runner = await PlayedRunner.ready("evicted");
  const account = await newAccount("pro", "evicted");
  runner.onDispatch = () => {
    throw new TypeError("Network connection lost.");
  };
  const { job_id } = await submitted(account.api_key);
  await runner.dispatched(job_id);
  expect(await rows(account, "SELECT phase FROM jobs")).toEqual([{ phase: "placed" }]);

  runner.onDispatch = (dispatch) => runner.accept(dispatch);
  // Its memory of the repeats goes with it.
  await abortAllDurableObjects();
  expect(runner.dispatches).toHaveLength(1);
  await vi.waitFor(async () => expect((await readJob(account.api_key, job_id)).status).toBe("running"));
  expect(runner.dispatches.map(({ order }) => order.fence)).toEqual([1, 1]);
  expect((await readJob(account.api_key, job_id)).attempt).toBe(1);
});
