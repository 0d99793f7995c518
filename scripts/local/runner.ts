import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { within } from "../../gpu-runner/pause.ts";
import { passedOn } from "../../gpu-runner/engines/comfyui/managed-server.ts";

/** A runner process on this machine, started again when it dies. */
export interface LocalRunner {
  readonly url: string;
  /** Its process, for as long as this one lives. */
  readonly pid: () => number | undefined;
  /** Drains and ends it. */
  stop(): Promise<void>;
}

export interface LocalRunnerOptions {
  readonly root: string;
  /** Absolute path: identity and scratch. */
  readonly data: string;
  readonly edge: string;
  readonly port: number;
  /** Of the embedded engine; with ComfyUI each server gives one. */
  readonly seats: number;
  /** Graphs may name files on this machine's own addresses. */
  readonly loopbackInputs: boolean;
  /** A fresh enrolment token for each start; an enrolled runner ignores it. */
  token(): Promise<string>;
  log(line: string): void;
  /** What a person wants to know of its ComfyUI servers: ready, not ready and why, out of service. */
  say?(line: string): void;
  /** Ends a start that still waits for ComfyUI. */
  readonly signal?: AbortSignal;
  /** It died and is being started again. */
  onRestart(how: string): void;
}

const READY_TIMEOUT_MS = 30_000;
/** A ComfyUI server that is being started loads its custom nodes, and perhaps models for its warm-up. */
const COMFYUI_READY_TIMEOUT_MS = 15 * 60_000;
const RESTART_FIRST_MS = 250;
const RESTART_MOST_MS = 10_000;
/** A runner that lived this long starts anew without a growing pause. */
const STABLE_MS = 10_000;
const STOP_TIMEOUT_MS = 15_000;
/** It ends the ComfyUI servers that it has started. */
const COMFYUI_STOP_TIMEOUT_MS = 40_000;
/** Of what it said last, for who reads that it could not start. */
const LAST_LINES = 5;
const LAST_WORDS_MS = 500;

/** What drives ComfyUI (docs/comfyui.md) is handed on to the runner, with what the commands that start servers may need. */
const comfyuiSettings = (): Record<string, string | undefined> => {
  const settings = Object.entries(process.env).filter(([name, value]) => name.startsWith("COMFYUI_") && value);
  return settings.length > 0 ? { ...passedOn(process.env), ...Object.fromEntries(settings) } : {};
};

/** The runner could not start, in its own words. */
export class RunnerStartError extends Error {
  override readonly name = "RunnerStartError";
  /** Somebody else has its port. */
  readonly portTaken: boolean;

  constructor(how: string, said: readonly string[]) {
    const words = said.map((line) => line.replace(/^\S+Z (?:info|warn|error)\s+/, ""));
    super([`The runner ended at its start (${how})${words.length > 0 ? ":" : "."}`, ...words].join("\n  "));
    this.portTaken = said.some((line) => line.includes("EADDRINUSE"));
  }
}

/** What the runner says of its servers' health: without the time, and without what ends in its log only. */
const healthIn = (line: string): string | undefined =>
  /^\S+Z (?:info|warn)\s+(https?:\S+ is (?:not ready|ready|out of service)\b.*|https?:\S+ WARNING: .*)$/.exec(
    line,
  )?.[1];

export async function startRunner(options: LocalRunnerOptions): Promise<LocalRunner> {
  const { root, data, edge, port, seats, loopbackInputs, token, log, say, signal, onRestart } = options;
  const comfyui = comfyuiSettings();
  const [readyTimeout, stopTimeout] = comfyui.COMFYUI_URLS
    ? [COMFYUI_READY_TIMEOUT_MS, COMFYUI_STOP_TIMEOUT_MS]
    : [READY_TIMEOUT_MS, STOP_TIMEOUT_MS];
  const url = `http://127.0.0.1:${port}`;
  let child: ChildProcess | undefined;
  let stopping = false;
  let pause = RESTART_FIRST_MS;

  const launch = async (): Promise<void> => {
    const enrolToken = await token();
    if (stopping) return;
    const started = Date.now();
    const args = [join("gpu-runner", "main.ts"), "--edge", edge, "--url", url, "--listen", `127.0.0.1:${port}`];
    args.push("--name", "local", "--data", data, "--inputs", join(root, "examples", "inputs"), "--grace", "5");
    if (!comfyui.COMFYUI_URLS) args.push("--seats", String(seats));
    if (loopbackInputs) args.push("--loopback-inputs");
    const running = spawn(process.execPath, args, {
      cwd: root,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        TMPDIR: process.env.TMPDIR,
        DARKROOM_ENROL_TOKEN: enrolToken,
        ...comfyui,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child = running;
    const lines = [createInterface({ input: running.stdout }), createInterface({ input: running.stderr })];
    const said: string[] = [];
    for (const reader of lines) {
      reader.on("line", (line) => {
        log(line);
        said.push(line);
        if (said.length > LAST_LINES) said.shift();
        const health = healthIn(line);
        if (health !== undefined) say?.(health);
      });
    }
    const ended = new Promise<string>((resolve) => {
      running.once("error", (error) => resolve(error.message));
      running.once("exit", (code, signal) => resolve(signal ?? `code ${code}`));
    });
    void ended.then((how) => {
      child = undefined;
      if (stopping) return;
      onRestart(how);
      if (Date.now() - started > STABLE_MS) pause = RESTART_FIRST_MS;
      setTimeout(() => void launch().catch((error: unknown) => log(String(error))), pause);
      pause = Math.min(pause * 2, RESTART_MOST_MS);
    });
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`The runner was not ready after ${readyTimeout / 1000} s.`)),
        readyTimeout,
      );
      const settle = (act: () => void) => () => {
        clearTimeout(timer);
        act();
      };
      lines[0]?.on("line", (line) => {
        if (/ ready at /.test(line)) settle(resolve)();
      });
      const closed = new Promise<void>((over) => running.once("close", () => over()));
      void ended.then(async (how) => {
        // What it said last may still be on its way.
        await within(LAST_WORDS_MS, closed);
        settle(() => reject(new RunnerStartError(how, said)))();
      });
    });
  };

  const stop = async (): Promise<void> => {
    stopping = true;
    const running = child;
    if (!running) return;
    const ended = new Promise<void>((resolve) => running.once("exit", () => resolve()));
    running.kill("SIGTERM");
    const timer = setTimeout(() => running.kill("SIGKILL"), stopTimeout);
    await ended;
    clearTimeout(timer);
  };
  const stopAtStart = (): void => void stop();
  signal?.addEventListener("abort", stopAtStart, { once: true });
  try {
    await launch();
  } catch (error) {
    await stop();
    throw error;
  } finally {
    signal?.removeEventListener("abort", stopAtStart);
  }
  return { url, pid: () => child?.pid, stop };
}
