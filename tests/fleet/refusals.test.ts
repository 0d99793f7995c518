import { describe, expect, test } from "vitest";
import type { SeatOutcome } from "../../worker/fleet/sync.ts";
import type { Pool } from "../../worker/fleet/pool.ts";
import { freed, NOW, openPool, placedIn, sync, ticket, Voice } from "./fixture.ts";

const A = "acc_a";
const B = "acc_b";
let jobs = 0;

/** Places one job on the only runner and lets it be refused; undefined where the runner got nothing. */
function refused(pool: Pool, outcome: SeatOutcome, now: number): string | undefined {
  const [job] = placedIn(sync(pool, A, { full: true, want: [ticket(`j${++jobs}`)] }, now));
  if (job !== undefined) sync(pool, A, { freed: [freed(job, "one", outcome)] }, now);
  return job;
}

describe("a refusal", () => {
  test.each(["refused_full", "refused_boot", "refused", "strike"] as const)(
    "of kind %s closes the runner until its next beat",
    (outcome) => {
      const one = new Voice("one");
      const { pool } = openPool([one]);
      expect(refused(pool, outcome, NOW)).toBeDefined();
      expect(sync(pool, B, { want: [ticket("b1")] }, NOW + 1_000).placed).toEqual([]);
      one.beat(pool, NOW + 5_000);
      expect(placedIn(pool.takeNews().get(B))).toEqual(["b1"]);
    },
  );

  test.each(["ended", "handed_back"] as const)("is not what %s means: the seat is free at once", (outcome) => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    expect(refused(pool, outcome, NOW)).toBeDefined();
    expect(placedIn(sync(pool, B, { want: [ticket("b1")] }, NOW))).toEqual(["b1"]);
  });

  test("of a full runner, or of another boot, is no strike", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    for (let t = 0; t < 60_000; t += 5_000) {
      one.beat(pool, NOW + t);
      expect(refused(pool, t % 2 ? "refused_full" : "refused_boot", NOW + t)).toBeDefined();
    }
    expect(pool.runners.get("one")?.health).toMatchObject({ strikes: 0, suspended_until: 0 });
  });
});

describe("three strikes in a row", () => {
  function struck(count: number) {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    let now = NOW;
    for (let n = 0; n < count; n++) {
      now = Math.max(now, pool.runners.get("one")?.health.suspended_until ?? 0) + 1_000;
      one.beat(pool, now);
      expect(refused(pool, "strike", now)).toBeDefined();
    }
    one.beat(pool, now);
    return { one, pool, now, pause: (pool.runners.get("one")?.health.suspended_until ?? 0) - now };
  }

  test("suspend the runner, two do not", () => {
    expect(struck(2).pause).toBeLessThan(0);
    const { pool, now } = struck(3);
    expect(sync(pool, B, { want: [ticket("b1")] }, now + 4_000).placed).toEqual([]);
  });

  test("suspend it for growing pauses, at most five minutes", () => {
    expect([3, 4, 5, 6].map((count) => struck(count).pause)).toEqual([5_000, 10_000, 20_000, 40_000]);
    expect(struck(12).pause).toBe(300_000);
  });

  test("let one placement probe it after the pause, which the pool looks at by itself", () => {
    const { pool, now, one } = struck(3);
    sync(pool, B, { want: [ticket("b1")] }, now);
    pool.tick(now);
    expect(pool.nextTick(now)).toBe(now + 5_000);
    one.beat(pool, now + 4_900);
    pool.takeNews();
    pool.tick(now + 5_000);
    expect(placedIn(pool.takeNews().get(B))).toEqual(["b1"]);
  });

  test("are forgotten with the first beat of another process", () => {
    const { pool, now, one } = struck(3);
    one.dies();
    one.beat(pool, now);
    expect(pool.runners.get("one")?.health).toMatchObject({ strikes: 0, suspended_until: 0 });
    expect(placedIn(sync(pool, B, { want: [ticket("b1")] }, now))).toEqual(["b1"]);
  });
});
