/** Requests that wait for a job to end; memory only. */

/** Open waits and streams of one key (contract section 2, "Sizes"). */
export const MAX_WAITS = 100;

interface Waiting {
  readonly key_hash: string;
  readonly job_id: string;
  wake(): void;
}

export class Waits {
  readonly #waiting = new Set<Waiting>();

  /**
   * Resolves when the job has ended, when the account's keys have changed, or after `timeout_ms`. Undefined where the key has as
   * many waits open as it may.
   */
  enter(key_hash: string, job_id: string, timeout_ms: number): Promise<void> | undefined {
    let open = 0;
    for (const other of this.#waiting) if (other.key_hash === key_hash) open++;
    if (open >= MAX_WAITS) return undefined;
    return new Promise((resolve) => {
      const timer = setTimeout(() => waiting.wake(), timeout_ms);
      const waiting: Waiting = {
        key_hash,
        job_id,
        wake: () => {
          clearTimeout(timer);
          this.#waiting.delete(waiting);
          resolve();
        },
      };
      this.#waiting.add(waiting);
    });
  }

  /** Wakes those who wait for one job, or everybody. */
  wake(job_id: string | undefined): void {
    for (const waiting of [...this.#waiting]) if (job_id === undefined || waiting.job_id === job_id) waiting.wake();
  }
}
