import { describe, expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { setSuspended } from "../../worker/account/administration.ts";
import { applyNews, dispatchAnswered, endExecution } from "../../worker/account/executions.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import type { SyncRequest } from "../../worker/fleet/sync.ts";
import {
  completed,
  ended,
  fires,
  HOME,
  jobId,
  KEY,
  NOW,
  news,
  openAccount,
  phases,
  place,
  row,
  send,
  talk,
  timer,
  verdict,
  WORD,
} from "./fixture.ts";
import {
  EAST,
  EAST_RUNNER,
  jobsOf,
  placedBy,
  runningInWest,
  SPILLED,
  spilled,
  wanted,
  WEST,
  WEST_RUNNER,
} from "./pools.ts";

/** The conversations of one account with several pools: what each hears of executions, and when (design section 5). */

/** Fires the sync timer whenever it is due and says what follows, second by second. */
function everySecond(account: Account, from: number, seconds: number, again_in_s: Record<string, number> = {}) {
  const replies = Object.fromEntries(Object.entries(again_in_s).map(([pool, s]) => [pool, { again_in_s: s }]));
  const log: { at: number; pool: string; request: SyncRequest }[] = [];
  for (let s = 0; s <= seconds; s++) {
    const now = from + s * 1000;
    if ((timer(account, "sync")?.due_at ?? Number.POSITIVE_INFINITY) > now) continue;
    fires(account, "sync", "", now);
    for (const [pool, request] of Object.entries(talk(account, now, replies))) log.push({ at: s, pool, request });
  }
  return log;
}

describe("a verdict", () => {
  test("of a pool about another pool's execution changes nothing", () => {
    const { account } = runningInWest();
    const before = row(account, 1);
    for (const pool of [HOME, EAST]) {
      for (const word of ["lost", "refused", "held", "unknown"] as const) {
        applyNews(account, pool, verdict(1, 1, word), SPILLED);
      }
    }
    expect(row(account, 1)).toEqual(before);
    applyNews(account, WEST, verdict(1, 1, "lost"), SPILLED);
    expect(row(account, 1)).toMatchObject({ phase: "ready", losses: 1 });
  });

  test("of another pool proves no acceptance and refuses no placement", () => {
    const { account } = spilled(1);
    placedBy(account, WEST, 1, WEST_RUNNER);
    const held = news({ verdicts: [{ job: jobId(1), fence: 1, verdict: "held", ...WORD }] });
    applyNews(account, HOME, held, SPILLED);
    applyNews(account, HOME, verdict(1, 1, "refused"), SPILLED);
    account.writeBehind();
    expect(phases(account, 1)).toEqual(["placed"]);
    applyNews(account, WEST, held, SPILLED);
    account.writeBehind();
    expect(phases(account, 1)).toEqual(["running"]);
  });
});

describe("the seat of an execution", () => {
  test("is freed in the pool of the placement", () => {
    const { account } = runningInWest();
    endExecution(account, jobId(1), 1, { pool: WEST, runner: WEST_RUNNER }, completed(), SPILLED);
    const spoken = talk(account, SPILLED);
    expect(spoken[WEST]?.freed).toEqual([{ job: jobId(1), fence: 1, runner: WEST_RUNNER, outcome: "ended" }]);
    expect(Object.keys(spoken)).toEqual([WEST]);
  });

  test("is freed there by a refused dispatch, and the job waits at home again", () => {
    const { account } = spilled(1);
    placedBy(account, WEST, 1, WEST_RUNNER);
    talk(account, SPILLED);
    dispatchAnswered(account, jobId(1), 1, { kind: "refused", outcome: "refused_full" }, SPILLED);
    const spoken = talk(account, SPILLED);
    expect(spoken[WEST]?.freed).toMatchObject([{ runner: WEST_RUNNER, outcome: "refused_full" }]);
    expect(wanted(spoken)).toEqual({ [HOME]: [1], [WEST]: [] });
  });

  test("is given up there when the job is cancelled", () => {
    const { account } = runningInWest();
    cancelJob(account, KEY, jobId(1), SPILLED);
    const spoken = talk(account, SPILLED);
    expect(Object.keys(spoken)).toEqual([WEST]);
    expect(spoken[WEST]?.drop).toEqual([{ job: jobId(1), fence: 1 }]);
  });

  test("is freed in the reporter's pool where nobody wants the report", () => {
    const { account } = runningInWest();
    const by = { pool: EAST, runner: EAST_RUNNER };
    expect(endExecution(account, jobId(1), 7, by, completed(), SPILLED)).toBe("fenced");
    const spoken = talk(account, SPILLED);
    expect(Object.keys(spoken)).toEqual([EAST]);
    expect(spoken[EAST]?.freed).toMatchObject([{ fence: 7, runner: EAST_RUNNER }]);
  });

  test("is held in its own pool alone, also when everything is said", () => {
    const { account } = runningInWest();
    send(account, 2, { now: SPILLED });
    place(account, 2, 1, SPILLED);
    account.links.forget();
    const spoken = talk(account, SPILLED);
    expect(jobsOf(spoken[WEST]?.hold)).toEqual([1]);
    expect(jobsOf(spoken[HOME]?.hold)).toEqual([2]);
    expect(spoken[EAST]).toBeUndefined();
  });
});

describe("other pools", () => {
  test("are not spoken to while there is nothing for them", () => {
    const { account } = openAccount("pro", [HOME, WEST, EAST]);
    for (let n = 1; n <= 5; n++) {
      send(account, n);
      expect(Object.keys(talk(account, NOW + n))).toEqual([HOME]);
      place(account, n, 1, NOW + n);
      talk(account, NOW + n);
    }
    setSuspended(account, true, NOW + 9);
    account.links.forget();
    expect(Object.keys(talk(account, NOW + 9))).toEqual([HOME]);
    expect(everySecond(account, NOW + 10, 60).some(({ pool }) => pool !== HOME)).toBe(false);
  });

  test("are left alone again when nothing of the account is there any more", () => {
    const { account } = spilled(1);
    place(account, 1, 1, SPILLED);
    talk(account, SPILLED);
    const log = everySecond(account, SPILLED, 60);
    expect(log.some(({ pool }) => pool !== HOME)).toBe(false);
    expect(log.length).toBeGreaterThan(5);
  });
});

describe("a full sync", () => {
  test("is due for each pool at the time that it asked for", () => {
    const { account } = openAccount("pro", [HOME, WEST]);
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 7 } });
    const log = everySecond(account, NOW, 60, { [HOME]: 7, [WEST]: 19 });
    const full = (pool: string) => log.filter((entry) => entry.pool === pool && entry.request.full).map(({ at }) => at);
    expect(full(HOME)).toEqual([7, 14, 21, 28, 35, 42, 49, 56]);
    expect(full(WEST)).toEqual([5, 24, 43]);
  });

  test("goes on with a pool where nothing of the account is but an execution", () => {
    const { account } = runningInWest();
    const full = everySecond(account, SPILLED, 60, { [HOME]: 10, [WEST]: 10 }).filter(
      ({ pool, request }) => pool === WEST && request.full,
    );
    expect(full.length).toBeGreaterThanOrEqual(5);
    for (const { request } of full) expect(jobsOf(request.hold)).toEqual([1]);
  });

  test("heals the loss of a verdict in another pool", () => {
    const { account } = runningInWest();
    for (let s = 1; s <= 30 && row(account, 1).phase === "running"; s++) {
      const now = SPILLED + s * 1000;
      if ((timer(account, "sync")?.due_at ?? Number.POSITIVE_INFINITY) <= now) fires(account, "sync", "", now);
      // What the fleet of that pool answers to whoever asks it.
      talk(account, now, { [WEST]: { verdicts: [{ job: jobId(1), fence: 1, verdict: "lost" }] } });
    }
    expect(row(account, 1)).toMatchObject({ phase: "ready", losses: 1 });
  });

  test("goes on with the former pool of an account that moved, until nothing of it is there", () => {
    const { account } = openAccount("pro", []);
    send(account, 1);
    place(account, 1);
    dispatchAnswered(account, jobId(1), 1, { kind: "accepted", ...WORD }, NOW);
    account.writeBehind();
    talk(account, NOW);
    account.putSettings({ ...account.mustSettings, pool: EAST });
    const full = everySecond(account, NOW + 5_000, 40).filter(({ pool, request }) => pool === HOME && request.full);
    expect(full.length).toBeGreaterThanOrEqual(5);
    for (const { request } of full) expect(request).toMatchObject({ want: [], hold: [{ job: jobId(1) }] });
    ended(account, 1, 1, completed(), NOW + 50_000);
    expect(talk(account, NOW + 50_000)[HOME]?.freed).toHaveLength(1);
  });

  test("is said after a start to a pool that is configured no more and still has an execution", () => {
    const { restart, account, sql } = runningInWest();
    account.writeBehind();
    expect(sql.exec("SELECT phase FROM jobs").toArray()).toEqual([{ phase: "running" }]);
    const after = restart([HOME]);
    expect(talk(after, SPILLED)[WEST]).toMatchObject({ full: true, want: [], hold: [{ job: jobId(1) }] });
  });
});

