import * as v from "valibot";
import { describe, expect, test } from "vitest";
import { described } from "../../gpu-runner/description.ts";
import type { ClosedClasses, EngineDescription } from "../../gpu-runner/engine.ts";
import { countClosed, DESCRIPTION_LIMITS, jsonBytes, RunnerDescription } from "../../schemas/runner-protocol.ts";

/** An engine's words within the bounds of the edge. */

const engine = (part: Partial<EngineDescription> = {}): EngineDescription => ({
  name: "scripted",
  version: "1",
  classes: ["KSampler"],
  models: [],
  ...part,
});
const group = (name: string, classes: readonly string[], part: Partial<ClosedClasses> = {}): ClosedClasses => ({
  group: name,
  classes,
  reason: "Nobody has opened it.",
  ...part,
});
const names = (count: number, text = "Class"): string[] => Array.from({ length: count }, (_, n) => `${text}${n}`);

describe("a description", () => {
  test("is what the engine says, with the runner's version", () => {
    const closed = [group("a-pack", ["One"], { opened_by: "OPEN=a-pack" }), group("core: writes models", ["Two"])];
    const gpu = { name: "a GPU", memory_bytes: 1 };
    expect(described(engine({ gpu, closed }), "2")).toEqual({
      version: "2",
      engine: { name: "scripted", version: "1" },
      classes: ["KSampler"],
      models: [],
      gpu,
      closed,
    });
    expect(described(engine(), "2")).not.toHaveProperty("closed");
  });

  test("leaves out single names that are too long, and what is beyond 20,000", () => {
    const { classes, models } = described(
      engine({ classes: ["x".repeat(201), ...names(20_001)], models: ["y".repeat(256), "z".repeat(255)] }),
      "2",
    );
    expect([classes.length, classes[0]]).toEqual([20_000, "Class0"]);
    expect(models).toEqual(["z".repeat(255)]);
  });

  test("is refused where it can't be told at all", () => {
    expect(() => described(engine({ version: "x".repeat(51) }), "2")).toThrow("engine.version");
    expect(() => described(engine({ models: names(20_000, "m".repeat(200)) }), "2")).toThrow("too long as a whole");
  });
});

describe("closed classes", () => {
  test("are cut to their bounds, group by group", () => {
    const closed = [
      group("g".repeat(150), ["One", "x".repeat(201)], { reason: "r".repeat(400), opened_by: "o".repeat(201) }),
      ...names(12, "pack-").map((name) => group(name, names(2_500, name))),
      ...names(400, "small-").map((name) => group(name, ["Last"])),
    ];
    const told = described(engine({ closed }), "2").closed ?? [];
    expect(told[0]).toEqual({ group: "g".repeat(100), classes: ["One"], reason: "r".repeat(300) });
    expect(told).toHaveLength(300);
    expect(told.slice(1, 11).map(({ classes }) => classes.length)).toEqual([...Array(9).fill(2_000), 1_999]);
    expect(countClosed(told)).toBe(20_000);
    expect(told.at(-1)).toMatchObject({ classes: [] });
  });

  test("have what room the open ones leave, in bytes", () => {
    // Three bytes a letter.
    const closed = names(20, "pack-").map((name) => group(name, names(1_000, `${name}${"字".repeat(150)}`)));
    const said = engine({ classes: names(20_000, "c".repeat(40)), closed });
    const told = described(said, "2");
    expect(told.classes).toHaveLength(20_000);
    expect(countClosed(told.closed)).toBeGreaterThan(500);
    expect(jsonBytes(told)).toBeLessThanOrEqual(DESCRIPTION_LIMITS.bytes);
    expect(jsonBytes(told)).toBeGreaterThan(DESCRIPTION_LIMITS.bytes - 20_000);
    expect(v.is(RunnerDescription, told)).toBe(true);
  });
});
