import { describe, expect, test } from "vitest";
import { Pool } from "../../worker/fleet/pool.ts";
import { RosterRows } from "../../worker/fleet/roster.ts";
import { viewRunners } from "../../worker/fleet/views.ts";
import { entryOf, hold, NOW, openPool, placedIn, request, sync, ticket, verdictsIn, Voice } from "./fixture.ts";

const A = "acc_a";

function opened() {
  const one = new Voice("one");
  const { pool, sql } = openPool([one]);
  return { one, pool, sql, state: (of = pool) => of.runners.get("one")?.entry.state };
}

describe("a runner that an operator drains", () => {
  test("gets nothing new and is told so with each beat until its process ends", () => {
    const { one, pool, state } = opened();
    expect(pool.drain("one", NOW)).toBe(true);
    expect(state()).toBe("draining");
    expect(placedIn(sync(pool, A, { want: [ticket("j1")] }, NOW))).toEqual([]);
    for (let n = 1; n < 3; n++) expect(one.beat(pool, NOW + n * 1_000)?.drain).toBe(true);
  });

  test("keeps what it runs", () => {
    const { one, pool } = opened();
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.takes(A, { job: "j1", fence: 1 });
    one.beat(pool, NOW + 1_000);
    pool.drain("one", NOW + 1_000);
    expect(verdictsIn(sync(pool, A, { hold: [hold("j1", one)] }, NOW + 2_000))).toEqual(["j1.1 held"]);
  });

  test("stays drained over a restart of the fleet and of its own process, until one has ended in order", () => {
    const { one, pool, sql, state } = opened();
    pool.drain("one", NOW);
    const again = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
    one.dies();
    expect(one.beat(again, NOW + 1_000)?.drain).toBe(true);
    again.beat("one", "jkt-one", { ...one.next(), draining: true, leaving: true }, NOW + 2_000);
    expect(state(again)).toBe("stopped");
    one.dies();
    expect(one.beat(again, NOW + 3_000)?.drain).toBeUndefined();
    expect(state(again)).toBe("active");
  });

  test("and that is lost drains when it is heard again, also by a fleet that has just started", () => {
    const { one, pool, sql, state } = opened();
    pool.tick(NOW + 15_000);
    expect(pool.drain("one", NOW + 16_000)).toBe(true);
    expect(viewRunners(pool.state)).toMatchObject([{ state: "lost" }]);
    const again = new Pool(new RosterRows(sql), { started_at: NOW + 17_000, grace_until: NOW + 17_000 });
    expect(one.beat(again, NOW + 18_000)?.drain).toBe(true);
    expect(viewRunners(again.state)).toMatchObject([{ state: "draining" }]);
    expect(placedIn(sync(again, A, { want: [ticket("j1")] }, NOW + 18_000))).toEqual([]);
    again.beat("one", "jkt-one", { ...one.next(), draining: true, leaving: true }, NOW + 19_000);
    one.dies();
    expect(one.beat(again, NOW + 20_000)?.drain).toBeUndefined();
    expect(state(again)).toBe("active");
  });

  test("and that is lost is active again once it has enrolled anew", () => {
    const { one, pool, state } = opened();
    pool.tick(NOW + 15_000);
    pool.drain("one", NOW + 16_000);
    pool.enrol({ ...entryOf("one"), enrolled_at: NOW + 20_000 });
    expect(one.beat(pool, NOW + 21_000)?.drain).toBeUndefined();
    expect(state()).toBe("active");
  });

  test("and that has stopped has nothing to end", () => {
    const { one, pool, state } = opened();
    pool.beat("one", "jkt-one", { ...one.next(), leaving: true }, NOW + 1_000);
    expect(pool.drain("one", NOW + 2_000)).toBe(true);
    expect(state()).toBe("stopped");
    one.dies();
    expect(one.beat(pool, NOW + 3_000)?.drain).toBeUndefined();
    expect(state()).toBe("active");
  });

  test("must be enrolled", () => {
    const { pool } = opened();
    pool.revoke("one", NOW);
    expect([pool.drain("one", NOW), pool.drain("two", NOW)]).toEqual([false, false]);
  });
});

