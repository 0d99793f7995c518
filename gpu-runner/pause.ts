import { setTimeout as sleep } from "node:timers/promises";

/** Node fires a longer timer at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Waits for `ms`, or until the signal is aborted. Never rejects. */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  await sleep(Math.min(Math.max(0, ms), LONGEST_TIMER_MS), undefined, signal ? { signal } : {}).catch(() => {});
}

/** 75 % to 125 % of `ms`, so that machines that failed together do not come back together. */
export const jittered = (ms: number, random: () => number = Math.random): number => ms * (0.75 + random() / 2);

/** Waits for `promise`, but at most `ms`. Rejects as it does. */
export async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  try {
    await Promise.race([promise, pause(ms, settled.signal)]);
  } finally {
    settled.abort();
  }
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
