import { readFile } from "node:fs/promises";

/** Short enough that a process at memory speed (some GB/s) is stopped within a few hundred MB of its bound. */
const INTERVAL_MS = 50;

/** The resident bytes of a process, or undefined where the system does not tell. */
async function residentBytes(pid: number): Promise<number | undefined> {
  try {
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, "latin1"))?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
  } catch {
    return undefined;
  }
}

export interface MemoryWatch {
  /** A measurement that came by another way. */
  observe(rss: number): void;
  stop(): void;
}

/**
 * Calls `onExceeded` once when the process holds more than `max` bytes. It looks from outside, because a process that is
 * busy in a picture can't look after itself; where there is no /proc it has only what `observe` is told.
 */
export function watchMemory(pid: number | undefined, max: number, onExceeded: () => void): MemoryWatch {
  let stopped = false;
  const observe = (rss: number): void => {
    if (stopped || rss <= max) return;
    stop();
    onExceeded();
  };
  const timer = setInterval(async () => {
    const rss = pid === undefined ? undefined : await residentBytes(pid);
    if (rss !== undefined) observe(rss);
  }, INTERVAL_MS);
  const stop = (): void => {
    stopped = true;
    clearInterval(timer);
  };
  return { observe, stop };
}
