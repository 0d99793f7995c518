import { pause } from "../../pause.ts";

/** Wakes one sleeper. A ring while nobody sleeps ends the next sleep at once. */
export class Bell {
  #rung = new AbortController();

  ring(): void {
    this.#rung.abort();
  }

  /** Sleeps for `ms`, or until the next ring; tells whether it was rung. */
  async sleep(ms: number): Promise<boolean> {
    await pause(ms, this.#rung.signal);
    const { aborted } = this.#rung.signal;
    if (aborted) this.#rung = new AbortController();
    return aborted;
  }
}
