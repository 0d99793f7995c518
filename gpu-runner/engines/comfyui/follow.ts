import { pause } from "../../pause.ts";
import type { Bell } from "./bell.ts";
import { cancelPrompt } from "./cancel.ts";
import { type Client, type Device, type HistoryEntry, TooLong, Unreachable } from "./client.ts";
import type { Timings } from "./timings.ts";
import type { Abilities } from "./version.ts";

/** How a prompt ended, as far as the server can still say. */
export type Ending =
  | { readonly how: "entry"; readonly entry: HistoryEntry }
  /** In no queue and not in the history: taken back, or the server has restarted. */
  | { readonly how: "vanished" }
  /** It is over, and its entry is longer than any that is read: its nodes show texts of many megabytes. */
  | { readonly how: "unreadable" }
  /** Nothing listens at the server's address. */
  | { readonly how: "gone" }
  /** No event, no movement of the queue and none of the GPU's memory for `stall_ms`. */
  | { readonly how: "silent" };

export interface Followed {
  readonly client: Client;
  readonly prompt_id: string;
  readonly abilities: Abilities;
  /** Aborted: the prompt is to be taken back or stopped. Its end is waited for all the same. */
  readonly signal: AbortSignal;
  /** Rung by whatever may mean the end: an event, a lost socket, the signal. */
  readonly bell: Bell;
  /**
   * How long it must be absent before it counts as vanished. For a prompt whose submission had no answer: the server may still be
   * looking at it, and queue it later. Default: two looks are enough.
   */
  readonly absent_ms?: number;
  /** When the last event of the prompt was heard, by `performance.now()`. */
  heard(): number;
  readonly timings: Timings;
}

/** Changes of free memory below this are noise of the driver. */
const GPU_NOISE_BYTES = 1024 * 1024;

const memoryOf = (devices: readonly Device[]): readonly number[] =>
  devices.filter(({ type }) => type !== "cpu").map((device) => device.vram_free);

const differs = (a: readonly number[], b: readonly number[]): boolean =>
  a.some((free, n) => Math.abs(free - (b[n] ?? free)) >= GPU_NOISE_BYTES);

/** What shows that a server works although it sends nothing. */
class Life {
  readonly #followed: Followed;
  #moved = performance.now();
  #queue = "";
  #memory: readonly number[] | undefined;
  #sampled = 0;

  constructor(followed: Followed) {
    this.#followed = followed;
  }

  /** Milliseconds since the last sign of life. */
  silence(): number {
    return performance.now() - Math.max(this.#moved, this.#followed.heard());
  }

  /** Resolves when the silence has lasted too long, also while a call waits for its answer; or when nobody asks any more. */
  async lost(signal: AbortSignal): Promise<"silent"> {
    const { stall_ms } = this.#followed.timings;
    while (this.silence() <= stall_ms && !signal.aborted) await pause(stall_ms - this.silence() + 1, signal);
    return "silent";
  }

  moved(): void {
    this.#moved = performance.now();
  }

  queueIs(running: readonly string[], pending: readonly string[]): void {
    const now = JSON.stringify([running, pending.length]);
    if (now !== this.#queue) this.moved();
    this.#queue = now;
  }

  /** Looks at the GPU's memory, from some silence on. */
  async sample(): Promise<void> {
    const { client, timings } = this.#followed;
    if (this.silence() < timings.gpu_sample_ms || performance.now() - this.#sampled < timings.gpu_sample_ms) return;
    this.#sampled = performance.now();
    const memory = memoryOf((await client.systemStats()).devices);
    if (this.#memory && differs(this.#memory, memory)) this.moved();
    this.#memory = memory;
  }
}

/**
 * Waits for the end of a prompt. The history is the truth, the queue says whether there still is something to wait for, events
 * make it quick; none of them is trusted alone. Once the signal is aborted the prompt is cancelled, again and again until it is
 * over: a stop can be lost, and one that comes too late leaves a finished entry.
 */
export async function follow(followed: Followed): Promise<Ending> {
  const life = new Life(followed);
  const over = new AbortController();
  try {
    return await followUntil(life.lost(over.signal), life, followed);
  } finally {
    over.abort();
  }
}

async function followUntil(silent: Promise<"silent">, life: Life, followed: Followed): Promise<Ending> {
  const { client, prompt_id, abilities, signal, bell, timings, absent_ms = 0 } = followed;
  const since = performance.now();
  let seen = false;
  let absences = 0;
  let refusals = 0;
  let stoppedAt = Number.NEGATIVE_INFINITY;
  let queueAt = Number.NEGATIVE_INFINITY;
  let cancelled = false;

  /** One look at the server; undefined while there is something to wait for. */
  async function look(): Promise<Ending | undefined> {
    let entry = await client.history(prompt_id);
    if (entry) return { how: "entry", entry };
    // A stop that names no prompt is not repeated at once: this prompt may just be making way for another one.
    const patience = abilities.targetedInterrupt ? 0 : timings.blind_stop_ms;
    if (signal.aborted && performance.now() - stoppedAt >= patience) {
      stoppedAt = performance.now();
      await cancelPrompt(client, prompt_id, abilities);
      entry = await client.history(prompt_id);
      if (entry) return { how: "entry", entry };
    }
    if (!signal.aborted && absences === 0 && performance.now() - queueAt < timings.queue_ms) return undefined;
    const { running, pending } = await client.queue();
    queueAt = performance.now();
    life.queueIs(running, pending);
    if (running.includes(prompt_id) || pending.includes(prompt_id)) {
      absences = 0;
      seen = true;
      return undefined;
    }
    // It may have ended between the two questions.
    entry = await client.history(prompt_id);
    if (entry) return { how: "entry", entry };
    absences++;
    const mayStillCome = !seen && performance.now() - since < absent_ms;
    return absences >= 2 && !mayStillCome ? { how: "vanished" } : undefined;
  }

  let wait = timings.poll_first_ms;
  while (true) {
    if (signal.aborted && !cancelled) {
      cancelled = true;
      life.moved();
      wait = timings.poll_first_ms;
    }
    try {
      // A server that takes the call and does not answer is as silent as one that is not called.
      const looked = await Promise.race([look(), silent]);
      if (looked === "silent") return { how: "silent" };
      if (looked) return looked;
      refusals = 0;
      await Promise.race([life.sample(), silent]);
    } catch (error) {
      if (error instanceof TooLong) return { how: "unreadable" };
      if (!(error instanceof Unreachable)) throw error;
      refusals = error.gone ? refusals + 1 : 0;
      if (refusals >= 2) return { how: "gone" };
    }
    if (life.silence() > timings.stall_ms) return { how: "silent" };
    const rung = await bell.sleep(wait);
    wait = rung ? timings.poll_first_ms : Math.min(wait * 2, timings.poll_most_ms);
  }
}
