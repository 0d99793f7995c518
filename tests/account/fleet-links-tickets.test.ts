import { describe, expect, test } from "vitest";
import { setSuspended } from "../../worker/account/administration.ts";
import { applyNews, endExecution } from "../../worker/account/executions.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import type { Impossible } from "../../worker/fleet/sync.ts";
import {
  completed,
  ended,
  failed,
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
} from "./fixture.ts";
import {
  EAST,
  EAST_RUNNER,
  jobsOf,
  placedBy,
  runningInWest,
  SPILLED,
  spilled,
  waiting,
  wanted,
  WEST,
  WEST_RUNNER,
} from "./pools.ts";

/** Spill-over: one ticket at several pools, the first of which to place it has the job (design section 5). */

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
