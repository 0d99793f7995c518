import { setImmediate as turn, setTimeout as wait } from "node:timers/promises";
import { type Behaviour, behaviourOf } from "./behaviour.ts";
import { ClassRegistry } from "./class-registry.ts";
import type { Models } from "./classes/models.ts";
import { Executor } from "./executor.ts";
import type { ExecutionResult } from "./prompt-run.ts";
import type { Folders } from "./folders.ts";
import { History } from "./history.ts";
import type { KnobSettings } from "./knobs.ts";
import { features } from "./machine-stats.ts";
import { PromptQueue, type QueueItem } from "./prompt-queue.ts";
import { ProcessDeath, WorkerDeath } from "./python-error.ts";
import type { JsonObject } from "./python-json.ts";
import { Sockets } from "./sockets.ts";

export interface ProcessOptions {
  readonly version: string;
  readonly folders: Folders;
  readonly models: Models;
  readonly knobs: KnobSettings;
  readonly maxUploadSize_bytes: number;
  /** The process ends by itself. */
  died(): unknown;
}

/** Thrown into what sleeps when its prompt is to be forgotten. */
class Forgotten extends Error {}

/** What one server process holds and loses: queue, history, sockets, numbering, and the worker with its cache. */
export class ServerProcess {
  readonly behaviour: Behaviour;
  readonly classes: ClassRegistry;
  readonly queue: PromptQueue;
  readonly history = new History();
  readonly sockets: Sockets;
  readonly executor: Executor;
  readonly #options: ProcessOptions;
  readonly #end = new AbortController();
  #forget = new AbortController();
  #number = 0;
  #freesMemory = false;
  #workerIsDead = false;
  #resumed: Promise<void> | undefined;
  #resume: (() => void) | undefined;
  readonly #worker: Promise<void>;

  constructor(options: ProcessOptions) {
    const { version, folders, models, knobs, maxUploadSize_bytes } = options;
    this.#options = options;
    this.behaviour = behaviourOf(version);
    this.classes = new ClassRegistry(folders, models);
    this.sockets = new Sockets(knobs, {
      status: () => this.#status(),
      node: (sid) => (this.executor.client === sid ? this.executor.node : undefined),
      features: () => (this.behaviour.features ? features(maxUploadSize_bytes) : undefined),
    });
    this.queue = new PromptQueue(() => this.sockets.send("status", this.#status(), null));
    this.executor = new Executor({
      behaviour: this.behaviour,
      classes: this.classes,
      folders,
      knobs,
      sockets: this.sockets,
      sleep: (ms) => this.#sleep(ms),
      breathe: () => this.#sleep(0),
    });
    this.#worker = this.#work();
  }

  get isDead(): boolean {
    return this.#end.signal.aborted;
  }

  nextNumber(): number {
    return this.#number++;
  }

  /** Sets the flag that nodes look at. A lost interrupt is answered as any other. */
  interrupt(): void {
    const { knobs } = this.#options;
    if (knobs.losesInterrupts > 0) knobs.losesInterrupts--;
    else this.executor.interrupt();
  }

  /** The worker empties the cache before the next prompt. */
  freeMemory(): void {
    this.#freesMemory = true;
    this.queue.wake();
  }

  losePrompt(prompt_id?: string): void {
    const { running, pending } = this.queue;
    if (running !== undefined && (prompt_id ?? running.prompt_id) === running.prompt_id) {
      this.queue.forget();
      this.#forget.abort(new Forgotten());
    } else {
      this.queue.forgetPending(prompt_id ?? pending[0]?.prompt_id ?? "");
    }
  }

  killWorker(): void {
    this.#workerIsDead = true;
    this.#forget.abort(new WorkerDeath());
  }

  /** As SIGKILL: everything that is under way stops where it is; when this has passed, nothing writes a file any more. */
  async kill(): Promise<void> {
    this.#end.abort(new ProcessDeath());
    this.sockets.resume();
    this.sockets.drop();
    this.#resume?.();
    this.queue.wake();
    await this.#worker;
  }

  hang(): void {
    if (this.#resumed !== undefined) return;
    this.sockets.hang();
    this.#resumed = new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  resume(): void {
    this.sockets.resume();
    this.#resume?.();
    this.#resumed = undefined;
  }

  /** Passes at once unless the server hangs. */
  async gate(): Promise<void> {
    while (this.#resumed !== undefined && !this.isDead) await this.#resumed;
  }

  #status(): JsonObject {
    return { status: { exec_info: { queue_remaining: this.queue.remaining } } };
  }

  async #sleep(ms: number): Promise<void> {
    const signal = AbortSignal.any([this.#end.signal, this.#forget.signal]);
    try {
      if (ms > 0) await wait(ms, undefined, { signal });
      else await turn(undefined, { signal });
    } catch {
      throw signal.reason;
    }
    await this.gate();
    signal.throwIfAborted();
  }

  async #work(): Promise<void> {
    while (!this.isDead && !this.#workerIsDead) {
      if (this.#freesMemory) this.executor.cache.clear();
      this.#freesMemory = false;
      if (this.queue.pending.length === 0) await this.queue.work();
      await turn();
      await this.gate();
      if (this.isDead || this.#workerIsDead) return;
      const item = this.queue.take();
      if (item !== undefined) await this.#run(item);
    }
  }

  async #run(item: QueueItem): Promise<void> {
    this.#forget = new AbortController();
    const { knobs } = this.#options;
    try {
      const result = await this.executor.execute(item);
      await this.#sleep(knobs.historyDelay_ms);
      this.#done(item, result);
    } catch (error) {
      if (error instanceof Forgotten || this.isDead) return;
      if (error instanceof WorkerDeath) this.#workerIsDead = true;
      else if (!(error instanceof ProcessDeath)) throw error;
      else this.#options.died();
    }
  }

  #done(item: QueueItem, result: ExecutionResult): void {
    this.queue.done(() => this.history.add({ item, result }));
    const { client } = this.executor;
    if (client !== null) this.sockets.send("executing", { node: null, prompt_id: item.prompt_id }, client);
  }
}
