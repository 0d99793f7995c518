import { describe, expect, test } from "vitest";
import type { SeatOutcome } from "../../worker/fleet/sync.ts";
import { freed, NOW, openPool, placedIn, request, ticket, Voice } from "./fixture.ts";

function poolWith(...voices: Voice[]) {
  const { pool } = openPool(voices);
  let next = 0;
  return {
    pool,
    /** Runs a job of the account on whatever runner gets it, to that end; undefined where it gets none. */
    runs(account: string, outcome: SeatOutcome, now: number): string | undefined {
      for (const voice of voices) voice.beat(pool, now);
      const want = [ticket(`${account}-${++next}`)];
      const [placed] = pool.sync(request(account, { want }), now).placed;
      if (!placed) {
        pool.sync(request(account, { drop: want }), now);
        return undefined;
      }
      pool.sync(request(account, { freed: [freed(placed.job, placed.runner, outcome)] }), now + 100);
      return placed.runner;
    },
    health: (runner: string) => pool.runners.get(runner)?.health,
  };
}

describe("five engine faults in a row", () => {
  test("over three accounts suspend a runner", () => {
    const { runs, health } = poolWith(new Voice("one"));
    for (const account of ["a", "b", "c", "a"]) runs(account, "engine_fault", NOW);
    expect(health("one")?.suspended_until).toBe(0);
    runs("b", "engine_killed", NOW);
    expect(health("one")).toMatchObject({ reason: "engine_faults", probation: true });
    expect(runs("d", "ended", NOW + 1_000)).toBeUndefined();
  });

  test("of two accounts only are their own affair", () => {
    const { runs, health } = poolWith(new Voice("one"));
    for (let n = 0; n < 10; n++) runs(n % 2 ? "a" : "b", "engine_fault", NOW + n * 1_000);
    expect(health("one")?.probation).toBe(false);
  });

  test("are not in a row when something succeeded between", () => {
    const { runs, health } = poolWith(new Voice("one"));
    for (const account of ["a", "b", "c", "d"]) runs(account, "engine_fault", NOW);
    runs("a", "ended", NOW);
    for (const account of ["a", "b", "c", "d"]) runs(account, "engine_fault", NOW);
    expect(health("one")?.probation).toBe(false);
  });
});

describe("a suspended runner", () => {
  function suspended() {
    const opened = poolWith(new Voice("one", { seats: 4 }));
    for (const account of ["a", "b", "c", "a", "b"]) opened.runs(account, "engine_fault", NOW);
    return opened;
  }

  test("gets one execution at a time after its pause, until one succeeds", () => {
    const { pool, runs } = suspended();
    const after = NOW + 6_000;
    pool.tick(after);
    const want = ["j1", "j2", "j3"].map((job) => ticket(job));
    expect(placedIn(pool.sync(request("x", { want }), after))).toEqual(["j1"]);
    pool.sync(request("x", { freed: [freed("j1", "one")] }), after + 1_000);
    expect(pool.seats.clients.get("x")?.seats.size).toBe(2);
    expect(runs("y", "ended", after + 2_000)).toBe("one");
  });

  test("pauses twice as long when its probe fails too, and at most five minutes", () => {
    const { pool, runs, health } = suspended();
    let now = NOW + 6_000;
    const pauses: number[] = [];
    for (let n = 0; n < 8; n++) {
      pool.tick(now);
      expect(runs("z", "engine_fault", now)).toBe("one");
      const until = health("one")?.suspended_until ?? 0;
      pauses.push(Math.round((until - now) / 1_000));
      now = until + 1;
    }
    expect(pauses).toEqual([10, 20, 40, 80, 160, 300, 300, 300]);
  });

  test("is not put right by taking an execution: its engine has to finish one", () => {
    const one = new Voice("one", { seats: 2 });
    const { pool, runs, health } = poolWith(one);
    for (const account of ["a", "b", "c", "a", "b"]) runs(account, "engine_fault", NOW);
    pool.tick(NOW + 6_000);
    pool.sync(request("x", { want: [ticket("j1")] }), NOW + 6_000);
    one.takes("x", { job: "j1", fence: 1 });
    one.beat(pool, NOW + 7_000);
    expect(health("one")?.probation).toBe(true);
  });

  test("starts anew with another process", () => {
    const one = new Voice("one");
    const { pool, runs, health } = poolWith(one);
    for (const account of ["a", "b", "c", "a", "b"]) runs(account, "engine_fault", NOW);
    one.dies();
    one.beat(pool, NOW + 1_000);
    expect(health("one")).toMatchObject({ probation: false, suspended_until: 0, faults: [] });
  });
});

describe("an account whose graphs killed two engines within ten minutes", () => {
  const seats = (opened: ReturnType<typeof poolWith>, now: number): number => {
    const want = ["k1", "k2", "k3"].map((job) => ticket(job));
    return opened.pool.sync(request("killer", { want }), now).placed.length;
  };

  test("gets one seat at a time, and others are not held up by it", () => {
    const opened = poolWith(new Voice("one", { seats: 8 }));
    for (let n = 0; n < 2; n++) opened.runs("killer", "engine_killed", NOW + n * 1_000);
    expect(seats(opened, NOW + 2_000)).toBe(1);
    expect(opened.runs("other", "ended", NOW + 2_000)).toBe("one");
    opened.pool.sync(request("killer", { freed: [freed("k1", "one", "engine_killed")] }), NOW + 3_000);
    expect(opened.pool.seats.clients.get("killer")?.seats.size).toBe(1);
  });

  test("until one of its executions succeeds", () => {
    const opened = poolWith(new Voice("one", { seats: 8 }));
    for (let n = 0; n < 2; n++) opened.runs("killer", "engine_killed", NOW);
    expect(seats(opened, NOW)).toBe(1);
    opened.pool.sync(request("killer", { freed: [freed("k1", "one")] }), NOW + 1_000);
    expect(opened.pool.seats.clients.get("killer")?.seats.size).toBe(2);
  });

  test("but not for two that lie further apart", () => {
    const opened = poolWith(new Voice("one", { seats: 8 }));
    for (const at of [NOW, NOW + 600_001]) opened.runs("killer", "engine_killed", at);
    expect(seats(opened, NOW + 600_002)).toBe(3);
  });
});

test("the same word said twice is one fault", () => {
  const { pool } = openPool([new Voice("one")]);
  pool.sync(request("a", { want: [ticket("j1")] }), NOW);
  for (let n = 0; n < 3; n++) pool.sync(request("a", { freed: [freed("j1", "one", "engine_killed")] }), NOW + n);
  expect(pool.runners.get("one")?.health.faults).toEqual(["a"]);
  expect(pool.seats.clients.get("a")?.limited).toBe(false);
});
