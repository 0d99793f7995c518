import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JobRecord } from "../../schemas/job.ts";
import { getJob, isTerminal, submitJob } from "../../scripts/local/client.ts";
import { freePort } from "../../scripts/local/ports.ts";
import { type LocalFile, readLocal } from "../../scripts/local/state.ts";

/** `npm start` as a person runs it, in a process group and a folder of its own. */

export const ROOT = join(import.meta.dirname, "..", "..");

export interface Started {
  readonly folder: string;
  readonly local: LocalFile;
  /** What it has printed. */
  output(): string;
  /** Resolves when it has printed this; rejects after 60 s. */
  printed(text: string | RegExp): Promise<void>;
  /** Ctrl-C, or any other signal, to its whole process group; resolves when it has ended. */
  signal(signal: NodeJS.Signals): Promise<void>;
  /** Process ids in its group whose command line has this in it. */
  pids(command: string): Promise<number[]>;
}

export const newFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "darkroom-e2e-"));
export const removeFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5 });

const groupOf = async (pid: string): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
};

/** Processes of a group by their command line; zombies have none. */
export async function pidsOfGroup(group: number, command: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    if ((await groupOf(pid)) !== group) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line !== "" && line.replaceAll("\0", " ").includes(command)) found.push(Number(pid));
  }
  return found;
}

export async function waitFor<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  timeout_ms = 60_000,
): Promise<T> {
  const deadline = Date.now() + timeout_ms;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (Date.now() > deadline) throw new Error(`Waited ${timeout_ms / 1000} s for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Starts the service in `folder`; state of an earlier start there is taken up. `env` comes on top of this process's. */
export async function start(
  folder: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Started> {
  const port = await freePort(0, true, () => {});
  return startOnItsPort(folder, args.includes("--port") ? args : [...args, "--port", String(port)], env);
}

/** The same, on the port that it takes by itself unless told. */
export async function startOnItsPort(
  folder: string,
  given: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Started> {
  const child: ChildProcess = spawn(process.execPath, ["scripts/start.ts", "--folder", folder, ...given], {
    cwd: ROOT,
    env: { ...process.env, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const { pid } = child;
  if (pid === undefined) throw new Error("The start has no process.");
  const printed = (text: string | RegExp): Promise<void> =>
    waitFor(`"${text}" in:\n${output}`, () => {
      if (child.exitCode !== null && !/Stopping/.test(output))
        throw new Error(`The start ended with ${child.exitCode}:\n${output}`);
      return (typeof text === "string" ? output.includes(text) : text.test(output)) ? true : undefined;
    }).then(() => undefined);
  await printed("Ctrl-C stops it");
  const local = await readLocal(folder);
  if (!local) throw new Error("The start has written no local.json.");
  return {
    folder,
    local,
    output: () => output,
    printed,
    pids: (command) => pidsOfGroup(pid, command),
    signal: async (signal) => {
      process.kill(-pid, signal);
      await ended;
    },
  };
}

/** A graph that keeps the engine busy for some seconds on this machine, however fast it is. */
export const SLOW_PROMPT = JSON.stringify({
  "1": { class_type: "LoadImage", inputs: { image: "dusk.png" } },
  "2": {
    class_type: "ImageScale",
    inputs: { image: ["1", 0], upscale_method: "lanczos", width: 2560, height: 0, crop: "disabled" },
  },
  ...Object.fromEntries(
    Array.from({ length: 3 }, (_, n) => [
      String(n + 3),
      { class_type: "ImageBlur", inputs: { image: [String(n + 2), 0], blur_radius: 31, sigma: 10 } },
    ]),
  ),
  "6": { class_type: "SaveImage", inputs: { images: ["5", 0], filename_prefix: "slow" } },
});

export const QUICK_PROMPT = JSON.stringify({
  "1": { class_type: "EmptyImage", inputs: { width: 16, height: 16, batch_size: 1, color: 0x336699 } },
  "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "quick" } },
});

export const submitPrompt = (
  local: LocalFile,
  prompt: string,
  more: Record<string, unknown> = {},
): Promise<JobRecord> =>
  submitJob(
    local,
    `{"prompt":${prompt}${Object.entries(more)
      .map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
      .join("")}}`,
  );

export const untilTerminal = (local: LocalFile, job_id: string, timeout_ms = 60_000): Promise<JobRecord> =>
  waitFor(
    `job ${job_id} to end`,
    async () => {
      const record = await getJob(local, job_id).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 200));
      return record && isTerminal(record) ? record : undefined;
    },
    timeout_ms,
  );

export const untilStatus = (local: LocalFile, job_id: string, status: string): Promise<JobRecord> =>
  waitFor(`job ${job_id} to be ${status}`, async () => {
    const record = await getJob(local, job_id);
    await new Promise((resolve) => setTimeout(resolve, 100));
    return record.status === status ? record : undefined;
  });
