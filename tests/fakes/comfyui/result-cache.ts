import { createHash } from "node:crypto";
import type { ClassRegistry } from "./class-registry.ts";
import type { Folders } from "./folders.ts";
import { type Graph, isLink } from "./graph.ts";
import type { KnobSettings } from "./knobs.ts";
import type { Ui } from "./node-run.ts";
import { dumps, type Json } from "./python-json.ts";
import type { Value } from "./values.ts";

export interface CachedResult {
  /** Of each slot, the values that it holds. */
  readonly outputs: readonly (readonly Value[])[];
  readonly ui: Ui | undefined;
}

/** Results of earlier prompts by what they were made from: class, inputs, ancestors; the id of a node plays no part. */
export class ResultCache {
  readonly #results = new Map<string, CachedResult>();
  readonly #classes: ClassRegistry;
  readonly #folders: Folders;
  readonly #knobs: KnobSettings;

  constructor(classes: ClassRegistry, folders: Folders, knobs: KnobSettings) {
    this.#classes = classes;
    this.#folders = folders;
    this.#knobs = knobs;
  }

  /** The keys of a prompt's nodes; results that none of them asks for go, as under memory pressure. */
  keysOf(graph: Graph): ReadonlyMap<string, string> {
    const keys = new Map(Object.keys(graph).map((id) => [id, this.#key(graph, id)]));
    const wanted = new Set(keys.values());
    for (const key of this.#results.keys()) {
      if (this.#knobs.cacheKeeps !== "everything" && !wanted.has(key)) this.#results.delete(key);
    }
    return keys;
  }

  get(key: string | undefined): CachedResult | undefined {
    return key === undefined || this.#knobs.cacheKeeps === "nothing" ? undefined : this.#results.get(key);
  }

  set(key: string, result: CachedResult): void {
    this.#results.set(key, result);
  }

  clear(): void {
    this.#results.clear();
  }

  #key(graph: Graph, id: string): string {
    const order = new Map<string, number>();
    const signatures: Json[] = [];
    const visit = (node: string): number => {
      const known = order.get(node);
      if (known !== undefined) return known;
      const place = order.size;
      order.set(node, place);
      signatures[place] = this.#signature(graph, node, visit);
      return place;
    };
    visit(id);
    return createHash("sha256").update(dumps(signatures)).digest("hex");
  }

  #signature(graph: Graph, id: string, visit: (id: string) => number): Json {
    const node = graph[id];
    // As NaN, which is equal to nothing.
    if (node === undefined) return `missing ${Math.random()}`;
    const inputs = Object.keys(node.inputs)
      .sort()
      .map((name): Json => {
        const value = node.inputs[name] ?? null;
        return [name, isLink(value) ? ["ANCESTOR", visit(value[0]), value[1]] : value];
      });
    return [node.class_type, this.#fingerprint(node), inputs];
  }

  #fingerprint({ class_type, inputs }: Graph[string] & object): string {
    try {
      return this.#classes.get(class_type).fingerprint?.(inputs, this.#folders) ?? "";
    } catch {
      return `unknown ${Math.random()}`;
    }
  }
}
