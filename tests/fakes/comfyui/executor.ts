import { type ExecutionResult, type Machine, PromptRun } from "./prompt-run.ts";
import type { QueueItem } from "./prompt-queue.ts";
import { Interrupted, ProcessDeath } from "./python-error.ts";
import type { Json } from "./python-json.ts";
import { ResultCache } from "./result-cache.ts";

/** Runs prompts one after another, keeps what they made, and tells their owners. */
export class Executor {
  readonly cache: ResultCache;
  /** The client whose prompt runs or ran last, and the node that runs. */
  client: Json = null;
  node: string | undefined;
  readonly #machine: Machine;
  readonly #objectNames = new Map<string, string>();
  #interrupted = false;

  constructor(machine: Machine) {
    this.#machine = machine;
    this.cache = new ResultCache(machine.classes, machine.folders, machine.knobs);
  }

  interrupt(): void {
    this.#interrupted = true;
  }

  checkInterrupt(): void {
    if (!this.#interrupted) return;
    this.#interrupted = false;
    throw new Interrupted();
  }

  /** Throws WorkerDeath or ProcessDeath for what Python does not catch. */
  async execute(item: QueueItem): Promise<ExecutionResult> {
    this.#interrupted = false;
    this.client = item.extra_data.client_id ?? null;
    if (typeof this.client === "object" && this.client !== null) throw new ProcessDeath();
    try {
      return await new PromptRun(this, this.#machine, item).run();
    } finally {
      this.node = undefined;
    }
  }

  /** A random name for the node's object, which lives on while the node stays in the prompts. */
  objectName(id: string, class_type: string): string {
    const key = `${id} ${class_type}`;
    const name = this.#objectNames.get(key) ?? randomLetters();
    this.#objectNames.set(key, name);
    return name;
  }

  keepObjects(graph: QueueItem["graph"]): void {
    const kept = new Set(Object.entries(graph).map(([id, { class_type }]) => `${id} ${class_type}`));
    for (const key of this.#objectNames.keys()) if (!kept.has(key)) this.#objectNames.delete(key);
  }
}

const randomLetters = (): string =>
  Array.from({ length: 5 }, () => String.fromCharCode(97 + Math.floor(Math.random() * 26))).join("");
