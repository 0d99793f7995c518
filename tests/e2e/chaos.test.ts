import { spawn } from "node:child_process";
import { expect, it } from "vitest";
import { loadOf } from "../chaos/load.ts";
import { FAULT_KINDS, scheduleOf } from "../chaos/schedule.ts";
import { ROOT } from "./stack.ts";

/** The short form of `npm run chaos`: about two minutes, every kind of fault at least once. */
const SHORT = { jobs: 180, seconds: 66, gap_s: 2.8, seed: 1073 };
/** On a slow machine whatever was begun takes longer to come to rest; the suite itself waits for that for five minutes. */
const TIMEOUT_MS = 600_000;

it("makes the same jobs and the same faults from the same seed, every kind of fault at least once", () => {
  const faults = scheduleOf(SHORT.seed, SHORT);
  expect(scheduleOf(SHORT.seed, SHORT)).toEqual(faults);
  expect(scheduleOf(SHORT.seed + 1, SHORT)).not.toEqual(faults);
  expect(new Set(faults.map(({ kind }) => kind))).toEqual(new Set(FAULT_KINDS));
  expect(loadOf(SHORT.seed, SHORT)).toEqual(loadOf(SHORT.seed, SHORT));
});

it(
  "loses, doubles and leaves behind nothing while everything breaks that can break",
  async () => {
    const { jobs, seconds, gap_s, seed } = SHORT;
    const args = ["--jobs", jobs, "--seconds", seconds, "--gap", gap_s, "--seed", seed].map(String);
    const child = spawn(process.execPath, ["tests/chaos/chaos.ts", ...args], {
      cwd: ROOT,
      // A group of its own: nothing of it survives the test.
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const timer = setTimeout(() => child.kill("SIGINT"), TIMEOUT_MS - 30_000);
    const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
    clearTimeout(timer);
    if (child.pid !== undefined) {
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // The group is empty, as it should be.
      }
    }
    console.log(output);
    expect(output).toContain("no violations");
    expect(code).toBe(0);
  },
  TIMEOUT_MS,
);
