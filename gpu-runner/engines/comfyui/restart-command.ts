import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { reasonOf } from "../../log.ts";
import { commandEnvironment } from "./managed-server.ts";
import type { Restarter } from "./server.ts";

const run = promisify(execFile);

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
}: {
  readonly command: string;
  readonly url: string;
  readonly index: number;
  warn(line: string): void;
  readonly apart_ms?: number;
}): Restarter & { close(): Promise<void> } {
  let last = Number.NEGATIVE_INFINITY;
  let running: Promise<void> = Promise.resolve();

  async function execute(reason: string): Promise<void> {
    warn(`${url}: running the restart command: ${reason}`);
    try {
      await run("/bin/sh", ["-c", command], {
        env: commandEnvironment(process.env, { url, index }),
        timeout: COMMAND_MS,
        killSignal: "SIGKILL",
      });
    } catch (error) {
      warn(`${url}: the restart command failed: ${reasonOf(error)}`);
    }
  }

  return {
    async restart(reason) {
      if (performance.now() - last < apart_ms) return;
      last = performance.now();
      running = execute(reason);
      await running;
    },
    close: () => running,
  };
}
