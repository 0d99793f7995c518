import { EmbeddedChild } from "./child-process.ts";

/** After so many graphs a child is replaced, whatever it looks like: nothing may pile up for ever. */
const RUNS_PER_CHILD = 200;
/** A child that kept more than this after a run is replaced; a warm one holds some 90 MiB. */
const KEPT_MEMORY_BYTES = 512 * 1024 * 1024;

/** Warm children. One serves a graph at a time and goes back when it is healthy. */
export class ChildPool {
  readonly #maxMemory: number;
  readonly #spares: number;
  readonly #idle: EmbeddedChild[] = [];
  readonly #all = new Set<EmbeddedChild>();
  #closed = false;

  /** @param spares idle children kept ready */
  constructor({ maxMemory, spares }: { readonly maxMemory: number; readonly spares: number }) {
    this.#maxMemory = maxMemory;
    this.#spares = spares;
  }

  /** An idle child, or a new one; it may not be ready yet. */
  take(): EmbeddedChild {
    for (let child = this.#idle.pop(); child; child = this.#idle.pop()) {
      if (child.alive) return child;
      this.#all.delete(child);
    }
    return this.#start();
  }

  /** Takes a child back after its run. One that is dead, worn or too many is let go, and the spares are made up. */
  async giveBack(child: EmbeddedChild): Promise<void> {
    const worn = child.runs >= RUNS_PER_CHILD || child.rss > KEPT_MEMORY_BYTES;
    if (child.alive && !worn && !this.#closed && this.#idle.length < this.#spares) this.#idle.push(child);
    else await this.#end(child);
    this.prepare();
  }

  /** Starts children until the spares are there. */
  prepare(): void {
    while (!this.#closed && this.#idle.length < this.#spares) this.#idle.push(this.#start());
  }

  /** Ends every child; settles when all are gone. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#idle.length = 0;
    await Promise.all([...this.#all].map((child) => this.#end(child)));
  }

  #start(): EmbeddedChild {
    const child = new EmbeddedChild(this.#maxMemory);
    this.#all.add(child);
    return child;
  }

  async #end(child: EmbeddedChild): Promise<void> {
    await child.kill();
    this.#all.delete(child);
  }
}
