import { expect, test } from "vitest";
import { TIER_LIMITS } from "../../schemas/limits.ts";
import { admit, settle } from "../../worker/account/admission.ts";
import { ready } from "./job-states.ts";

const { free } = TIER_LIMITS;
const waiting = (priority = 0) => ready({ phase: "waiting", priority });

test("a submission takes a slot, else a place, else it is refused", () => {
  expect(admit({ slots: 1, places: 0 }, free)).toBe("slot");
  expect(admit({ slots: 2, places: 0 }, free)).toBe("place");
  expect(admit({ slots: 2, places: 4 }, free)).toBe("place");
  expect(admit({ slots: 2, places: 5 }, free)).toBe("full");
});

test("a free slot is for those who wait, not for who comes now", () => {
  expect(admit({ slots: 1, places: 1 }, free)).toBe("place");
  expect(admit({ slots: 0, places: 5 }, free)).toBe("full");
});

test("a free slot promotes before anybody has to yield", () => {
  const [first, weakest] = [waiting(5), ready()];
  expect(settle({ slots: 1, places: 1 }, free, first, weakest)).toEqual({ kind: "promote", job: first });
  expect(settle({ slots: 2, places: 1 }, free, first, weakest)).toEqual({ kind: "swap", up: first, down: weakest });
});

test("nobody yields to an equal or lower priority, nor where all have started", () => {
  expect(settle({ slots: 2, places: 1 }, free, waiting(), ready())).toBeUndefined();
  expect(settle({ slots: 2, places: 1 }, free, waiting(-1), ready())).toBeUndefined();
  expect(settle({ slots: 2, places: 1 }, free, waiting(10), undefined)).toBeUndefined();
  expect(settle({ slots: 2, places: 0 }, free, undefined, ready())).toBeUndefined();
});
