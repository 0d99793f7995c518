import fc from "fast-check";
import { beforeEach, expect, it, vi } from "vitest";
import { COMMANDS, newReal } from "./account-model.ts";
import { resetClock } from "./clock.ts";
import { playFleet } from "./played-fleet.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
  playFleet();
});

it("keeps every invariant of an account under any sequence of commands", async () => {
  let steps = 0;
  const scripts = fc.commands(COMMANDS, { maxCommands: 30, size: "max" });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom("free" as const, "pro" as const), scripts, async (tier, commands) => {
      resetClock();
      const setup = await newReal(tier);
      await fc.asyncModelRun(() => setup, commands);
      steps += [...commands].length;
    }),
    { numRuns: 60, interruptAfterTimeLimit: 60_000 },
  );
  // Fewer would mean that it was cut short.
  expect(steps).toBeGreaterThan(600);
}, 90_000);
