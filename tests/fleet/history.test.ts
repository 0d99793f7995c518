import { describe, expect, test } from "vitest";
import {
  type Bucket,
  emptyHistory,
  type FleetHistory,
  readHistory,
  record,
  takeHistory,
  together,
  viewHistory,
  waitWithin,
} from "../../worker/fleet/history.ts";
import { FORGOTTEN_MS } from "../../worker/fleet/pool-state.ts";
import { freed, NOW, openPool, sync, ticket, Voice } from "./fixture.ts";

const MINUTE = 60_000;
const A = "acc_a";

const used = (buckets: readonly Bucket[]) =>
  buckets
    .filter(({ started, ended, failed }) => started + ended + failed > 0)
    .map(({ at, started, ended, failed }) => [(at - NOW) / MINUTE, started, ended, failed]);

const counts = (history: FleetHistory, now: number) => {
  const { started, ended, failed } = together(viewHistory(history, now).day);
  return { started, ended, failed };
};

describe("a history", () => {
  test("counts by the minute for an hour and by five minutes for a day", () => {
    const history = emptyHistory();
    record(history, { kind: "started", wait_ms: 10 }, NOW);
    record(history, { kind: "ended" }, NOW + 59_999);
    record(history, { kind: "failed" }, NOW + 7 * MINUTE);
    const { hour, day } = viewHistory(history, NOW + 7 * MINUTE);
    expect([hour.length, day.length]).toEqual([60, 288]);
    expect(used(hour)).toEqual([
      [0, 1, 1, 0],
      [7, 0, 0, 1],
    ]);
    expect(used(day)).toEqual([
      [0, 1, 1, 0],
      [5, 0, 0, 1],
    ]);
    expect(hour.at(-1)?.at).toBe(NOW + 7 * MINUTE);
  });

  test("forgets the hour and the day as they pass, and keeps no more than it shows", () => {
    const history = emptyHistory();
    for (let minute = 0; minute < 3 * 24 * 60; minute++) record(history, { kind: "ended" }, NOW + minute * MINUTE);
    const now = NOW + (3 * 24 * 60 - 1) * MINUTE;
    const { hour, day } = viewHistory(history, now);
    expect(hour.map(({ ended }) => ended)).toEqual(Array.from({ length: 60 }, () => 1));
    expect(day.map(({ ended }) => ended)).toEqual(Array.from({ length: 288 }, () => 5));
    expect([history.minutes.size, history.fives.size]).toEqual([60, 288]);
    expect(used(viewHistory(history, now + 25 * 60 * MINUTE).day)).toEqual([]);
  });

  test("goes on where a clock was wrong for a while, ahead or behind", () => {
    const history = emptyHistory();
    record(history, { kind: "ended" }, NOW);
    record(history, { kind: "ended" }, NOW + (400 * 24 * 60 + 7) * MINUTE);
    record(history, { kind: "ended" }, NOW - 3 * MINUTE);
    record(history, { kind: "ended" }, NOW + MINUTE);
    expect(used(viewHistory(history, NOW + MINUTE).hour).map(([at]) => at)).toEqual([-3, 0, 1]);
  });

  test("tells how long most tickets waited: up to an edge, and never longer than the longest", () => {
    const history = emptyHistory();
    for (let i = 0; i < 95; i++) record(history, { kind: "started", wait_ms: 800 }, NOW);
    for (let i = 0; i < 5; i++) record(history, { kind: "started", wait_ms: 4_000 }, NOW);
    const all = together(viewHistory(history, NOW).hour);
    expect(waitWithin(all, 0.95)).toBe(1_000);
    expect(waitWithin(all, 0.96)).toBe(4_000);
    expect(all).toMatchObject({ started: 100, wait_ms: 96_000, wait_max_ms: 4_000 });
    record(history, { kind: "started", wait_ms: 2_000_000 }, NOW);
    expect(waitWithin(together(viewHistory(history, NOW).hour), 1)).toBe(2_000_000);
    expect(waitWithin(together([]), 0.95)).toBeUndefined();
  });

  test("comes back from storage as it was, and begins anew where what is stored is something else", () => {
    const history = emptyHistory();
    record(history, { kind: "started", wait_ms: 250 }, NOW - 90 * MINUTE);
    record(history, { kind: "ended" }, NOW);
    expect(history.unwritten).toBe(true);
    const stored = structuredClone(takeHistory(history, NOW));
    expect(history.unwritten).toBe(false);
    const again = readHistory(stored);
    expect(again.written_at).toBe(NOW);
    expect(viewHistory(again, NOW)).toEqual(viewHistory(history, NOW));
    for (const other of [undefined, null, 7, {}, { written_at: NOW, minutes: [{ at: NOW }], fives: [] }])
      expect(used(viewHistory(readHistory(other), NOW).day)).toEqual([]);
  });

  test("of the busiest day is a value that storage takes", () => {
    const history = emptyHistory();
    for (let at = NOW; at < NOW + 24 * 60 * MINUTE; at += MINUTE)
      for (const wait_ms of [50, 700_000, 2_000_000]) record(history, { kind: "started", wait_ms }, at);
    const stored = takeHistory(history, NOW + 24 * 60 * MINUTE - 1);
    expect(JSON.stringify(stored).length).toBeLessThan(100_000);
  });
});

