import { Schedule, type Setting } from "./schedule.ts";
import { emptyTally, type Tally } from "./tally.ts";
import { Violation } from "./violation.ts";

/** Runs one schedule. What the product throws is a violation too. */
export function trySeed(seed: number, setting: Setting = {}): Tally {
  const tally = emptyTally();
  const schedule = new Schedule(seed, setting);
  try {
    schedule.run();
  } catch (error) {
    const invariant = error instanceof Violation ? error.invariant : "nothing throws";
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    tally.violations.push({ seed, invariant, detail });
  } finally {
    schedule.close();
  }
  tally.schedules = 1;
  tally.steps = schedule.world.steps;
  tally.counts = Object.fromEntries(schedule.world.faults);
  return tally;
}
