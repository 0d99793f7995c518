import { pause } from "../../pause.ts";

/** Wakes one sleeper. A ring while nobody sleeps ends the next sleep at once. */
export class Bell {
  #rung = new AbortController();

  ring(): void {
    this.#rung.abort();
  }

  /** Sleeps for `ms`, or until the next ring. */
  async sleep(ms: number): Promise<void> {
    await pause(ms, this.#rung.signal);
    if (this.#rung.signal.aborted) this.#rung = new AbortController();
  }
}