describe("a pool's history", () => {
  test("knows how long each ticket waited for its seat, however often it was asked for again", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    const want = { want: [ticket("j1"), ticket("j2")] };
    sync(pool, A, want, NOW);
    sync(pool, A, { ...want, full: true }, NOW + 4_000);
    sync(pool, A, { freed: [freed("j1", "one")] }, NOW + 9_000);
    const all = together(viewHistory(pool.state.history, NOW + 9_000).hour);
    expect(all).toMatchObject({ started: 2, ended: 1, failed: 0, wait_ms: 9_000, wait_max_ms: 9_000 });
  });

  test("keeps a ticket's wait while runners of a new kind come", () => {
    const one = new Voice("one", { seats: 1, classes: ["Other"] });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.classes = ["SaveImage"];
    one.dies();
    one.beat(pool, NOW + 5_000);
    const all = together(viewHistory(pool.state.history, NOW + 5_000).hour);
    expect(all).toMatchObject({ started: 1, wait_max_ms: 5_000 });
  });

  test("tells faults of engines and lost runners from what ended, and counts no refusal", () => {
    const one = new Voice("one", { seats: 8 });
    const { pool } = openPool([one]);
    const jobs = ["ended", "engine_fault", "engine_killed", "handed_back", "refused", "strike"] as const;
    sync(pool, A, { want: jobs.map((job) => ticket(job)) }, NOW);
    sync(pool, A, { freed: jobs.map((job) => freed(job, "one", job)) }, NOW + 1_000);
    // Said again it counts no more.
    sync(pool, A, { freed: jobs.map((job) => freed(job, "one", job)) }, NOW + 2_000);
    expect(counts(pool.state.history, NOW + 2_000)).toEqual({ started: 6, ended: 2, failed: 2 });
  });

  test("counts what a lost runner held as failed, once", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.takes(A, { job: "j1", fence: 1 });
    one.beat(pool, NOW + 1_000);
    pool.tick(NOW + 60_000);
    pool.tick(NOW + 61_000);
    expect(counts(pool.state.history, NOW + 61_000)).toEqual({ started: 1, ended: 0, failed: 1 });
  });

  test("counts a cancelled execution as ended when its runner has let go of it", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.takes(A, { job: "j1", fence: 1 });
    one.beat(pool, NOW + 1_000);
    sync(pool, A, { drop: [{ job: "j1", fence: 1 }] }, NOW + 2_000);
    expect(counts(pool.state.history, NOW + 2_000)).toEqual({ started: 1, ended: 0, failed: 0 });
    one.held = [];
    one.beat(pool, NOW + 3_000);
    expect(counts(pool.state.history, NOW + 3_000)).toEqual({ started: 1, ended: 1, failed: 0 });
  });

  test("counts a placement that nobody confirmed neither as ended nor as failed", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    for (let at = NOW + 5_000; at <= NOW + FORGOTTEN_MS; at += 5_000) {
      one.beat(pool, at);
      pool.tick(at);
    }
    expect(counts(pool.state.history, NOW + FORGOTTEN_MS)).toEqual({ started: 1, ended: 0, failed: 0 });
  });
});
