import { spawn } from "node:child_process";
import { reasonOf } from "../../log.ts";
import { pause } from "../../pause.ts";
import { commandEnvironment, readLines, signalGroup } from "./managed-server.ts";
import type { Restarter } from "./server.ts";

/** `systemctl restart` waits until the old process has ended; one that does not end is killed by then. */
const COMMAND_MS = 120_000;
/** A server needs its time to start: it is not restarted again before. */
const APART_MS = 60_000;

/**
 * Restarts a server by a command of the operator's, such as `systemctl restart comfyui@$COMFYUI_INDEX`. It finds what a managed
 * server's command finds in its environment.
 */
export function restartCommand({
  command,
  url,
  index,
  warn,
  apart_ms = APART_MS,
  command_ms = COMMAND_MS,
}: {
  readonly command: string;
  readonly url: string;
  readonly index: number;
  warn(line: string): void;
  readonly apart_ms?: number;
  readonly command_ms?: number;
}): Restarter & { close(): Promise<void> } {
  let last = Number.NEGATIVE_INFINITY;
  let running: Promise<void> = Promise.resolve();
  const closing = new AbortController();

  async function execute(reason: string): Promise<void> {
    warn(`${url}: running the restart command: ${reason}`);
    const child = spawn("/bin/sh", ["-c", command], {
      detached: true,
      env: commandEnvironment(process.env, { url, index }),
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    const hear = readLines((line) => {
      said = `: ${line}`;
    });
    child.stderr.on("data", hear);
    const ended = new Promise<string>((resolve) => {
      child.once("error", (error) => resolve(reasonOf(error)));
      child.once("exit", (code, signal) => resolve(code === 0 ? "" : `${signal ?? `code ${code}`}${said}`));
    });
    const failure = await Promise.race([ended, pause(command_ms, closing.signal)]);
    if (failure === "") return;
    if (failure !== undefined) return warn(`${url}: the restart command failed: ${failure}`);
    // One that has ended may have left the server itself in its group; one that hangs has not come that far.
    if (child.pid !== undefined) signalGroup(child.pid, "SIGKILL");
    if (!closing.signal.aborted) warn(`${url}: the restart command did not end in ${command_ms / 1000} s`);
  }

  return {
    async restart(reason) {
      if (closing.signal.aborted || performance.now() - last < apart_ms) return;
      last = performance.now();
      running = execute(reason).catch((error: unknown) =>
        warn(`${url}: the restart command can't be started: ${reasonOf(error)}`),
      );
      await running;
    },
    close() {
      closing.abort();
      return running;
    },
  };
}
