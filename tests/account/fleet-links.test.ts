import { describe, expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { setSuspended } from "../../worker/account/administration.ts";
import { applyNews, dispatchAnswered, endExecution } from "../../worker/account/executions.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import type { Impossible, SyncRequest } from "../../worker/fleet/sync.ts";
import {
  completed,
  ended,
  failed,
  fires,
  HOME,
  jobId,
  KEY,
  NOW,
  news,
  openAccount,
  owed,
  phases,
  place,
  RUNNER,
  row,
  said,
  seatOn,
  send,
  talk,
  timer,
  verdict,
  WORD,
} from "./fixture.ts";

/** Spill-over: the conversations of one account with several pools (design section 5). */

const WEST = "west";
const EAST = "east";
const WEST_RUNNER = "rnr_00000000000000000002";
const EAST_RUNNER = "rnr_00000000000000000003";
const SPILLED = NOW + 5_000;

const jobsOf = (refs: readonly { readonly job: string }[] | undefined) =>
  (refs ?? []).map(({ job }) => Number(job.slice(-12)));
const wanted = (spoken: Record<string, SyncRequest>) =>
  Object.fromEntries(Object.entries(spoken).map(([pool, { want }]) => [pool, jobsOf(want)]));

/** Jobs of one account that wait at home, since `NOW`. */
function waiting(...numbers: number[]) {
  const opened = openAccount("pro", [HOME, WEST, EAST]);
  for (const n of numbers) send(opened.account, n);
  talk(opened.account, NOW);
  return opened;
}

/** The same 5 s later, when every pool has the tickets. */
function spilled(...numbers: number[]) {
  const opened = waiting(...numbers);
  talk(opened.account, SPILLED);
  owed(opened.account);
  return opened;
}

const placedBy = (account: Account, pool: string, n: number, runner: string, fence = 1, now = SPILLED): void =>
  applyNews(account, pool, news({ placed: [seatOn(n, fence, runner)] }), now);

/** A job that runs on a runner of another pool than its own, which has been told so. */
function runningInWest() {
  const opened = spilled(1);
  const { account } = opened;
  placedBy(account, WEST, 1, WEST_RUNNER);
  dispatchAnswered(account, jobId(1), 1, { kind: "accepted", ...WORD }, SPILLED);
  account.writeBehind();
  talk(account, SPILLED);
  owed(account);
  return opened;
}

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

describe("a ticket", () => {
  test("that waits 5 s at home is also offered to the other pools, and not before", () => {
    const { account } = waiting(1);
    expect(wanted(talk(account, SPILLED - 1))).toEqual({});
    const spoken = talk(account, SPILLED);
    expect(wanted(spoken)).toEqual({ [WEST]: [1], [EAST]: [1] });
    expect(spoken[WEST]).toMatchObject({ full: true, drop: [], freed: [], hold: [] });
    expect(talk(account, SPILLED + 1)).toEqual({});
  });

  test("waits from the moment when home is asked, not from its submission", () => {
    const { account } = openAccount("pro", [WEST]);
    send(account, 1);
    talk(account, NOW + 3_000);
    expect(talk(account, NOW + 7_999)[WEST]).toBeUndefined();
    expect(talk(account, NOW + 8_000)[WEST]).toBeDefined();
  });

  test("waits no longer because home is told everything again", () => {
    const { account } = waiting(1);
    account.links.forget();
    expect(talk(account, NOW + 3_000)[HOME]).toMatchObject({ full: true });
    expect(wanted(talk(account, SPILLED))).toEqual({ [WEST]: [1], [EAST]: [1] });
  });

  test("spills over from a home that does not answer at all", () => {
    const { account } = openAccount("pro", [WEST]);
    send(account, 1);
    const request = said(account);
    if (request) account.links.of(HOME).unanswered(request);
    expect(wanted(talk(account, SPILLED))).toEqual({ [HOME]: [1], [WEST]: [1] });
  });

  test("that is impossible at home spills over like any other", () => {
    const { account } = waiting(1);
    applyNews(account, HOME, news({ impossible: [{ job: jobId(1), fence: 1, hopeless: true }] }), NOW);
    expect(wanted(talk(account, SPILLED))).toEqual({ [WEST]: [1], [EAST]: [1] });
  });

  test("of the next attempt waits at home first again", () => {
    const { account } = spilled(1);
    place(account, 1, 1, SPILLED);
    endExecution(account, jobId(1), 1, { pool: HOME, runner: RUNNER }, failed("stalled"), SPILLED + 1_000);
    const at = SPILLED + 1_000;
    expect(talk(account, at)[HOME]?.want).toMatchObject([{ fence: 2 }]);
    expect(talk(account, at + 4_999)[WEST]).toBeUndefined();
    expect(talk(account, at + 5_000)[WEST]?.want).toMatchObject([{ fence: 2 }]);
  });

  test("spills over where a more urgent one has not waited for long", () => {
    const { account } = waiting(1);
    send(account, 2, { priority: 9, now: SPILLED - 1_000 });
    talk(account, SPILLED - 1_000);
    expect(wanted(talk(account, SPILLED))).toEqual({ [WEST]: [1], [EAST]: [1] });
  });

  test("stays at home in a deployment without other pools", () => {
    const { account } = openAccount("pro", [HOME]);
    send(account, 1);
    talk(account, NOW);
    expect(talk(account, SPILLED)).toEqual({});
    expect(Object.keys(talk(account, SPILLED + 60_000))).toEqual([]);
  });

  test("goes to no pool that the account merely hears from", () => {
    const { account } = openAccount("pro", [HOME]);
    send(account, 1);
    talk(account, NOW);
    // A report from a pool that the deployment has no more.
    endExecution(account, jobId(1), 3, { pool: WEST, runner: WEST_RUNNER }, completed(), NOW);
    expect(talk(account, NOW)[WEST]?.freed).toHaveLength(1);
    expect(talk(account, SPILLED)).toEqual({});
  });
});

describe("a placement", () => {
  test("by one pool withdraws the ticket from the others, at once", () => {
    const { account } = spilled(1);
    placedBy(account, WEST, 1, WEST_RUNNER);
    expect(owed(account)).toEqual([{ kind: "sync" }, { kind: "dispatch", job_id: jobId(1), fence: 1 }]);
    expect(row(account, 1).placement).toMatchObject({ pool: WEST, runner: WEST_RUNNER });
    const spoken = talk(account, SPILLED);
    const ticket = [{ job: jobId(1), fence: 1 }];
    expect(spoken[HOME]).toMatchObject({ full: false, want: [], drop: ticket, hold: [], freed: [] });
    expect(spoken[EAST]).toMatchObject({ want: [], drop: ticket, hold: [], freed: [] });
    expect(spoken[WEST]).toMatchObject({
      want: [],
      drop: [],
      freed: [],
      hold: [{ job: jobId(1), runner: WEST_RUNNER }],
    });
  });

  test("by home withdraws the ticket from those that it spilled over to", () => {
    const { account } = spilled(1);
    place(account, 1, 1, SPILLED);
    const spoken = talk(account, SPILLED);
    for (const pool of [WEST, EAST]) expect(spoken[pool]?.drop).toEqual([{ job: jobId(1), fence: 1 }]);
    expect(spoken[HOME]?.drop).toEqual([]);
  });

  test("by a second pool is given back unused to that pool, and the first one counts", () => {
    const { account } = spilled(1);
    placedBy(account, WEST, 1, WEST_RUNNER);
    placedBy(account, EAST, 1, EAST_RUNNER);
    expect(row(account, 1).placement).toMatchObject({ pool: WEST, runner: WEST_RUNNER });
    const spoken = talk(account, SPILLED);
    expect(spoken[EAST]?.freed).toEqual([{ job: jobId(1), fence: 1, runner: EAST_RUNNER, outcome: "unused" }]);
    expect(spoken[EAST]?.hold).toEqual([]);
    expect(spoken[WEST]?.freed).toEqual([]);
    expect(spoken[HOME]?.freed).toEqual([]);
  });

  test("by a second pool is given back although the job runs by then, and again when it is told again", () => {
    const { account } = runningInWest();
    for (let i = 0; i < 2; i++) {
      placedBy(account, EAST, 1, EAST_RUNNER);
      expect(talk(account, SPILLED)[EAST]?.freed).toMatchObject([{ runner: EAST_RUNNER, outcome: "unused" }]);
    }
    expect(row(account, 1)).toMatchObject({ phase: "running", placement: { pool: WEST } });
  });

  test("that is told again by its own pool is given back to nobody", () => {
    const { account } = runningInWest();
    placedBy(account, WEST, 1, WEST_RUNNER);
    expect(owed(account)).toEqual([]);
    expect(talk(account, SPILLED)).toEqual({});
  });

  test("is remembered with its pool when the process ends", () => {
    const { restart } = runningInWest();
    const after = restart();
    const spoken = talk(after, SPILLED + 1_000);
    expect(spoken[WEST]).toMatchObject({
      full: true,
      hold: [{ job: jobId(1), kind: "accepted", runner: WEST_RUNNER }],
    });
    expect(spoken[HOME]).toMatchObject({ full: true, hold: [] });
    expect(spoken[EAST]).toBeUndefined();
  });
});

describe("a ticket that nobody wants any more", () => {
  test("is withdrawn from every pool that has it, and from no other", () => {
    const { account } = spilled(1);
    send(account, 2, { now: SPILLED });
    talk(account, SPILLED);
    cancelJob(account, KEY, jobId(1), SPILLED);
    cancelJob(account, KEY, jobId(2), SPILLED);
    const spoken = talk(account, SPILLED);
    expect(jobsOf(spoken[HOME]?.drop)).toEqual([1, 2]);
    for (const pool of [WEST, EAST]) expect(jobsOf(spoken[pool]?.drop)).toEqual([1]);
  });

  test("is withdrawn after an answer was lost", () => {
    const { account } = spilled(1);
    cancelJob(account, KEY, jobId(1), SPILLED);
    const lost = said(account, SPILLED, WEST);
    if (lost) account.links.of(WEST).unanswered(lost);
    expect(talk(account, SPILLED)[WEST]).toMatchObject({ full: true, drop: [{ job: jobId(1), fence: 1 }] });
  });

  test("by a suspension is withdrawn from every pool", () => {
    const { account } = spilled(1);
    setSuspended(account, true, SPILLED);
    const spoken = talk(account, SPILLED);
    for (const pool of [HOME, WEST, EAST]) expect(spoken[pool]).toMatchObject({ full: true, want: [] });
  });

  test("by a suspension is withdrawn although the first answer was lost", () => {
    const { account } = spilled(1);
    setSuspended(account, true, SPILLED);
    const lost = said(account, SPILLED, WEST);
    expect(lost).toMatchObject({ full: true, want: [] });
    if (lost) account.links.of(WEST).unanswered(lost);
    expect(talk(account, SPILLED + 2_000)[WEST]).toMatchObject({ full: true, want: [] });
  });
});

describe("a placement that crosses a withdrawal", () => {
  test("is told as held at once, before its runner is told to stop", () => {
    const { account } = spilled(1);
    setSuspended(account, true, SPILLED);
    talk(account, SPILLED);
    setSuspended(account, false, SPILLED);
    owed(account);
    // It was placed before the withdrawal came; the account has not asked again.
    placedBy(account, WEST, 1, WEST_RUNNER);
    expect(owed(account)).toContainEqual({ kind: "sync" });
    expect(talk(account, SPILLED)[WEST]).toMatchObject({ hold: [{ job: jobId(1), runner: WEST_RUNNER }] });
  });
});

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

describe("a job that must have another runner", () => {
  const impossible = (hopeless: boolean, fence = 2): { impossible: Impossible[] } => ({
    impossible: [{ job: jobId(1), fence, hopeless }],
  });

  /** Job 1 ran out of memory at home, `NOW`; its next ticket is there. */
  function excluded(pools = [HOME, WEST, EAST]) {
    const { account } = openAccount("pro", pools);
    send(account, 1);
    place(account, 1);
    ended(account, 1, 1, failed("out_of_memory"));
    talk(account, NOW);
    return account;
  }

  test("is given up at once where its pool is the only one and has none", () => {
    const account = excluded([]);
    applyNews(account, HOME, news(impossible(false)), NOW);
    expect(phases(account, 1)).toEqual(["ready"]);
    applyNews(account, HOME, news(impossible(true)), NOW);
    expect(row(account, 1).end?.error?.code).toBe("out_of_memory");
  });

  test("is given up only when every pool says that it has none, and all its tickets are taken back", () => {
    const account = excluded();
    applyNews(account, HOME, news(impossible(true)), NOW);
    expect(phases(account, 1)).toEqual(["ready"]);
    talk(account, SPILLED, { [WEST]: impossible(true), [EAST]: impossible(false) });
    expect(phases(account, 1)).toEqual(["ready"]);
    applyNews(account, EAST, news(impossible(true)), SPILLED + 1_000);
    expect(row(account, 1).end).toMatchObject({ status: "failed", error: { code: "out_of_memory" } });
    const spoken = talk(account, SPILLED + 1_000);
    for (const pool of [HOME, WEST, EAST]) expect(spoken[pool]?.drop).toEqual([{ job: jobId(1), fence: 2 }]);
  });

  test("is given up in whatever order the pools say so, a full sync of one of them in between", () => {
    const account = excluded();
    applyNews(account, HOME, news(impossible(true)), NOW);
    talk(account, SPILLED, { [WEST]: impossible(true) });
    account.links.of(HOME).forget();
    talk(account, SPILLED + 1_000, { [HOME]: impossible(true) });
    expect(phases(account, 1)).toEqual(["ready"]);
    applyNews(account, EAST, news(impossible(true)), SPILLED + 2_000);
    expect(phases(account, 1)).toEqual(["ended"]);
  });

  test("is not given up by what was said of an earlier ticket", () => {
    const account = excluded();
    talk(account, SPILLED);
    for (const pool of [HOME, WEST, EAST]) applyNews(account, pool, news(impossible(true, 1)), SPILLED);
    expect(phases(account, 1)).toEqual(["ready"]);
  });

  test("is placed by another pool that has one", () => {
    const account = excluded();
    applyNews(account, HOME, news(impossible(true)), NOW);
    talk(account, SPILLED, { [EAST]: impossible(true) });
    placedBy(account, WEST, 1, WEST_RUNNER, 2);
    expect(row(account, 1)).toMatchObject({ phase: "placed", placement: { pool: WEST } });
  });

  test("does not wait for a pool that the account has merely heard from", () => {
    const account = excluded([HOME]);
    applyNews(account, WEST, news({ placed: [seatOn(9, 1, WEST_RUNNER)] }), NOW);
    talk(account, NOW);
    applyNews(account, HOME, news(impossible(true)), NOW);
    expect(phases(account, 1)).toEqual(["ended"]);
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
