import { type ChildProcess, spawn } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { reasonOf } from "../../log.ts";
import { jittered, pause, within } from "../../pause.ts";
import type { Restarter } from "./server.ts";

/** A ComfyUI server that the runner starts, watches and starts again. */
export interface ManagedServer extends Restarter {
  /** Ends it and all that it started. Idempotent. */
  close(): Promise<void>;
}

export interface ManagedServerOptions {
  /** For a shell. It finds `COMFYUI_URL`, `COMFYUI_PORT` and `COMFYUI_INDEX` (0 for the first server) in its environment. */
  readonly command: string;
  readonly url: string;
  readonly index: number;
  /** Keeps the process's number, so that a runner that was killed finds what it left running. */
  readonly pidFile: string;
  readonly log: { info(text: string): void; warn(text: string): void };
  readonly timings?: Partial<ManagedServerTimings>;
}

export interface ManagedServerTimings {
  /** Between an end and the next start, doubled up to the second. */
  readonly again_ms: readonly [first: number, most: number];
  /** A process that lived this long starts again after the first pause. */
  readonly stable_ms: number;
  /** Between SIGTERM and SIGKILL. */
  readonly term_ms: number;
}

const TIMINGS: ManagedServerTimings = { again_ms: [1_000, 30_000], stable_ms: 60_000, term_ms: 10_000 };

/**
 * What of the runner's environment a command of the engine gets: what finds programs, devices and caches. Whatever else it
 * needs stands in the command itself; so no credential of the runner's reaches code that strangers' graphs drive.
 */
const PASSED_ON =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|(?:CUDA|NVIDIA|HIP|ROCR|HSA|PYTORCH|OMP|MKL)_\w+)$/;

/** The environment of a command that has to do with one server. */
export function commandEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  { url, index }: { readonly url: string; readonly index: number },
): Record<string, string> {
  const passed = Object.entries(env).filter((entry): entry is [string, string] => {
    const [name, value] = entry;
    return value !== undefined && PASSED_ON.test(name);
  });
  const { port, protocol } = new URL(url);
  return {
    ...Object.fromEntries(passed),
    COMFYUI_URL: url,
    COMFYUI_PORT: port || (protocol === "https:" ? "443" : "80"),
    COMFYUI_INDEX: String(index),
  };
}

/** When a process was started, in ticks since the machine's start: with its number it names one process. Linux only. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    return stat
      .slice(stat.lastIndexOf(")") + 2)
      .split(" ")
      .at(19);
  } catch {
    return undefined;
  }
}

/** Sends a signal to a process and all that it started. */
function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // It is gone.
  }
}

async function endLeftover({ pidFile, log, url }: ManagedServerOptions): Promise<void> {
  const [pid, start] = (await readFile(pidFile, "utf8").catch(() => "")).split(" ");
  if (!pid || !start || (await startOf(Number(pid))) !== start) return;
  log.warn(`${url}: ending process ${pid}, which an earlier start of this runner has left behind`);
  signalGroup(Number(pid), "SIGKILL");
}

export function manageServer(options: ManagedServerOptions): ManagedServer {
  const { command, url, index, pidFile, log } = options;
  const timings = { ...TIMINGS, ...options.timings };
  const closing = new AbortController();
  let child: { readonly process: ChildProcess; readonly ended: Promise<void> } | undefined;
  let asked = false;

  async function endChild(): Promise<void> {
    const current = child;
    const pid = current?.process.pid;
    if (!current || pid === undefined) return;
    signalGroup(pid, "SIGTERM");
    await within(timings.term_ms, current.ended);
    // What it started may outlive it.
    signalGroup(pid, "SIGKILL");
    await current.ended;
  }

  function launch() {
    const running = spawn("/bin/sh", ["-c", command], {
      detached: true,
      env: commandEnvironment(process.env, { url, index }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [running.stdout, running.stderr])
      createInterface({ input: stream }).on("line", (line) => line.trim() && log.info(`${url} says: ${line}`));
    const ended = new Promise<void>((resolve) => {
      running.once("error", (error) => {
        log.warn(`${url}: its command can't be started: ${reasonOf(error)}`);
        resolve();
      });
      running.once("exit", (code, signal) => {
        if (!closing.signal.aborted && !asked) log.warn(`${url}: its process ended (${signal ?? `code ${code}`})`);
        resolve();
      });
    });
    return { process: running, ended };
  }

  async function live(): Promise<void> {
    await endLeftover(options);
    const [first, most] = timings.again_ms;
    let wait = first;
    while (!closing.signal.aborted) {
      const since = performance.now();
      asked = false;
      child = launch();
      const { pid } = child.process;
      log.info(`${url}: started its command as process ${pid}`);
      if (pid !== undefined) await writeFile(pidFile, `${pid} ${await startOf(pid)}`);
      await child.ended;
      if (pid !== undefined) signalGroup(pid, "SIGKILL");
      child = undefined;
      if (asked || performance.now() - since > timings.stable_ms) wait = first;
      if (!closing.signal.aborted && !asked) await pause(jittered(wait), closing.signal);
      wait = Math.min(wait * 2, most);
    }
    await rm(pidFile, { force: true });
  }

  const living = live().catch((error: unknown) => log.warn(`${url}: its process can't be watched: ${reasonOf(error)}`));
  return {
    async restart(reason) {
      log.warn(`${url}: restarting it: ${reason}`);
      asked = true;
      await endChild();
    },
    async close() {
      closing.abort();
      await endChild();
      await living;
    },
  };
}
