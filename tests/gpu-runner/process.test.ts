import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { aFolder } from "./harness.ts";

const MAIN = join(import.meta.dirname, "../../gpu-runner/main.ts");

function runMain(args: readonly string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) =>
    execFile(process.execPath, [MAIN, ...args], (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    ),
  );
}

const ADDRESSES = ["--edge", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2", "--listen", "127.0.0.1:0"];

test("mistakes in the flags end the process with 2 and one line each", async () => {
  const { code, stdout, stderr } = await runMain(["--seats", "0"]);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr.trim().split("\n")).toHaveLength(3);
});

test("help and version are printed without any address", async () => {
  expect(await runMain(["--help"])).toMatchObject({ code: 0, stdout: expect.stringContaining("--edge") });
  expect(await runMain(["--version"])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
});

test("a start without an enrolment or a token ends with 2 and says what to do", async () => {
  const { code, stderr } = await runMain([...ADDRESSES, "--data", join(await aFolder(), "data")]);
  expect(code).toBe(2);
  expect(stderr).toMatch(/^not enrolled .*--token\n$/);
});

test("a damaged identity ends the start with one line", async () => {
  const data = await aFolder();
  await writeFile(join(data, "identity.json"), "{");
  const { code, stderr } = await runMain([...ADDRESSES, "--data", data]);
  expect(code).toBe(1);
  expect(stderr).toMatch(/identity\.json is damaged.*\n$/);
});
