import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type ManagedServer, manageServer, readLines } from "../../../gpu-runner/engines/comfyui/managed-server.ts";
import { freePort } from "../../../scripts/local/ports.ts";
import { startSubject, until } from "./subject.ts";

const FAKE = join(import.meta.dirname, "../../fakes/comfyui/comfyui-process.ts");
const QUICK = { again_ms: [10, 40], stable_ms: 60_000, term_ms: 2_000 } as const;

interface Process {
  readonly pid: number;
  readonly child: number;
  readonly environment: Record<string, string>;
}

const isAlive = async (pid: number): Promise<boolean> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return stat !== "" && !/\) [ZX] /.test(stat);
};

let folder: string;
let log: string[];
const servers: ManagedServer[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "darkroom-managed-"));
  log = [];
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(servers.splice(0).map((server) => server.close()));
  await rm(folder, { recursive: true, force: true });
});

const said = (words: string): number => log.filter((line) => line.includes(words)).length;
const tell = (line: string): void => void log.push(line);

function manage(command: string, url = "http://127.0.0.1:9"): ManagedServer {
  const pidFile = join(folder, "0.pid");
  const server = manageServer({
    command,
    url,
    index: 0,
    pidFile,
    log: { info: tell, warn: tell },
    timings: QUICK,
  });
  servers.push(server);
  return server;
}

async function recorded(name = "record.json"): Promise<Process> {
  const path = join(folder, name);
  let text = "";
  await until(
    async () => {
      text = await readFile(path, "utf8").catch(() => "");
      return text.endsWith("}");
    },
    `${name}: ${log.join("\n")}`,
  );
  await rm(path);
  return JSON.parse(text) as Process;
}

