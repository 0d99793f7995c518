import { describe, expect, test } from "vitest";
import { Pool } from "../../worker/fleet/pool.ts";
import { RosterRows } from "../../worker/fleet/roster.ts";
import { entryOf, freed, hold, NOW, openPool, placedIn, sync, ticket, Voice, verdictsIn } from "./fixture.ts";

const A = "acc_a";
const REF = { job: "j1", fence: 1 };

/** One runner with one seat that has taken A's job and said so. */
function holding(seats = 1) {
  const one = new Voice("one", { seats });
  const { pool, sql } = openPool([one]);
  sync(pool, A, { want: [ticket("j1")] }, NOW);
  one.takes(A, REF);
  one.beat(pool, NOW);
  return { one, pool, sql };
}

const verdicts = (pool: Pool) => verdictsIn(pool.takeNews().get(A));

describe("numbers", () => {
  test("of boots rise with every process and are stored", () => {
    const one = new Voice("one");
    const { pool, sql } = openPool([one]);
    expect(one.boot).toBe(1);
    one.dies();
    one.beat(pool, NOW);
    expect(one.boot).toBe(2);
    const again = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
    one.dies();
    one.beat(again, NOW);
    expect(one.boot).toBe(3);
  });

  test("make an old or repeated beat change nothing, but it is answered", () => {
    const { one, pool } = holding();
    const listing = one.next();
    one.held = [];
    one.draining = true;
    one.beat(pool, NOW + 5_000);
    for (const old of [
      listing,
      { ...listing, beat: { boot: 1, n: one.n } },
      { ...listing, beat: { boot: 0, n: 99 } },
    ]) {
      expect(pool.beat("one", "jkt-one", { ...old, seats: 7 }, NOW + 10_000)).toMatchObject({ boot: 1, stop: [] });
      expect(pool.runners.get("one")).toMatchObject({ seats: 1, draining: true, seen_at: NOW + 5_000 });
      expect(pool.runners.get("one")?.listed.size).toBe(0);
    }
  });

  test("of a boot that the fleet has forgotten are taken up", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    one.boot = 9;
    expect(one.beat(pool, NOW)?.boot).toBe(9);
  });
});

test("a beat by another key, or of a runner that nobody enrolled, is not answered", () => {
  const one = new Voice("one");
  const { pool } = openPool([one]);
  expect(pool.beat("one", "jkt-two", one.next(), NOW)).toBeUndefined();
  expect(pool.beat("none", "jkt-one", one.next(), NOW)).toBeUndefined();
});

test("a description is asked for until there is one, and outlives the fleet object", () => {
  const { pool, sql } = openPool();
  pool.enrol(entryOf("one"));
  const silent = { process: "a-process", seats: 1, draining: false, held: [] };
  expect(pool.beat("one", "jkt-one", silent, NOW)?.describe).toBe(true);
  expect(new Voice("one").beat(pool, NOW)?.describe).toBe(false);
  const again = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
  expect(again.beat("one", "jkt-one", silent, NOW)?.describe).toBe(false);
});

test("the first beat of a process loses what an earlier one held", () => {
  const { one, pool } = holding();
  one.dies();
  one.beat(pool, NOW + 2_000);
  expect(verdicts(pool)).toEqual(["j1.1 lost"]);
  expect(placedIn(sync(pool, A, { want: [ticket("j1", { fence: 2 })] }, NOW + 2_000))).toEqual(["j1"]);
});

describe("an execution that a later beat leaves out", () => {
  test("is lost after its grace of 2 s, and once", () => {
    const { one, pool } = holding();
    one.held = [];
    one.beat(pool, NOW + 5_000);
    expect(verdicts(pool)).toEqual([]);
    pool.tick(NOW + 6_999);
    expect(verdicts(pool)).toEqual([]);
    pool.tick(NOW + 7_000);
    expect(verdicts(pool)).toEqual(["j1.1 lost"]);
    pool.tick(NOW + 9_000);
    expect(verdicts(pool)).toEqual([]);
  });

  test("is not lost where its account freed it meanwhile", () => {
    const { one, pool } = holding();
    one.held = [];
    one.beat(pool, NOW + 5_000);
    sync(pool, A, { freed: [freed("j1", "one")] }, NOW + 6_000);
    pool.tick(NOW + 60_000);
    expect(verdicts(pool)).toEqual([]);
  });

  test("frees its seat at that beat", () => {
    const { one, pool } = holding();
    one.held = [];
    one.beat(pool, NOW + 5_000);
    expect(placedIn(sync(pool, A, { want: [ticket("j2")] }, NOW + 5_000))).toEqual(["j2"]);
  });

  test("is lost too where only the account knew that it was held", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    sync(pool, A, { hold: [hold("j1", one)] }, NOW);
    one.beat(pool, NOW + 5_000);
    pool.tick(NOW + 7_000);
    expect(verdicts(pool)).toEqual(["j1.1 lost"]);
  });

  test("is not lost by a beat that is no later than its acceptance", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    one.beat(pool, NOW);
    sync(pool, A, { hold: [hold("j1", one, { beat: { boot: 1, n: 2 } })] }, NOW);
    one.beat(pool, NOW + 1_000);
    pool.tick(NOW + 9_000);
    expect(verdicts(pool)).toEqual([]);
  });
});

