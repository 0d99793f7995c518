import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { type FakeComfyui, type FakeComfyuiOptions, startFakeComfyui } from "../../fakes/comfyui/server.ts";
import { until } from "./subject.ts";

const MAIN = join(import.meta.dirname, "../../../gpu-runner/main.ts");

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function startFake(options: FakeComfyuiOptions = {}): Promise<FakeComfyui> {
  const fake = await startFakeComfyui(options);
  closing.push(() => fake.close());
  return fake;
}

interface Checked {
  readonly process: ChildProcess;
  output(): string;
  /** Its exit code. */
  readonly ended: Promise<number | null>;
}

/** `--check` as an operator calls it. */
function startCheck(args: readonly string[], user: { uid?: number; gid?: number } = {}): Checked {
  const child = spawn(process.execPath, [MAIN, "--check", ...args], { stdio: ["ignore", "pipe", "pipe"], ...user });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
  const ended = once(child, "close").then(([code]) => code as number | null);
  return { process: child, output: () => output, ended };
}

async function check(...args: string[]) {
  const { ended, output } = startCheck(args);
  const code = await ended;
  return { code, output: output(), lines: output().split("\n") };
}

describe("A check", () => {
  it("says what the server is, what may run, what not and how to open it, and leaves nothing there", async () => {
    const fake = await startFake({ models: { VAELoader: { vae_name: ["a.safetensors", "b.safetensors"] } } });
    const allow = ["--comfyui-allow", "core,no-such-pack,class:NoSuchClass"];
    const { code, lines, output } = await check("--comfyui", fake.url, "--comfyui-folders", fake.folder, ...allow);
    expect(code).toBe(0);
    expect(lines.slice(0, 2)).toEqual([fake.url, "  ready: it executed a trial picture"]);
    expect(lines).toContain("  ComfyUI 0.33.0");
    expect(lines).toContain("  device NVIDIA GeForce RTX 4090, 24.0 GiB");
    expect(output).toMatch(/^ {2}\d+ classes may run, 2 model files$/m);
    expect(lines).toContain("  WARNING: --comfyui-allow names no-such-pack, which this server does not have");
    expect(lines).toContain("  WARNING: --comfyui-allow names class:NoSuchClass, which this server does not have");
    expect(output).toMatch(/^ {2}\d+ classes are closed:$/m);
    const pack = lines.findIndex((line) => /^ {4}recorder_nodes \(\d+\): The custom node pack is not on/.test(line));
    expect(lines.slice(pack + 1).find((line) => line.includes("to open:"))).toBe(
      "      to open: COMFYUI_ALLOW=core,no-such-pack,class:NoSuchClass,recorder_nodes",
    );
    expect(output).toContain("can read the runner's key");
    expect([fake.files(), fake.history()]).toEqual([[], []]);
  });

  it("says what can't be removed without the folder", async () => {
    const fake = await startFake();
    const { code, output } = await check("--comfyui", fake.url, "--comfyui-allow", "*");
    expect(code).toBe(0);
    expect(output).toContain("files of jobs are emptied, not removed: give its folder with --comfyui-folders");
    expect(output).toContain("no class is closed");
  });

  it("looks at each server, and fails where one is not ready", async () => {
    const [dead, fine] = [await startFake(), await startFake()];
    await dead.die();
    const { code, lines } = await check("--comfyui", `${dead.url},${fine.url}`);
    expect(code).toBe(1);
    expect(lines.slice(0, 4)).toEqual([
      dead.url,
      "  NOT READY: nothing listens at its address",
      fine.url,
      "  ready: it executed a trial picture",
    ]);
  });

  it.runIf(process.getuid?.() === 0)("of another user names a folder that it may not write to", async () => {
    const fake = await startFake();
    const nobody = { uid: 65_534, gid: 65_534 };
    const args = ["--comfyui", fake.url, "--comfyui-folders", fake.folder];
    const checkAs = async () => {
      const { ended, output } = startCheck(args, nobody);
      expect(await ended).toBe(1);
      return output();
    };
    expect(await checkAs()).toContain(`its input files in ${fake.folder} can't be reached by this runner (EACCES`);
    await chmod(fake.folder, 0o755);
    const said = await checkAs();
    expect(said).toContain(`its input files in ${fake.folder} can't be removed by this runner (EACCES`);
    expect(said).not.toContain("runs as this runner's own user");
  });

  it("ends at Ctrl-C, and takes its trial back", async () => {
    const fake = await startFake();
    fake.knobs.killsWorker();
    const { process: child, ended } = startCheck(["--comfyui", fake.url]);
    await until(() => fake.queued().length === 1, "the trial waits");
    child.kill("SIGINT");
    expect(await ended).toBe(130);
    expect(fake.queued()).toEqual([]);
  });

  it("refuses what it can't understand with 2, a line each", async () => {
    const { code, lines } = await check("--comfyui", "nowhere", "--comfyui-stall", "1");
    expect(code).toBe(2);
    expect(lines).toEqual([
      '--comfyui: "nowhere" is not the URL of a server, such as http://127.0.0.1:8188',
      "--comfyui-stall must be a whole number from 10 to 3600",
      "",
    ]);
  });
});

describe("A runner", () => {
  it("that waits for a server that is not there says so, and ends at once at Ctrl-C", async () => {
    const fake = await startFake();
    await fake.die();
    const addresses = ["--edge", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2", "--listen", "127.0.0.1:0"];
    const child = spawn(process.execPath, [MAIN, ...addresses, "--comfyui", fake.url, "--data", `${fake.folder}/data`]);
    let said = "";
    child.stderr.on("data", (chunk) => (said += String(chunk)));
    const ended = once(child, "close");
    await until(() => said.includes("is not ready: nothing listens at its address"), "it says what it waits for");
    child.kill("SIGINT");
    expect(await ended).toEqual([0, null]);
    expect(said).toContain("got SIGINT");
    expect(said).not.toContain("fault");
  });

  it("without a readable warm-up workflow does not start", async () => {
    const addresses = ["--edge", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2", "--listen", "127.0.0.1:0"];
    const fake = await startFake();
    const warmUp = ["--comfyui-warm-up", `${fake.folder}/none.json`, "--data", `${fake.folder}/data`];
    const child = spawn(process.execPath, [MAIN, ...addresses, "--comfyui", fake.url, ...warmUp]);
    let said = "";
    child.stderr.on("data", (chunk) => (said += String(chunk)));
    expect(await once(child, "close")).toEqual([2, null]);
    expect(said).toMatch(/^the warm-up workflow can't be read: .*none\.json'?\n$/);
  });
});