describe("A server that the runner starts", () => {
  it("gets its address and none of the runner's secrets, is restarted after a crash, and ends with all it started", async () => {
    vi.stubEnv("DARKROOM_ENROL_TOKEN", "secret-1");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret-2");
    vi.stubEnv("NODE_OPTIONS", "--no-warnings");
    vi.stubEnv("CUDA_VISIBLE_DEVICES", "0");
    const port = await freePort(0, true, () => {});
    const url = `http://127.0.0.1:${port}`;
    const server = manage(`${process.execPath} ${FAKE} ${folder}/record.json`, url);
    const subject = await startSubject({ servers: [{ url, restarter: server }] });
    try {
      await subject.engine.describe();
      const first = await recorded();
      const { PATH } = process.env;
      expect(first.environment).toMatchObject({
        COMFYUI_URL: url,
        COMFYUI_PORT: String(port),
        COMFYUI_INDEX: "0",
        CUDA_VISIBLE_DEVICES: "0",
        PATH,
      });
      expect(JSON.stringify(first.environment)).not.toContain("secret-");
      expect(Object.keys(first.environment)).not.toContain("NODE_OPTIONS");
      await until(() => said("says: Starting server") > 0, "its output is in the log");

      const seats: number[] = [];
      subject.engine.watch?.({ seats: (now) => seats.push(now), described() {} });
      process.kill(first.pid, "SIGKILL");
      await until(() => seats.at(-1) === 0, "its seat is taken back");
      await until(async () => !(await isAlive(first.child)), "its child has ended, too");
      const second = await recorded();
      await until(() => seats.at(-1) === 1, "its seat is back");
      expect(second.pid).not.toBe(first.pid);

      await server.restart("a test");
      expect(await isAlive(second.pid)).toBe(false);
      const third = await recorded();
      await subject.close();
      expect(await isAlive(third.pid)).toBe(false);
      await until(async () => !(await isAlive(third.child)), "its child has ended at the close");
      expect(await readFile(join(folder, "0.pid"), "utf8").catch(() => "none")).toBe("none");
    } finally {
      await subject.close();
    }
  });

  it("is ended by the next start where its runner was killed", async () => {
    const script = join(folder, "runner.ts");
    const module = join(import.meta.dirname, "../../../gpu-runner/engines/comfyui/managed-server.ts");
    const command = `echo $$ > ${folder}/first; sleep 600; true`;
    const settings = { command, url: "http://127.0.0.1:9", index: 0, pidFile: join(folder, "0.pid") };
    await writeFile(
      script,
      `import { manageServer } from ${JSON.stringify(module)};
      manageServer({ ...${JSON.stringify(settings)}, log: { info() {}, warn() {} } });
      setInterval(() => {}, 1000);`,
    );
    const runner = spawn(process.execPath, [script], { stdio: "ignore" });
    const left = await numberIn("first");
    await until(
      async () => (await readFile(join(folder, "0.pid"), "utf8").catch(() => "")) !== "",
      "its number is kept",
    );
    runner.kill("SIGKILL");
    await once(runner, "exit");
    expect(await isAlive(left)).toBe(true);
    manage(`echo $$ > ${folder}/second; sleep 600; true`);
    const next = await numberIn("second");
    expect(await isAlive(left)).toBe(false);
    expect(await isAlive(next)).toBe(true);
    expect(said("has left behind")).toBe(1);
  });

  it("is not taken for a process that has got its number since", async () => {
    const stranger = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    const { pid = 0 } = stranger;
    await writeFile(join(folder, "0.pid"), `${pid} 1`);
    manage(`echo $$ > ${folder}/own; sleep 600; true`);
    await numberIn("own");
    expect(await isAlive(pid)).toBe(true);
    stranger.kill("SIGKILL");
  });

  it("is killed where it does not hear that it is to end", async () => {
    const server = manageServer({
      command: `trap '' TERM; echo $$ > ${folder}/deaf; while true; do sleep 1; done`,
      url: "http://127.0.0.1:9",
      index: 0,
      pidFile: join(folder, "0.pid"),
      log: { info: tell, warn: tell },
      timings: { ...QUICK, term_ms: 100 },
    });
    const pid = await numberIn("deaf");
    await server.close();
    await until(async () => !(await isAlive(pid)), "it has ended");
    await server.close();
  });

  it("is started again and again where its command is not there, and its log says why", async () => {
    const server = manage("no-such-program --listen");
    await until(() => said("its process ended (code 127)") >= 3, "it was tried again");
    expect(log.find((line) => line.includes("says:"))).toMatch(/no-such-program.*not found/);
    await server.close();
  });

  it("says how it ended", async () => {
    manage("echo gone >&2; kill -SEGV $$");
    await until(() => said("its process ended (SIGSEGV)") > 0, "its end is told");
    expect(said("says: gone")).toBeGreaterThan(0);
  });
});

async function numberIn(name: string): Promise<number> {
  let text = "";
  await until(async () => {
    text = await readFile(join(folder, name), "utf8").catch(() => "");
    return text.endsWith("\n");
  }, name);
  return Number(text);
}

describe("A process's output", () => {
  function linesOf(...chunks: readonly (string | Buffer)[]): string[] {
    const lines: string[] = [];
    const read = readLines((line) => lines.push(line));
    for (const chunk of chunks) read(Buffer.from(chunk));
    return lines;
  }

  it("is cut into lines, wherever its chunks end", () => {
    const snowman = Buffer.from("☃\n");
    expect(linesOf("on", "e\ntwo\r", "\n\n  \nthr", "ee\n", snowman.subarray(0, 1), snowman.subarray(1))).toEqual([
      "one",
      "two",
      "three",
      "☃",
    ]);
  });

  it("shows the last state of a progress bar", () => {
    expect(linesOf("\r 10 %", "\r 50 %\r100 %", "\r", "\n")).toEqual(["100 %"]);
  });

  it("does not grow with a line that never ends", () => {
    const lines = linesOf(...Array.from({ length: 100 }, () => "x".repeat(1_000)), "\nnext\n");
    expect(lines.map(({ length }) => length)).toEqual([2_000, 4]);
  });
});
