import * as v from "valibot";
import { expect, test } from "vitest";
import { ProgressReport } from "../../schemas/runner-protocol.ts";

const report = (progress: Record<string, unknown>) => ({ beat: { boot: 1, n: 1 }, running_ms: 5, progress });

test.each(["node_id", "node_class"])("a runner's %s has at most 200 characters", (field) => {
  expect(v.is(ProgressReport, report({ value: 0.5, [field]: "x".repeat(200) }))).toBe(true);
  expect(v.is(ProgressReport, report({ value: 0.5, [field]: "x".repeat(201) }))).toBe(false);
});
