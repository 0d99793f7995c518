import { type Graph, isLink } from "./graph.ts";

export interface Schedule {
  node(id: string): Graph[string];
  isCached(id: string): boolean;
  isOutput(class_type: string): boolean;
  isAsync(class_type: string): boolean;
}

/** Which nodes are left to run and which of them may: a topological sort with ComfyUI's own taste in who goes first. */
export class ExecutionList {
  readonly #schedule: Schedule;
  readonly #blockedBy = new Map<string, number>();
  readonly #blocking = new Map<string, Map<string, Set<number>>>();
  #externalBlocks = 0;
  #released: (() => void) | undefined;

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  get isEmpty(): boolean {
    return this.#blockedBy.size === 0;
  }

  /** Adds the node and, unless they are cached, all that it needs. */
  add(id: string): void {
    const ids = [id];
    const links: [from: string, slot: number, to: string][] = [];
    for (let next = ids.pop(); next !== undefined; next = ids.pop()) {
      if (this.#blockedBy.has(next)) continue;
      this.#blockedBy.set(next, 0);
      this.#blocking.set(next, new Map());
      for (const value of Object.values(this.#schedule.node(next).inputs)) {
        if (!isLink(value)) continue;
        if (!this.#schedule.isCached(value[0])) ids.push(value[0]);
        links.push([value[0], value[1], next]);
      }
    }
    for (const link of links) this.link(...link);
  }

  /** Makes `to` wait for `from`. */
  link(from: string, slot: number, to: string): void {
    if (this.#schedule.isCached(from)) return;
    this.add(from);
    const blocked = this.#blocking.get(from);
    if (blocked === undefined) return;
    if (!blocked.has(to)) {
      blocked.set(to, new Set());
      this.#blockedBy.set(to, (this.#blockedBy.get(to) ?? 0) + 1);
    }
    blocked.get(to)?.add(slot);
  }

  /** Keeps the node from running until what is returned is called. */
  block(id: string): () => void {
    this.#externalBlocks++;
    this.#blockedBy.set(id, (this.#blockedBy.get(id) ?? 0) + 1);
    return () => {
      this.#externalBlocks--;
      this.#blockedBy.set(id, (this.#blockedBy.get(id) ?? 1) - 1);
      this.#released?.();
      this.#released = undefined;
    };
  }

  async next(): Promise<string> {
    let ready = this.#ready();
    while (ready.length === 0 && this.#externalBlocks > 0) {
      await new Promise<void>((resolve) => {
        this.#released = resolve;
      });
      ready = this.#ready();
    }
    const first = ready[0];
    if (first === undefined) throw new Error("the fake let a cycle through");
    return this.#pick(ready) ?? first;
  }

  complete(id: string): void {
    for (const blocked of this.#blocking.get(id)?.keys() ?? []) {
      this.#blockedBy.set(blocked, (this.#blockedBy.get(blocked) ?? 1) - 1);
    }
    this.#blocking.delete(id);
    this.#blockedBy.delete(id);
  }

  #ready(): string[] {
    return [...this.#blockedBy].filter(([, count]) => count === 0).map(([id]) => id);
  }

  /** Outputs and async nodes go first, then what leads to an output in one step, then in two. */
  #pick(ready: readonly string[]): string | undefined {
    const { isOutput, isAsync, node } = this.#schedule;
    const output = (id: string) => isOutput(node(id).class_type);
    const after = (id: string): string[] => [...(this.#blocking.get(id)?.keys() ?? [])];
    return (
      ready.find((id) => output(id) || isAsync(node(id).class_type)) ??
      ready.find((id) => after(id).some(output)) ??
      ready.find((id) => after(id).some((next) => after(next).some(output)))
    );
  }
}
