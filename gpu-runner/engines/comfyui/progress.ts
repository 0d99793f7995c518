import type { EngineProgress } from "../../engine.ts";
import type { Message } from "./messages.ts";

/** Follows the progress of one graph through the server's messages. `value` never falls. */
export class RunProgress {
  readonly #classes: ReadonlyMap<string, string>;
  readonly #done = new Set<string>();
  /** How far the nodes have come that are at work, 0 to 1. */
  readonly #partial = new Map<string, number>();
  /** The server tells the state of all nodes; an old one tells only which node begins. */
  #tellsStates = false;
  #value = 0;
  #current: { node: string; step?: number; steps?: number } | undefined;

  /** @param classes class by node, of all nodes that are to be executed */
  constructor(classes: ReadonlyMap<string, string>) {
    this.#classes = classes;
  }

  /** The progress after a message; undefined where the message says nothing of it. */
  after(message: Message): EngineProgress | undefined {
    switch (message.type) {
      case "started":
        return this.#told();
      case "cached":
        for (const id of message.nodes) this.#finish(id);
        return this.#told();
      case "executing":
        this.#enter(message.display);
        return this.#told();
      case "step":
        this.#step(message.node, message.value, message.max);
        return this.#told();
      case "state":
        this.#tellsStates = true;
        for (const { id, display, finished, value, max } of message.nodes) {
          if (finished) this.#finish(id);
          else if (this.#classes.has(id)) this.#step(id, value, max);
          else this.#enter(display);
        }
        return this.#told();
      default:
        return undefined;
    }
  }

  #finish(id: string): void {
    if (this.#classes.has(id)) this.#done.add(id);
    this.#partial.delete(id);
  }

  #enter(node: string): void {
    if (!this.#classes.has(node) || this.#current?.node === node) return;
    if (!this.#tellsStates && this.#current) this.#finish(this.#current.node);
    this.#current = { node };
  }

  #step(node: string, value: number, max: number): void {
    if (!this.#classes.has(node)) return;
    this.#enter(node);
    const steps = Math.max(0, Math.round(max));
    const step = Math.min(Math.max(0, Math.round(value)), steps);
    if (steps > 0) this.#partial.set(node, step / steps);
    // A node that reports nothing has one step, which says nothing.
    if (steps > 1) this.#current = { node, step, steps };
  }

  #told(): EngineProgress {
    const total = Math.max(1, this.#classes.size);
    let at = this.#done.size;
    for (const [node, share] of this.#partial) if (!this.#done.has(node)) at += share;
    this.#value = Math.min(1, Math.max(this.#value, at / total));
    const { node, step, steps } = this.#current ?? {};
    const node_class = node === undefined ? undefined : this.#classes.get(node);
    return {
      value: this.#value,
      nodes_done: this.#done.size,
      nodes_total: this.#classes.size,
      ...(node === undefined ? {} : { node_id: node }),
      ...(node_class === undefined ? {} : { node_class }),
      ...(step === undefined || steps === undefined ? {} : { step, steps }),
    };
  }
}
