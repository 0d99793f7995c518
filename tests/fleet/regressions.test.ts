import { expect, test } from "vitest";
import { Pool } from "../../worker/fleet/pool.ts";
import { RosterRows } from "../../worker/fleet/roster.ts";
import { entryOf, freed, hold, NOW, openPool, placedIn, request, sync, ticket, Voice } from "./fixture.ts";

const A = "acc_a";

test("a ticket that comes with the word that frees its account's last seat is served at once", () => {
  const { pool } = openPool([new Voice("one", { seats: 1 })]);
  sync(pool, A, { want: [ticket("j1")] }, NOW);
  const answer = sync(pool, A, { freed: [freed("j1", "one", "handed_back")], want: [ticket("j2")] }, NOW);
  expect(placedIn(answer)).toEqual(["j2"]);
});

test("strikes count in a row: work that ends between them clears them", () => {
  const one = new Voice("one");
  const { pool } = openPool([one]);
  let now = NOW;
  for (let n = 0; n < 6; n++) {
    now += 5_000;
    one.beat(pool, now);
    const [job] = placedIn(sync(pool, A, { full: true, want: [ticket(`j${n}`)] }, now));
    if (job) sync(pool, A, { freed: [freed(job, "one", n % 2 ? "ended" : "strike")] }, now);
  }
  expect(pool.runners.get("one")?.health.suspended_until).toBe(0);
});

test("a seat that neither its account nor its runner mentions any more is void in the end", () => {
  const one = new Voice("one", { seats: 1 });
  const { pool } = openPool([one]);
  sync(pool, A, { want: [ticket("j1")] }, NOW);
  sync(pool, A, { hold: [hold("j1", one, { kind: "trying" })] }, NOW);
  for (let t = 5_000; t < 600_000; t += 5_000) {
    one.beat(pool, NOW + t);
    pool.tick(NOW + t);
  }
  expect(pool.seats.seated.size).toBe(0);
});

test("an account that holds an execution elsewhere than the fleet remembers leaves no seat behind", () => {
  const [one, two] = [new Voice("one", { seats: 1 }), new Voice("two", { seats: 1 })];
  const { pool } = openPool([one, two]);
  const [first] = sync(pool, A, { want: [ticket("j1")] }, NOW).placed;
  const other = first?.runner === "one" ? two : one;
  sync(pool, A, { hold: [hold("j1", other)] }, NOW);
  other.takes(A, { job: "j1", fence: 1 });
  other.beat(pool, NOW + 5_000);
  other.held = [];
  sync(pool, A, { full: true, freed: [freed("j1", other.name)] }, NOW + 6_000);
  for (const t of [10_000, 81_000]) {
    one.beat(pool, NOW + t);
    two.beat(pool, NOW + t);
    pool.tick(NOW + t);
  }
  expect([...pool.runners.values()].map((runner) => runner.placed.size + runner.listed.size)).toEqual([0, 0]);
});

test("what an account drops and wants again is not stopped", () => {
  const one = new Voice("one", { seats: 1 });
  const { pool } = openPool([one]);
  sync(pool, A, { want: [ticket("j1")] }, NOW);
  const answer = sync(pool, A, { drop: [{ job: "j1", fence: 1 }], want: [ticket("j1")] }, NOW);
  expect(answer.placed).toHaveLength(1);
  one.takes(A, { job: "j1", fence: 1 });
  expect(one.beat(pool, NOW + 5_000)?.stop).toEqual([]);
});

test("a beat that comes before its account's first word charges nothing at a weight that nobody knows", () => {
  const one = new Voice("one");
  const { sql } = openPool([one]);
  const pool = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
  one.held = [{ account: A, job: "j1", fence: 1, running_ms: 600_000 }];
  one.beat(pool, NOW);
  pool.sync(request(A, { tier: "enterprise", full: true, hold: [hold("j1", one)] }), NOW);
  expect(pool.seats.clients.get(A)?.share.virtual).toBeLessThanOrEqual(600_000 / 16);
});

test("a lost runner that enrols again is not lost again before its first beat", () => {
  const { pool } = openPool([new Voice("one")]);
  pool.tick(NOW + 15_000);
  pool.enrol({ ...entryOf("one"), enrolled_at: NOW + 100_000 });
  pool.tick(NOW + 101_000);
  expect(pool.runners.get("one")?.entry.state).toBe("active");
});

test("a placement that was given back unused and is made again is held like any other", () => {
  const one = new Voice("one");
  const { pool } = openPool([one]);
  sync(pool, A, { want: [ticket("j1")] }, NOW);
  sync(pool, A, { freed: [freed("j1", "one", "unused")] }, NOW + 1_000);
  expect(placedIn(sync(pool, A, { want: [ticket("j1")] }, NOW + 2_000))).toEqual(["j1"]);
  one.takes(A, { job: "j1", fence: 1 });
  for (const at of [3_000, 8_000, 13_000]) {
    one.beat(pool, NOW + at);
    pool.tick(NOW + at);
  }
  expect(pool.takeNews().size).toBe(0);
  expect(pool.seats.seated.size).toBe(1);
});

test("a late word that a placement was not used leaves one of the same name alone that is held, or lies elsewhere", () => {
  const one = new Voice("one");
  const two = new Voice("two");
  const { pool } = openPool([one, two]);
  const seated = () => [...pool.seats.seated.values()].map(({ runner }) => runner);
  sync(pool, A, { want: [ticket("j1", { avoid: ["two"] })] }, NOW);
  sync(pool, A, { freed: [freed("j1", "two", "unused")] }, NOW + 1_000);
  expect(seated()).toEqual(["one"]);
  sync(pool, A, { hold: [hold("j1", one)] }, NOW + 2_000);
  sync(pool, A, { freed: [freed("j1", "one", "unused")] }, NOW + 3_000);
  expect(seated()).toEqual(["one"]);
});

test("what a runner refused costs its account nothing, and what it gave back the time that it took", () => {
  const outcomes = ["unused", "refused", "refused_boot", "refused_full", "strike", "handed_back", "ended"] as const;
  const used = outcomes.map((outcome) => {
    const { pool } = openPool([new Voice("one")]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    sync(pool, A, { freed: [freed("j1", "one", outcome)] }, NOW + 8_000);
    return pool.seats.clients.get(A)?.share.virtual;
  });
  expect(used).toEqual([0, 0, 0, 0, 0, 8_000, 8_000]);
});

test("an execution that its runner lists is not lost with another runner, on which a late request had it placed", () => {
  const one = new Voice("one");
  const two = new Voice("two");
  const { pool } = openPool([one, two]);
  sync(pool, A, { want: [ticket("j1", { avoid: ["one"] })] }, NOW);
  expect([...pool.seats.seated.values()].map(({ runner }) => runner)).toEqual(["two"]);
  one.takes(A, { job: "j1", fence: 1 });
  for (const at of [1_000, 6_000, 11_000, 16_000]) one.beat(pool, NOW + at);
  pool.tick(NOW + 16_000);
  expect(pool.runners.get("two")?.entry.state).toBe("lost");
  expect(pool.takeNews().size).toBe(0);
  expect([...pool.seats.seated.values()].map(({ runner }) => runner)).toEqual(["one"]);
});