describe("an undecided dispatch", () => {
  function undecided() {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    sync(pool, A, { hold: [hold("j1", one, { kind: "trying" })] }, NOW);
    return { one, pool };
  }
  const decide = (pool: Pool, one: Voice, now: number) =>
    sync(pool, A, { hold: [hold("j1", one, { kind: "undecided" })] }, now);

  test("is refused by two beats in a row that do not list it, and strikes its runner", () => {
    const { one, pool } = undecided();
    decide(pool, one, NOW + 60_000);
    one.beat(pool, NOW + 61_000);
    expect(verdicts(pool)).toEqual([]);
    one.beat(pool, NOW + 66_000);
    expect(verdicts(pool)).toEqual(["j1.1 refused"]);
    expect(pool.runners.get("one")?.health.strikes).toBe(1);
    expect(pool.seats.seated.size).toBe(0);
  });

  test("is accepted by a beat that lists it in between", () => {
    const { one, pool } = undecided();
    decide(pool, one, NOW + 60_000);
    one.beat(pool, NOW + 61_000);
    one.takes(A, REF);
    one.beat(pool, NOW + 66_000);
    expect(verdictsIn(decide(pool, one, NOW + 66_000))).toEqual(["j1.1 held"]);
  });

  test("is left alone while its dispatch is still repeated", () => {
    const { one, pool } = undecided();
    for (let t = 5_000; t < 60_000; t += 5_000) one.beat(pool, NOW + t);
    expect(verdicts(pool)).toEqual([]);
    expect(pool.seats.seated.size).toBe(1);
  });
});

describe("an execution that was freed", () => {
  test("and is still in an old beat takes no seat and is not stopped", () => {
    const { one, pool } = holding();
    sync(pool, A, { freed: [freed("j1", "one")] }, NOW + 1_000);
    expect(one.beat(pool, NOW + 1_500)?.stop).toEqual([]);
    expect(pool.seats.seated.size).toBe(0);
    expect(placedIn(sync(pool, A, { want: [ticket("j2")] }, NOW + 1_500))).toEqual(["j2"]);
  });

  test("is remembered for 30 s, no longer", () => {
    const { one, pool } = holding();
    sync(pool, A, { freed: [freed("j1", "one")] }, NOW + 1_000);
    one.beat(pool, NOW + 30_000);
    pool.tick(NOW + 31_000);
    one.beat(pool, NOW + 31_000);
    expect([...pool.seats.seated.keys()]).toEqual(["j1.1"]);
  });
});

describe("an execution that was dropped", () => {
  test("is stopped by every answer until a beat leaves it out", () => {
    const { one, pool } = holding();
    sync(pool, A, { drop: [REF] }, NOW + 1_000);
    for (let t = 5_000; t <= 15_000; t += 5_000) {
      expect(one.beat(pool, NOW + t)?.stop).toEqual([{ account: A, ...REF }]);
    }
    one.held = [];
    expect(one.beat(pool, NOW + 20_000)?.stop).toEqual([]);
    one.takes(A, { job: "j2", fence: 1 });
    expect(one.beat(pool, NOW + 25_000)?.stop).toEqual([]);
    expect(verdicts(pool)).toEqual([]);
  });

  test("keeps its seat until the runner says so", () => {
    const { one, pool } = holding();
    expect(placedIn(sync(pool, A, { drop: [REF], want: [ticket("j2")] }, NOW + 1_000))).toEqual([]);
    one.beat(pool, NOW + 5_000);
    expect(pool.takeNews().size).toBe(0);
    one.held = [];
    one.beat(pool, NOW + 10_000);
    expect(placedIn(pool.takeNews().get(A))).toEqual(["j2"]);
  });

  test("is not what an absence from a full sync means: its result may still count", () => {
    const { one, pool } = holding();
    sync(pool, A, { full: true }, NOW + 1_000);
    expect(one.beat(pool, NOW + 5_000)?.stop).toEqual([]);
    expect([...pool.seats.seated.keys()]).toEqual(["j1.1"]);
  });
});
