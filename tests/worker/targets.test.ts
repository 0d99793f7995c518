import { expect, it } from "vitest";
import { DISPUTED_CASES, RULE, TARGET_CASES, verdictOf } from "../schemas/target-cases.ts";

/** The rules on the URL parser of the edge's own runtime. */

it.each(TARGET_CASES)("judges %j: %s", (text, verdict) => {
  expect(verdictOf(text)).toBe(verdict);
});

it.each(DISPUTED_CASES)("refuses %j or calls %s, nothing else", (text, host) => {
  expect([RULE.form, `calls ${host}`]).toContain(verdictOf(text));
});
