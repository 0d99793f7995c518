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

/** What a promise gives, or undefined once the signal is aborted. Leaves no listener behind. Rejects as the promise does. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const gone = Promise.withResolvers<undefined>();
  const end = (): void => gone.resolve(undefined);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  try {
    return await Promise.race([promise, gone.promise]);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Resolves when the signal is aborted. Its listener stays until then: for signals that live no longer than what waits. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
