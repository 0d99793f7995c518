import type { Graph } from "./graph.ts";
import { heapify, pop, push } from "./heap.ts";
import type { JsonObject } from "./python-json.ts";
import { Trouble } from "./python-error.ts";

export interface QueueItem {
  readonly number: number;
  readonly prompt_id: string;
  readonly graph: Graph;
  readonly extra_data: JsonObject;
  readonly outputs: readonly string[];
}

const before = (a: QueueItem, b: QueueItem): boolean =>
  a.number === b.number ? a.prompt_id < b.prompt_id : a.number < b.number;

/** The pending prompts, as a heap by number and id, and the running one. */
export class PromptQueue {
  readonly #pending: QueueItem[] = [];
  #running: QueueItem | undefined;
  readonly #changed: () => void;
  #waiting: (() => void) | undefined;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** In heap order, as `/queue` shows them. */
  get pending(): readonly QueueItem[] {
    return this.#pending;
  }

  get running(): QueueItem | undefined {
    return this.#running;
  }

  get remaining(): number {
    return this.#pending.length + (this.#running === undefined ? 0 : 1);
  }

  /** Two items of the same number and id cannot be compared: Python would go on to compare the graphs. */
  put(item: QueueItem): void {
    if (this.#pending.some(({ number, prompt_id }) => number === item.number && prompt_id === item.prompt_id)) {
      throw new Trouble("'<' not supported between instances of 'dict' and 'dict'");
    }
    push(this.#pending, item, before);
    this.#changed();
    this.wake();
  }

  /** Ends a wait for work early: there are flags to look at. */
  wake(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }

  work(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }

  take(): QueueItem | undefined {
    const item = pop(this.#pending, before);
    if (item === undefined) return undefined;
    this.#running = item;
    this.#changed();
    return item;
  }

  /** The entry is written and the prompt leaves the queue in one step. */
  done(write: () => void): void {
    this.#running = undefined;
    write();
    this.#changed();
  }

  delete(prompt_id: string): boolean {
    const at = this.#pending.findIndex((item) => item.prompt_id === prompt_id);
    if (at < 0) return false;
    this.#pending.splice(at, 1);
    heapify(this.#pending, before);
    this.#changed();
    return true;
  }

  clear(): void {
    this.#pending.length = 0;
    this.#changed();
  }

  /** Forgets the running prompt without a message. */
  forget(): void {
    this.#running = undefined;
  }

  /** Forgets a pending prompt without a message. */
  forgetPending(prompt_id: string): void {
    const at = this.#pending.findIndex((item) => item.prompt_id === prompt_id);
    if (at < 0) return;
    this.#pending.splice(at, 1);
    heapify(this.#pending, before);
  }
}
