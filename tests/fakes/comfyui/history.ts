import type { ExecutionResult } from "./prompt-run.ts";
import type { QueueItem } from "./prompt-queue.ts";
import type { Json, JsonObject } from "./python-json.ts";

export interface Ended {
  readonly item: QueueItem;
  readonly result: ExecutionResult;
}

const MOST_ENTRIES = 10_000;

/** A prompt as `/queue` and `/history` show it. */
export const shownItem = ({ number, prompt_id, graph, extra_data, outputs }: QueueItem): Json => [
  number,
  prompt_id,
  graph as unknown as JsonObject,
  extra_data,
  [...outputs],
];

/** What became of the prompts that ended; an id that ran twice keeps its place and has the later entry. */
export class History {
  readonly #entries = new Map<string, Ended>();

  get ids(): readonly string[] {
    return [...this.#entries.keys()];
  }

  get entries(): readonly Ended[] {
    return [...this.#entries.values()];
  }

  get(prompt_id: string): Ended | undefined {
    return this.#entries.get(prompt_id);
  }

  add(ended: Ended): void {
    if (this.#entries.size > MOST_ENTRIES) this.#entries.delete(this.#entries.keys().next().value ?? "");
    this.#entries.set(ended.item.prompt_id, ended);
  }

  delete(prompt_id: string): void {
    this.#entries.delete(prompt_id);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Oldest first; a maximum without an offset gives the last ones. */
  show(max_items?: number, offset = -1): JsonObject {
    const first = offset < 0 && max_items !== undefined ? this.#entries.size - max_items : offset;
    const shown = [...this.#entries].slice(Math.max(0, first));
    const limited = max_items === undefined ? shown : shown.slice(0, max_items === 0 ? 0 : Math.max(1, max_items));
    return Object.fromEntries(limited.map(([id, ended]) => [id, entry(ended)]));
  }

  showOne(prompt_id: string): JsonObject {
    const ended = this.#entries.get(prompt_id);
    return ended === undefined ? {} : { [prompt_id]: entry(ended) };
  }
}

const entry = ({ item, result: { outputs, status, meta } }: Ended): Json => ({
  prompt: shownItem(item),
  outputs: Object.fromEntries(outputs),
  status: { ...status },
  meta,
});