describe("a process that says goodbye", () => {
  test("is stopped at once: nobody waits for its silence, and silent it is not lost", () => {
    const { one, pool, state } = opened();
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.takes(A, { job: "j1", fence: 1 });
    one.beat(pool, NOW + 1_000);
    pool.beat("one", "jkt-one", { ...one.next(), leaving: true }, NOW + 2_000);
    expect(verdictsIn(pool.takeNews().get(A))).toEqual(["j1.1 lost"]);
    pool.tick(NOW + 60_000);
    expect(state()).toBe("stopped");
    expect(placedIn(sync(pool, A, { want: [ticket("j2")] }, NOW + 60_000))).toEqual([]);
  });

  test("does not count among the silent, so that a rolling restart is no outage", () => {
    const voices = ["one", "two", "three", "four"].map((name) => new Voice(name));
    const { pool } = openPool(voices);
    for (const voice of voices.slice(0, 3)) {
      pool.beat(voice.name, `jkt-${voice.name}`, { ...voice.next(), leaving: true }, NOW + 1_000);
    }
    pool.tick(NOW + 15_000);
    expect(pool.runners.get("four")?.entry.state).toBe("lost");
  });

  test("is heard again with its next process", () => {
    const { one, pool, state } = opened();
    pool.beat("one", "jkt-one", { ...one.next(), leaving: true }, NOW + 1_000);
    one.dies();
    one.beat(pool, NOW + 2_000);
    expect(state()).toBe("active");
    expect(placedIn(pool.sync(request(A, { want: [ticket("j1")] }), NOW + 2_000))).toEqual(["j1"]);
  });
});

describe("the first beat of a process", () => {
  test("that comes twice is one boot, and takes nothing from what was placed in between", () => {
    const { one, pool } = opened();
    one.dies();
    const first = one.next();
    expect(pool.beat("one", "jkt-one", first, NOW + 1_000)?.boot).toBe(2);
    sync(pool, A, { want: [ticket("j1")] }, NOW + 1_000);
    expect(pool.beat("one", "jkt-one", first, NOW + 1_100)?.boot).toBe(2);
    expect(pool.seats.seated.size).toBe(1);
    expect(pool.takeNews().size).toBe(0);
  });

  test("that comes again after another process has followed takes nothing from that one", () => {
    const { one, pool } = opened();
    one.dies();
    const late = one.next();
    pool.beat("one", "jkt-one", late, NOW + 1_000);
    one.dies();
    one.beat(pool, NOW + 2_000);
    sync(pool, A, { want: [ticket("j1")] }, NOW + 2_000);
    expect(pool.beat("one", "jkt-one", late, NOW + 3_000)?.boot).toBe(3);
    expect(pool.takeNews().size).toBe(0);
    expect(one.beat(pool, NOW + 4_000)?.boot).toBe(3);
  });

  test("is known again by a fleet that has just started", () => {
    const { one, pool, sql } = opened();
    one.dies();
    const first = one.next();
    pool.beat("one", "jkt-one", first, NOW + 1_000);
    const again = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
    expect(again.beat("one", "jkt-one", first, NOW + 2_000)?.boot).toBe(2);
  });
});

test("a runner that follows another at its address, or with its key, counts its boots on", () => {
  const { one, pool } = opened();
  one.dies();
  one.beat(pool, NOW + 1_000);
  pool.revoke("one", NOW + 2_000);
  expect(pool.enrol(entryOf("two", { jkt: "jkt-one" })).boot).toBe(2);
  expect(pool.enrol(entryOf("three", { url: "https://one.example" })).boot).toBe(2);
  expect(pool.enrol(entryOf("four")).boot).toBe(0);
});
