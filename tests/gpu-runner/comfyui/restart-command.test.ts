import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { restartCommand } from "../../../gpu-runner/engines/comfyui/restart-command.ts";
import { until } from "./subject.ts";

let folder: string;
let warnings: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "darkroom-restart-"));
  warnings = [];
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true, force: true });
});

const restarter = (command: string, times: { apart_ms?: number; command_ms?: number } = {}) =>
  restartCommand({
    command,
    url: "http://127.0.0.1:8190",
    index: 2,
    warn: (line) => warnings.push(line),
    ...times,
  });

const textOf = (name: string): Promise<string> => readFile(join(folder, name), "utf8").catch(() => "");

describe("A restart command", () => {
  it("finds the server in its environment, and no secret of the runner's", async () => {
    vi.stubEnv("DARKROOM_ENROL_TOKEN", "secret");
    const { restart, close } = restarter(`env > ${folder}/env`);
    await restart("it is stuck");
    const environment = await textOf("env");
    expect(environment.split("\n")).toEqual(
      expect.arrayContaining(["COMFYUI_URL=http://127.0.0.1:8190", "COMFYUI_PORT=8190", "COMFYUI_INDEX=2"]),
    );
    expect(environment).not.toContain("secret");
    expect(warnings).toEqual(["http://127.0.0.1:8190: running the restart command: it is stuck"]);
    await close();
  });

  it("is called once a minute at most", async () => {
    const { restart } = restarter(`echo x >> ${folder}/calls`);
    await restart("one");
    await restart("two");
    expect(await textOf("calls")).toBe("x\n");
    const eager = restarter(`echo y >> ${folder}/calls`, { apart_ms: 0 });
    await eager.restart("one");
    await eager.restart("two");
    expect(await textOf("calls")).toBe("x\ny\ny\n");
  });

  it("tells its failure by its code and its last words, and not the command", async () => {
    await restarter("PASSWORD=hidden; echo first >&2; echo not allowed >&2; exit 5").restart("why");
    expect(warnings.at(-1)).toBe("http://127.0.0.1:8190: the restart command failed: code 5: not allowed");
    expect(warnings.join()).not.toContain("hidden");
  });

  it("ends where it hangs, with all it started", async () => {
    await restarter(`sh -c 'echo $$ > ${folder}/inner; sleep 600'; true`, { command_ms: 200 }).restart("why");
    expect(warnings.at(-1)).toContain("did not end in 0.2 s");
    const inner = (await textOf("inner")).trim();
    await until(async () => {
      const stat = await readFile(`/proc/${inner}/stat`, "utf8").catch(() => "");
      return stat === "" || /\) [ZX] /.test(stat);
    }, "the inner process has ended");
  });

  it("leaves alone what it has started in the background", async () => {
    const { restart, close } = restarter(`(sleep 600 & echo $! > ${folder}/server); true`);
    await restart("why");
    await close();
    const pid = Number(await textOf("server"));
    expect(process.kill(pid, 0)).toBe(true);
    process.kill(pid, "SIGKILL");
  });

  it("does not hold up the end of its runner", async () => {
    const { restart, close } = restarter(`echo x > ${folder}/called; sleep 600; true`);
    const restarting = restart("why");
    await until(async () => (await textOf("called")) !== "", "it runs");
    await close();
    await restarting;
    await restart("again");
    expect(warnings).toHaveLength(1);
  });
});
