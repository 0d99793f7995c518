import { expect, test } from "vitest";
import { trySeed } from "../simulation/search.ts";
import { add, emptyTally, type Tally } from "../simulation/tally.ts";

/**
 * The short form of `npm run simulate`: accounts, fleets and runners talk over a network that loses, doubles, delays and reorders,
 * while each of them dies and comes back with what it had stored (tests/simulation/).
 */

const SCHEDULES = 1_200;
const SQLITE_SCHEDULES = 30;

function run(schedules: number, sqlite: boolean): Tally {
  const sum = emptyTally();
  for (let seed = 1; seed <= schedules && sum.violations.length === 0; seed++) add(sum, trySeed(seed, { sqlite }));
  return sum;
}

test(`in ${SCHEDULES} schedules of faults no invariant breaks, and all comes to rest`, () => {
  const { violations, counts } = run(SCHEDULES, false);
  expect(violations).toEqual([]);
  // The schedules are worth something only if most jobs come through and some do not.
  expect(counts["end: completed"]).toBeGreaterThan(SCHEDULES);
  for (const how of ["cancelled", "execution_failed", "runner_lost", "queue_timeout"])
    expect(counts[`end: ${how}`], how).toBeGreaterThan(0);
});

test("the same schedules over SQLite do the same", () => {
  const sqlite = run(SQLITE_SCHEDULES, true);
  expect(sqlite.violations).toEqual([]);
  expect(sqlite).toEqual(run(SQLITE_SCHEDULES, false));
});
