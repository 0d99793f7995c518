import type { Folders } from "./folders.ts";
import type { GraphNode } from "./graph.ts";
import type { ObjectInfo } from "./object-info.ts";
import type { Preview } from "./progress-state.ts";
import type { Json, JsonObject } from "./python-json.ts";
import type { Value } from "./values.ts";

export interface NodeContext {
  readonly id: string;
  readonly folders: Folders;
  /** The hidden inputs that some classes ask for. */
  readonly prompt: JsonObject;
  readonly extra_pnginfo: Json;
  /** Of the node's object: the same from prompt to prompt while the node stays in them. */
  readonly objectName: string;
  sleep(ms: number): Promise<void>;
  /** A step of a progress bar; throws Interrupted where the flag is looked at and set. */
  step(value: number, max: number, preview?: Preview): void;
}

export interface NodeResult {
  /** One value a slot; of a slot that is a list, a list of values. */
  readonly outputs?: readonly (Value | readonly Value[])[];
  readonly ui?: Readonly<Record<string, Json[]>>;
  /** Nodes to run in this one's place, by the last part of their id; `links` then say whose outputs are this node's. */
  readonly expand?: Readonly<Record<string, GraphNode>>;
  readonly links?: readonly (readonly [node: string, slot: number])[];
}

export type Values = Readonly<Record<string, Value>>;

export interface NodeClass {
  /** As `/object_info` gives it now: lists of files are read anew. */
  info(folders: Folders): ObjectInfo;
  readonly isAsync?: boolean;
  /** The method that runs the node, as error messages name it. */
  readonly method?: string;
  /** Inputs that the class checks by itself, in place of the general checks: what is wrong with the value, if anything. */
  readonly checks?: Readonly<Record<string, (value: Json, folders: Folders) => string | undefined>>;
  /** What beside class and inputs decides whether a cached result is good. */
  fingerprint?(inputs: JsonObject, folders: Folders): string;
  run(inputs: Values, context: NodeContext): NodeResult | Promise<NodeResult>;
}
