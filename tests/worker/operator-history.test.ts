import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { emptyHistory, record, type StoredHistory, takeHistory, together } from "../../worker/fleet/history.ts";
import { PlayedRunner, playInternet } from "./played-runner.ts";
import { newAccount, submitted } from "./service.ts";

/** What a fleet object keeps of its history, and what that costs. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const MINUTE = 60_000;

const stored = (pool: string, change?: StoredHistory): Promise<StoredHistory | undefined> =>
  runInDurableObject(env.FLEET.getByName(pool), (_, { storage }) => {
    if (change) storage.kv.put("history", change);
    return storage.kv.get<StoredHistory>("history");
  });

const day = async (pool: string) => together((await env.FLEET.getByName(pool).history()).day);

/** A job that a runner of the pool has taken and ended. */
async function oneJob(pool: string, runner: PlayedRunner): Promise<void> {
  const { api_key } = await newAccount("pro", pool);
  const dispatch = await runner.dispatched((await submitted(api_key)).job_id);
  await runner.end(dispatch, { outcome: "completed", outputs: [] });
  runner.drop(dispatch.order.job);
}

it("counts jobs without writing them, until five minutes have passed", async () => {
  const pool = "history-counts";
  const runner = await PlayedRunner.ready(pool);
  await oneJob(pool, runner);
  await vi.waitFor(async () => expect(await day(pool)).toMatchObject({ started: 1, ended: 1, failed: 0 }));
  expect(await stored(pool)).toBeUndefined();
});

it("takes up after another start what was written, and writes again what came since, once", async () => {
  const pool = "history-restarts";
  const before = emptyHistory();
  const then = Date.now() - 6 * MINUTE;
  record(before, { kind: "started", wait_ms: 2_000 }, then);
  record(before, { kind: "ended" }, then);
  await stored(pool, takeHistory(before, then));
  await evictDurableObject(env.FLEET.getByName(pool));
  expect(await day(pool)).toMatchObject({ started: 1, ended: 1, wait_max_ms: 2_000 });
  const runner = await PlayedRunner.ready(pool);
  await oneJob(pool, runner);
  await vi.waitFor(async () => expect(await day(pool)).toMatchObject({ started: 2, ended: 2 }));
  const first = await stored(pool);
  expect(first?.written_at).toBeGreaterThan(then);
  await oneJob(pool, runner);
  await vi.waitFor(async () => expect(await day(pool)).toMatchObject({ started: 3, ended: 3 }));
  expect((await stored(pool))?.written_at).toBe(first?.written_at);
});

it("begins anew where something else is stored", async () => {
  const pool = "history-other";
  await stored(pool, { written_at: 1 } as StoredHistory);
  await evictDurableObject(env.FLEET.getByName(pool));
  expect(await day(pool)).toMatchObject({ started: 0, ended: 0, failed: 0 });
});
