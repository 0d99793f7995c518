import { type ChildProcess, spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** One real runner process, to be killed, frozen and put on a wrong clock. */
export interface RunnerProcess {
  /** Its name at the fleet, from its first start on. */
  readonly runner_id: () => string;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again, with the identity that it has on disk. Resolves when it has said that it is ready. */
  start(): Promise<void>;
  freeze(): void;
  thaw(): void;
  setClock(ahead_ms: number): Promise<void>;
  /** SIGTERM, and SIGKILL where that takes too long. */
  stop(): Promise<void>;
}

export interface RunnerProcessOptions {
  readonly root: string;
  /** Absolute path: identity and scratch. */
  readonly data: string;
  readonly name: string;
  readonly edge: string;
  /** Where the edge reaches it: the proxy before it. */
  readonly url: string;
  readonly port: number;
  readonly seats: number;
  /** For the first start. */
  readonly token: string;
  log(line: string): void;
  /** It ended and nobody had asked it to. */
  onDeath(how: string): void;
}

/** A runner whose edge is cut off waits for it: this bounds a start under faults. */
const READY_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 15_000;

export function runnerProcess(options: RunnerProcessOptions): RunnerProcess {
  const { root, data, name, edge, url, port, seats, token, log, onDeath } = options;
  const clock = `${data}.clock`;
  let child: ChildProcess | undefined;
  let gone: Promise<void> = Promise.resolve();
  let wanted = false;
  let runner_id = "";
  // However this process ends, no runner outlives it.
  process.once("exit", () => child?.kill("SIGKILL"));

  async function start(): Promise<void> {
    wanted = true;
    const running = spawn(
      process.execPath,
      [
        ...["--import", join(import.meta.dirname, "skewed-clock.ts"), join("gpu-runner", "main.ts")],
        ...["--edge", edge, "--url", url, "--listen", `127.0.0.1:${port}`, "--name", name, "--seats", String(seats)],
        ...["--data", data, "--inputs", join(root, "examples", "inputs"), "--grace", "5"],
      ],
      {
        cwd: root,
        env: { PATH: process.env.PATH, HOME: process.env.HOME, DARKROOM_ENROL_TOKEN: token, CHAOS_CLOCK_FILE: clock },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    child = running;
    const ready = Promise.withResolvers<void>();
    for (const stream of [running.stdout, running.stderr])
      createInterface({ input: stream }).on("line", (line) => {
        log(line);
        const [, told] = /^runner (\S+) ready at /.exec(line) ?? [];
        if (told === undefined) return;
        runner_id = told;
        ready.resolve();
      });
    gone = new Promise((resolve) => {
      running.once("exit", (code, signal) => {
        if (child === running) child = undefined;
        if (wanted) onDeath(signal ?? `code ${code}`);
        // Whoever waits for the start has nothing to wait for any more.
        ready.resolve();
        resolve();
      });
    });
    const timer = setTimeout(
      () => ready.reject(new Error(`${name} was not ready after ${READY_TIMEOUT_MS / 1000} s.`)),
      READY_TIMEOUT_MS,
    );
    await ready.promise.finally(() => clearTimeout(timer));
  }

  async function end(signal: NodeJS.Signals): Promise<void> {
    wanted = false;
    const running = child;
    if (!running) return;
    running.kill(signal);
    const timer = setTimeout(() => running.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await gone;
    clearTimeout(timer);
  }

  return {
    runner_id: () => runner_id,
    start,
    kill: () => end("SIGKILL"),
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    setClock: (ahead_ms) => writeFile(clock, String(ahead_ms)),
    stop: () => end("SIGTERM"),
  };
}
