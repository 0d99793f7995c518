import { type ChildProcess, spawn } from "node:child_process";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";
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

type Environment = Readonly<Record<string, string | undefined>>;

/** The part of an environment that every command of an engine gets. */
export const passedOn = (env: Environment): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && PASSED_ON.test(entry[0]),
    ),
  );

/** The environment of a command that has to do with one server. */
export function commandEnvironment(
  env: Environment,
  { url, index }: { readonly url: string; readonly index: number },
): Record<string, string> {
  const { port, protocol } = new URL(url);
  return {
    ...passedOn(env),
    COMFYUI_URL: url,
    COMFYUI_PORT: port || (protocol === "https:" ? "443" : "80"),
    COMFYUI_INDEX: String(index),
  };
}

interface ProcessState {
  /** Dead, and not yet collected by its parent. */
  readonly isZombie: boolean;
  readonly group: number;
  /** In ticks since the machine's start: with the process's number it names one process. */
  readonly start: string;
}

/** Undefined where there is no such process, or the system does not tell: Linux only. */
async function stateOf(pid: number | string): Promise<ProcessState | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { isZombie: /[ZX]/.test(fields[0] ?? ""), group: Number(fields[2]), start: fields[19] ?? "" };
  } catch {
    return undefined;
  }
}

/** Sends a signal to a process and all that it started. False where there is nothing of it left. */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}

/** Whether a process or anything that it started still lives. A container may have nobody who collects its dead. */
async function livesGroup(pid: number): Promise<boolean> {
  if (!signalGroup(pid, 0)) return false;
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name));
  if (pids.length === 0) return true;
  const states = await Promise.all(pids.map(stateOf));
  return states.some((state) => state?.group === pid && !state.isZombie);
}

/** What hangs in a driver ends later than it is killed, or never. */
const KILL_MS = 3_000;
const KILL_LOOK_MS = 10;

/** Kills a process and all that it started, and waits for their end. */
async function killGroup(pid: number): Promise<void> {
  const deadline = performance.now() + KILL_MS;
  while (signalGroup(pid, "SIGKILL") && (await livesGroup(pid)) && performance.now() < deadline)
    await pause(KILL_LOOK_MS);
}

const MAX_LINE = 2_000;

/**
 * Cuts a process's output into lines of at most 2,000 characters; what is longer loses its end. A carriage return begins the line
 * anew, as on a terminal: of a progress bar its last state counts.
 */
export function readLines(told: (line: string) => void): (chunk: Buffer) => void {
  const decoder = new StringDecoder("utf8");
  let line = "";
  let isOver = false;
  const add = (text: string): void => {
    if (isOver && text !== "") line = "";
    isOver &&= text === "";
    line += text.slice(0, MAX_LINE - line.length);
  };
  return (chunk) => {
    for (const part of decoder.write(chunk).split(/(\r|\n)/)) {
      if (part === "\r") isOver = true;
      else if (part !== "\n") add(part);
      else {
        if (line.trim() !== "") told(line.trimEnd());
        line = "";
        isOver = false;
      }
    }
  };
}

/** Ends what an earlier runner left running, and waits for its end: it has the port that the next one needs. */
async function endLeftover({ pidFile, log, url }: ManagedServerOptions): Promise<void> {
  const [pid, start] = (await readFile(pidFile, "utf8").catch(() => "")).trim().split(" ");
  if (!pid || !start || (await stateOf(pid))?.start !== start) return;
  log.warn(`${url}: ending process ${pid}, which an earlier start of this runner has left behind`);
  await killGroup(Number(pid));
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
    await killGroup(pid);
  }

  function launch() {
    const running = spawn("/bin/sh", ["-c", command], {
      detached: true,
      env: commandEnvironment(process.env, { url, index }),
      stdio: ["ignore", "pipe", "pipe"],
    });
    const say = (line: string): void => log.info(`${url} says: ${line}`);
    for (const stream of [running.stdout, running.stderr]) stream.on("data", readLines(say));
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

  async function remember(pid: number): Promise<void> {
    try {
      await writeFile(pidFile, `${pid} ${(await stateOf(pid))?.start ?? ""}`, { mode: 0o600 });
    } catch (error) {
      log.warn(`${url}: the number of its process can't be kept: ${reasonOf(error)}`);
    }
  }

  async function live(): Promise<void> {
    await endLeftover(options);
    const [first, most] = timings.again_ms;
    let wait = first;
    while (!closing.signal.aborted) {
      const since = performance.now();
      asked = false;
      child = launch();
      const { ended } = child;
      const { pid } = child.process;
      if (pid !== undefined) {
        log.info(`${url}: started its command as process ${pid}`);
        await remember(pid);
      }
      await ended;
      if (pid !== undefined) await killGroup(pid);
      child = undefined;
      // It was asked to end, or has shown that it can live.
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
      await within(KILL_MS, living);
    },
  };
}
