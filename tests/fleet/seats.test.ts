import { describe, expect, test } from "vitest";
import { viewFleet, viewRunners } from "../../worker/fleet/views.ts";
import { freed, hold, NOW, openPool, placedIn, sync, ticket, Voice, verdictsIn } from "./fixture.ts";

/** A runner offers another number of seats with any beat: some of its engine's servers are sick, or well again. */

const A = "acc_a";
const B = "acc_b";
const want = (...jobs: string[]) => ({ want: jobs.map((job) => ticket(job)) });

function offering(seats: number, ...others: Voice[]) {
  const one = new Voice("one", { seats });
  return { one, ...openPool([one, ...others]) };
}

/** Its next beat, with so many seats. */
function offers(one: Voice, seats: number, pool: ReturnType<typeof openPool>["pool"], now: number) {
  one.seats = seats;
  return one.beat(pool, now);
}

describe("a runner without seats", () => {
  test("gets nothing, and everything at once when they are back", () => {
    const { one, pool } = offering(2);
    offers(one, 0, pool, NOW);
    expect(sync(pool, A, want("j1", "j2", "j3"), NOW).placed).toEqual([]);
    offers(one, 2, pool, NOW + 1_000);
    expect(placedIn(pool.takeNews().get(A))).toEqual(["j1", "j2"]);
  });

  test("is active, never lost as long as it beats, and adds nothing to the capacity", () => {
    const { one, pool } = offering(2);
    for (let t = 0; t <= 120_000; t += 5_000) {
      offers(one, 0, pool, NOW + t);
      pool.tick(NOW + t);
    }
    expect(viewRunners(pool.state)).toMatchObject([{ state: "active", seats: 0, max_seats: 8, seats_taken: 0 }]);
    expect(viewFleet(pool.state)).toMatchObject({ runners: { active: 1, lost: 0 }, seats: 0 });
    pool.tick(NOW + 135_000);
    expect(viewRunners(pool.state)).toMatchObject([{ state: "lost" }]);
  });

  test("keeps what it holds, and its account pays for it", () => {
    const { one, pool } = offering(1);
    sync(pool, A, want("j1"), NOW);
    one.takes(A, { job: "j1", fence: 1 });
    for (let t = 5_000; t <= 60_000; t += 5_000) {
      offers(one, 0, pool, NOW + t);
      pool.tick(NOW + t);
    }
    expect(verdictsIn(pool.takeNews().get(A))).toEqual([]);
    expect(verdictsIn(sync(pool, A, { hold: [hold("j1", one)] }, NOW + 60_000))).toEqual(["j1.1 held"]);
    expect([...pool.seats.seated.values()]).toMatchObject([{ charged_ms: 60_000 }]);
    expect(viewFleet(pool.state)).toMatchObject({ seats: 0, seats_taken: 1 });
  });

  test("does not make a ticket impossible", () => {
    const { one, pool } = offering(1);
    offers(one, 0, pool, NOW);
    expect(sync(pool, A, want("j1"), NOW).impossible).toEqual([]);
  });

  test("stands behind every other, and stands in nobody's way", () => {
    const two = new Voice("two", { seats: 1 });
    const three = new Voice("three", { seats: 3 });
    const { one, pool } = offering(2, two, three);
    offers(one, 0, pool, NOW);
    const { placed } = sync(pool, A, want("j1", "j2", "j3", "j4", "j5"), NOW);
    expect(placed.map(({ runner }) => runner).sort()).toEqual(["three", "three", "three", "two"]);
    offers(one, 1, pool, NOW + 1_000);
    expect(pool.takeNews().get(A)?.placed).toMatchObject([{ job: "j5", runner: "one" }]);
  });
});

describe("fewer seats than before", () => {
  test("take nothing away, and no new placement until enough are free", () => {
    const { one, pool } = offering(3);
    sync(pool, A, want("j1", "j2", "j3"), NOW);
    for (const job of ["j1", "j2", "j3"]) one.takes(A, { job, fence: 1 });
    offers(one, 1, pool, NOW + 1_000);
    expect(pool.seats.seated.size).toBe(3);
    for (const job of ["j1", "j2"])
      expect(sync(pool, A, { freed: [freed(job, "one")], ...want("k1") }, NOW).placed).toEqual([]);
    expect(placedIn(sync(pool, A, { freed: [freed("j3", "one")] }, NOW))).toEqual(["k1"]);
  });

  test("are told by the latest beat, not by an old one that comes late", () => {
    const { one, pool } = offering(2);
    const late = one.next();
    offers(one, 0, pool, NOW + 1_000);
    pool.beat("one", "jkt-one", late, NOW + 2_000);
    expect(sync(pool, A, want("j1"), NOW + 2_000).placed).toEqual([]);
  });

  test("change what each may have while others wait", () => {
    const { one, pool } = offering(8);
    sync(pool, A, want("j1"), NOW);
    sync(pool, B, want("k1"), NOW);
    expect(pool.runners.capacity).toBe(8);
    expect(pool.state.caps.freeTier).toBe(2);
    offers(one, 1, pool, NOW + 1_000);
    expect(pool.runners.capacity).toBe(1);
    expect(pool.state.caps).toMatchObject({ freeTier: 1, account: { free: 1 } });
    offers(one, 0, pool, NOW + 2_000);
    sync(pool, A, want("j2", "j3"), NOW + 2_000);
    expect(pool.runners.capacity).toBe(0);
    // Nobody's cap is below one seat, however few there are.
    expect(pool.state.caps.account).toMatchObject({ free: 1 });
    expect(Number.isFinite(pool.state.caps.freeTier)).toBe(true);
  });
});
