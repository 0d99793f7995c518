/** What a fault may do to a request instead of the server's own answer. */
export type Fault =
  | { readonly status: number; readonly body?: string }
  /** The connection breaks before the server acts. */
  | "breaks"
  /** The server acts, and the connection breaks instead of the reply. */
  | "reply lost"
  /** The connection is taken and nothing is ever answered. */
  | "silence";

export interface KnobSettings {
  /** How long the reply to `POST /prompt` is held back after the prompt is queued: messages overtake it. */
  replyDelay_ms: number;
  /** Between `execution_success` (or its like) and the history entry. */
  historyDelay_ms: number;
  /** Messages that are silently not sent; binary frames have the type "binary". */
  losesMessages: (type: string) => boolean;
  /** Every message is sent so much later, in its order. */
  delaysMessages_ms: number;
  /** The next n interrupts and cancels of a running prompt answer as ever and have no effect. */
  losesInterrupts: number;
  /** The status with which uploads are refused. */
  refusesUploads: number | undefined;
  /** The status with which `/view` answers. */
  viewFails: number | undefined;
  /** `/view` gives the first half of the file, with 200 and the length of that half. */
  truncatesViews: boolean;
  /** Bytes by which `vram_free` changes with each `/system_stats`. */
  vramStep: number;
  /** Which results stay cached: those of the last prompt's nodes (as recorded), of all prompts, or none. */
  cacheKeeps: "last prompt" | "everything" | "nothing";
  /** The order in which the outputs of a prompt are taken up; Python's sets give any. */
  ordersOutputs: (ids: readonly string[]) => readonly string[];
  /** A fault for a request, by method and path without query. */
  faults: (method: string, path: string) => Fault | undefined;
}

export interface Knobs extends KnobSettings {
  /** Takes a prompt (without an id: the running one, else the next) out of the queue and forgets it without a trace. */
  losesPrompt(prompt_id?: string): void;
  /** The worker thread ends: the prompt that runs stays in `queue_running`, HTTP answers well, nothing runs any more. */
  killsWorker(): void;
}

export const goodDay = (): KnobSettings => ({
  replyDelay_ms: 0,
  historyDelay_ms: 0,
  losesMessages: () => false,
  delaysMessages_ms: 0,
  losesInterrupts: 0,
  refusesUploads: undefined,
  viewFails: undefined,
  truncatesViews: false,
  vramStep: 0,
  cacheKeeps: "last prompt",
  ordersOutputs: (ids) => ids,
  faults: () => undefined,
});