describe("the sync timer", () => {
  test("is set for the moment when a ticket may spill over", () => {
    const { account } = openAccount("pro", [WEST]);
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 120 } });
    expect(timer(account, "sync")?.due_at).toBe(SPILLED);
    const log = everySecond(account, NOW, 30, { [HOME]: 120, [WEST]: 120 });
    expect(log[0]).toMatchObject({ at: 5, pool: WEST, request: { want: [{ job: jobId(1) }] } });
  });

  test("is not set for it where there is no other pool", () => {
    const { account } = openAccount("pro", [HOME]);
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 120 } });
    expect(timer(account, "sync")?.due_at).toBe(NOW + 20_000);
  });

  test("is set for the next ticket when the one that it stood for is gone", () => {
    const { account } = openAccount("pro", [WEST]);
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 120 } });
    send(account, 2, { now: NOW + 3_000 });
    talk(account, NOW + 3_000, { [HOME]: { again_in_s: 120 } });
    cancelJob(account, KEY, jobId(1), NOW + 4_000);
    talk(account, NOW + 4_000, { [HOME]: { again_in_s: 120 } });
    const log = everySecond(account, NOW + 4_000, 30, { [HOME]: 120, [WEST]: 120 });
    expect(log.find(({ pool }) => pool === WEST)).toMatchObject({ at: 4, request: { want: [{ job: jobId(2) }] } });
  });

  test("is set for the next full sync when nothing was to be said at the last look", () => {
    const { account } = openAccount("pro", [WEST]);
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 8 } });
    place(account, 1, 1, NOW + 1_000);
    talk(account, NOW + 1_000, { [HOME]: { again_in_s: 8 } });
    const log = everySecond(account, NOW + 1_000, 40, { [HOME]: 8 });
    expect(log.filter(({ request }) => request.full).map(({ at }) => at + 1)).toEqual([8, 16, 24, 32, 40]);
  });
});
