import type { Behaviour } from "./behaviour.ts";
import type { ClassRegistry } from "./class-registry.ts";
import { ExecutionList } from "./execution-list.ts";
import type { Folders } from "./folders.ts";
import { type GraphNode, isLink } from "./graph.ts";
import type { KnobSettings } from "./knobs.ts";
import type { NodeContext } from "./node-class.ts";
import { inputLists, type Outcome, runNode, type Ui, withHidden } from "./node-run.ts";
import { type Origin, type Preview, ProgressState } from "./progress-state.ts";
import type { QueueItem } from "./prompt-queue.ts";
import { Interrupted, PythonError, WorkerDeath } from "./python-error.ts";
import type { Json, JsonObject } from "./python-json.ts";
import type { CachedResult, ResultCache } from "./result-cache.ts";
import type { Sockets } from "./sockets.ts";
import { format, type Value } from "./values.ts";

const OUT_OF_MEMORY =
  "This error means you ran out of memory on your GPU.\n\nTIPS: If the workflow worked before you might have accidentally set the batch_size to a large number.";

/** Progress is told at most so often, unless it is the first or last step or carries a preview. */
const PROGRESS_EVERY_MS = 100;
const PROGRESS_EVERY_PART = 0.005;

export interface ExecutionResult {
  /** What nodes showed, in the order in which they ran. */
  readonly outputs: readonly (readonly [id: string, ui: Ui])[];
  readonly meta: JsonObject;
  readonly status: { readonly status_str: "success" | "error"; readonly completed: boolean; readonly messages: Json[] };
}

export interface Machine {
  readonly behaviour: Behaviour;
  readonly classes: ClassRegistry;
  readonly folders: Folders;
  readonly knobs: KnobSettings;
  readonly sockets: Sockets;
  sleep(ms: number): Promise<void>;
  /** Lets others have a turn, and stands still while the server hangs. */
  breathe(): Promise<void>;
}

/** What outlives a prompt: the cache, the flag, the nodes' objects, and who is told. */
export interface Holder {
  readonly cache: ResultCache;
  readonly client: Json;
  node: string | undefined;
  checkInterrupt(): void;
  objectName(id: string, class_type: string): string;
  keepObjects(graph: QueueItem["graph"]): void;
}

interface Failure {
  readonly id: string;
  readonly error: unknown;
  readonly inputs: JsonObject;
}

/** One prompt from `execution_start` to its last message. */
export class PromptRun {
  readonly #holder: Holder;
  readonly #machine: Machine;
  readonly #item: QueueItem;
  readonly #client: Json;
  readonly #nodes = new Map<string, GraphNode>();
  readonly #origins = new Map<string, Origin>();
  readonly #messages: Json[] = [];
  readonly #results = new Map<string, CachedResult>();
  readonly #pendingAsync = new Map<string, { outcome?: Outcome; error?: unknown }>();
  readonly #expanded = new Map<string, readonly (readonly [node: string, slot: number])[]>();
  readonly #uis = new Map<string, Ui>();
  readonly #executed = new Set<string>();
  readonly #progress: ProgressState;
  readonly #list: ExecutionList;
  #keys: ReadonlyMap<string, string> = new Map();

