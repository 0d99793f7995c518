import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";

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

/** What drives ComfyUI (docs/comfyui.md) is handed on to the runner, which reads it from its environment. */
const comfyuiSettings = (): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith("COMFYUI_")));

export async function startRunner(options: LocalRunnerOptions): Promise<LocalRunner> {
  const { root, data, edge, port, seats, loopbackInputs, token, log, onRestart } = options;
  const comfyui = comfyuiSettings();
  const readyTimeout = comfyui.COMFYUI_URLS ? COMFYUI_READY_TIMEOUT_MS : READY_TIMEOUT_MS;
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
    for (const reader of lines) reader.on("line", log);
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
      void ended.then((how) => settle(() => reject(new Error(`The runner ended at its start (${how}).`)))());
    });
  };

  const stop = async (): Promise<void> => {
    stopping = true;
    const running = child;
    if (!running) return;
    const ended = new Promise<void>((resolve) => running.once("exit", () => resolve()));
    running.kill("SIGTERM");
    const timer = setTimeout(() => running.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await ended;
    clearTimeout(timer);
  };
  try {
    await launch();
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, pid: () => child?.pid, stop };
}
