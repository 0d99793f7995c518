import { expect, test } from "vitest";
import { createReplayCache } from "../../gpu-runner/replay.ts";

test("a name is used once until it expires", () => {
  const cache = createReplayCache();
  expect(cache.use("a", 100, 0)).toBe(true);
  expect(cache.use("a", 100, 99)).toBe(false);
  expect(cache.use("a", 200, 100)).toBe(true);
});

test("a full cache refuses what it could not remember, and has room again when names expire", () => {
  const cache = createReplayCache({ max: 2 });
  expect([cache.use("a", 10, 0), cache.use("b", 20, 0), cache.use("c", 30, 0)]).toEqual([true, true, false]);
  expect(cache.use("c", 30, 10)).toBe(true);
});