  constructor(holder: Holder, machine: Machine, item: QueueItem) {
    this.#holder = holder;
    this.#machine = machine;
    this.#item = item;
    this.#client = holder.client;
    for (const [id, node] of Object.entries(item.graph)) this.#nodes.set(id, node);
    const origin = (id: string) => this.#origin(id);
    this.#progress = new ProgressState(machine.sockets, machine.behaviour, item.prompt_id, this.#client, origin);
    this.#list = new ExecutionList({
      node: (id) => this.#node(id),
      isCached: (id) => this.#known(id) !== undefined,
      isOutput: (name) => machine.classes.isOutput(name),
      isAsync: (name) => machine.classes.isAsync(name),
    });
  }

  async run(): Promise<ExecutionResult> {
    const { graph, prompt_id, outputs } = this.#item;
    this.#tell("execution_start", { prompt_id });
    if (Object.values(graph).some(({ inputs }) => inputs === undefined)) throw new WorkerDeath("KeyError: 'inputs'");
    this.#keys = this.#holder.cache.keysOf(graph);
    this.#holder.keepObjects(graph);
    const cached = Object.keys(graph).filter((id) => this.#known(id) !== undefined);
    this.#tell("execution_cached", { nodes: cached, prompt_id });
    for (const id of outputs) this.#list.add(id);
    let failure: Failure | undefined;
    while (!this.#list.isEmpty && failure === undefined) {
      await this.#machine.breathe();
      failure = await this.#step(await this.#list.next());
    }
    if (failure === undefined) this.#tell("execution_success", { prompt_id });
    else this.#tellFailure(failure);
    return this.#result(failure === undefined);
  }

  #result(success: boolean): ExecutionResult {
    const meta: JsonObject = {};
    for (const id of this.#uis.keys()) {
      const { display, parent, real } = this.#origin(id);
      meta[id] = { node_id: id, display_node: display, parent_node: parent, real_node_id: real };
    }
    const status_str = success ? "success" : "error";
    return { outputs: [...this.#uis], meta, status: { status_str, completed: success, messages: this.#messages } };
  }

  #node(id: string): GraphNode {
    const node = this.#nodes.get(id);
    if (node === undefined) throw new PythonError("KeyError", `'${id}'`);
    return node;
  }

  #origin(id: string): Origin {
    return this.#origins.get(id) ?? { display: id, parent: null, real: id };
  }

  #known(id: string): CachedResult | undefined {
    return this.#results.get(id) ?? this.#holder.cache.get(this.#keys.get(id));
  }

  /** To the owner, and into the history; with `broadcast` also to all where there is no owner. */
  #tell(type: string, about: JsonObject, broadcast = false): void {
    const data = { ...about, timestamp: Date.now() };
    this.#messages.push([type, data]);
    if (this.#client !== null || broadcast) this.#machine.sockets.send(type, data, this.#client);
  }

  #toOwner(type: string, data: Json): void {
    if (this.#client !== null) this.#machine.sockets.send(type, data, this.#client);
  }

  async #step(id: string): Promise<Failure | undefined> {
    const cached = this.#known(id);
    if (cached !== undefined) {
      this.#toOwner("executed", this.#executedData(id, cached.ui ?? null));
      if (cached.ui !== undefined) this.#uis.set(id, cached.ui);
      this.#progress.finish(id);
      this.#list.complete(id);
      return undefined;
    }
    const shown: { inputs: JsonObject } = { inputs: {} };
    try {
      const outcome = await this.#outcome(id, shown);
      if (outcome === undefined) return undefined;
      if (outcome.ui !== undefined) {
        this.#uis.set(id, outcome.ui);
        this.#toOwner("executed", this.#executedData(id, outcome.ui));
      }
      if (outcome.expansion !== undefined) {
        this.#expand(id, outcome.expansion);
        return undefined;
      }
      this.#keep(id, { outputs: outcome.outputs, ui: outcome.ui });
    } catch (error) {
      if (error instanceof Interrupted || error instanceof PythonError) return { id, error, inputs: shown.inputs };
      throw error;
    }
    this.#progress.finish(id);
    this.#executed.add(id);
    this.#list.complete(id);
    return undefined;
  }

  /** What the node made; undefined while it has to wait for itself, as an async node does. */
  async #outcome(id: string, shown: { inputs: JsonObject }): Promise<Outcome | undefined> {
    const waiting = this.#pendingAsync.get(id);
    if (waiting !== undefined) {
      this.#pendingAsync.delete(id);
      if (waiting.outcome === undefined) throw waiting.error;
      return waiting.outcome;
    }
    const links = this.#expanded.get(id);
    if (links !== undefined) return { outputs: links.map(([node, slot]) => this.#valuesOf(node, slot)), ui: undefined };
    const node = this.#node(id);
    const { classes } = this.#machine;
    this.#progress.start(id);
    const lists = inputLists(classes, node, (from, slot) => this.#valuesOf(from, slot));
    this.#holder.node = this.#origin(id).display;
    const { display } = this.#origin(id);
    this.#toOwner("executing", { node: id, display_node: display, prompt_id: this.#item.prompt_id });
    const context = this.#context(id, node);
    const all = withHidden(classes, node, lists, context);
    shown.inputs = Object.fromEntries(Object.entries(all).map(([name, values]) => [name, values.map(format)]));
    const running = runNode({
      classes,
      node,
      lists,
      context,
      checkInterrupt: () => this.#holder.checkInterrupt(),
      blocked: (message) => this.#tellBlocked(id, message),
    });
    if (!classes.isAsync(node.class_type)) return running;
    this.#await(id, running);
    return undefined;
  }

  #await(id: string, running: Promise<Outcome>): void {
    const release = this.#list.block(id);
    running.then(
      (outcome) => {
        this.#pendingAsync.set(id, { outcome });
        release();
      },
      (error: unknown) => {
        this.#pendingAsync.set(id, { error });
        release();
      },
    );
  }

  #expand(id: string, { expand, links }: NonNullable<Outcome["expansion"]>): void {
    const full = (node: string) => `${id}.0.0.${node}`;
    const parent = this.#node(id);
    const { display, real } = this.#origin(id);
    for (const [part, { class_type, inputs }] of Object.entries(expand)) {
      const resolved: JsonObject = {};
      for (const [name, value] of Object.entries(inputs)) {
        if (!isLink(value)) resolved[name] = value;
        else resolved[name] = value[0] === "^" ? (parent.inputs[name] ?? null) : [full(value[0]), value[1]];
      }
      this.#nodes.set(full(part), { class_type, inputs: resolved });
      this.#origins.set(full(part), { display, parent: id, real });
    }
    for (const [part, { class_type }] of Object.entries(expand)) {
      if (this.#machine.classes.isOutput(class_type)) this.#list.add(full(part));
    }
    for (const [node, slot] of links) this.#list.link(full(node), slot, id);
    this.#expanded.set(
      id,
      links.map(([node, slot]) => [full(node), slot] as const),
    );
  }

  #keep(id: string, result: CachedResult): void {
    this.#results.set(id, result);
    const key = this.#keys.get(id);
    if (key !== undefined) this.#holder.cache.set(key, result);
  }

  #valuesOf(id: string, slot: number): readonly Value[] {
    return this.#known(id)?.outputs[slot] ?? [null];
  }

  #context(id: string, node: GraphNode): NodeContext {
    const { folders, behaviour } = this.#machine;
    const { extra_pnginfo } = this.#item.extra_data;
    let elapsed_ms = 0;
    let told: { value: number; at_ms: number } | undefined;
    return {
      id,
      folders,
      prompt: this.#item.graph as unknown as JsonObject,
      extra_pnginfo: extra_pnginfo ?? null,
      objectName: this.#holder.objectName(id, node.class_type),
      sleep: async (ms) => {
        await this.#machine.sleep(ms);
        elapsed_ms += ms;
      },
      step: (value: number, max: number, preview?: Preview) => {
        const isDue =
          told === undefined ||
          value >= max ||
          preview !== undefined ||
          !behaviour.throttledProgress ||
          (elapsed_ms - told.at_ms >= PROGRESS_EVERY_MS && (value - told.value) / max >= PROGRESS_EVERY_PART);
        if (!isDue) return;
        told = { value, at_ms: elapsed_ms };
        this.#holder.checkInterrupt();
        this.#progress.step(id, value, max, preview);
      },
    };
  }

  #executedData(id: string, output: Json): Json {
    return { node: id, display_node: this.#origin(id).display, output, prompt_id: this.#item.prompt_id };
  }

  #tellBlocked(id: string, message: string): void {
    this.#toOwner("execution_error", {
      prompt_id: this.#item.prompt_id,
      node_id: id,
      node_type: this.#node(id).class_type,
      executed: [...this.#executed],
      exception_message: `Execution Blocked: ${message}`,
      exception_type: "ExecutionBlocked",
      traceback: [],
      current_inputs: [],
      current_outputs: [],
    });
  }

  /** Of a node inside an expansion, the node of the prompt that it came from is named. */
  #tellFailure({ id, error, inputs }: Failure): void {
    const node_id = this.#origin(id).real;
    const node_type = this.#node(node_id).class_type;
    const about = { prompt_id: this.#item.prompt_id, node_id, node_type, executed: [...this.#executed] };
    if (!(error instanceof PythonError)) {
      this.#tell("execution_interrupted", about, true);
      return;
    }
    const tip = /OutOfMemoryError$/.test(error.type) ? OUT_OF_MEMORY : "";
    this.#tell("execution_error", {
      ...about,
      exception_message: `${error.message}\n${tip}`,
      exception_type: error.type,
      traceback: ['  File "ComfyUI/execution.py", line 545, in execute\n    <source line>\n'],
      current_inputs: inputs,
      current_outputs: [...this.#nodes.keys()],
    });
  }
}
