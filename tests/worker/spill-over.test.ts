import { runInDurableObject } from "cloudflare:test";
import { beforeEach, expect, it, vi } from "vitest";
import { SPILLOVER_POOL } from "./bindings.ts";
import { PlayedRunner, playInternet } from "./played-runner.ts";
import { accountObject, newAccount, readJob, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

it("runs a job that waits 5 s at home on a free seat of another pool, to its end", async () => {
  const elsewhere = await PlayedRunner.ready(SPILLOVER_POOL);
  const account = await newAccount("pro", "nobody-home");
  const { job_id } = await submitted(account.api_key);
  const from = Date.now();
  await vi.waitFor(() => expect(elsewhere.dispatches).toHaveLength(1), { timeout: 15_000, interval: 50 });
  expect(Date.now() - from).toBeGreaterThanOrEqual(4_500);
  const dispatch = await elsewhere.dispatched(job_id);
  const placed = await runInDurableObject(accountObject(account), (_, state) =>
    state.storage.sql.exec("SELECT json_extract(body, '$.placement.pool') AS pool FROM jobs").toArray(),
  );
  expect(placed).toEqual([{ pool: SPILLOVER_POOL }]);
  await elsewhere.progress(dispatch, 0.5);
  expect((await readJob(account.api_key, job_id)).status).toBe("running");
  expect((await elsewhere.end(dispatch, { outcome: "completed", outputs: [] })).status).toBe(200);
  elsewhere.drop(job_id);
  expect(await readJob(account.api_key, job_id)).toMatchObject({ status: "completed", attempt: 1 });
});

it("leaves a job at home whose own pool has a seat", async () => {
  const elsewhere = await PlayedRunner.ready(SPILLOVER_POOL);
  const home = await PlayedRunner.ready("at-home");
  const account = await newAccount("pro", "at-home");
  const { job_id } = await submitted(account.api_key);
  await home.dispatched(job_id);
  expect(elsewhere.dispatches).toEqual([]);
});
