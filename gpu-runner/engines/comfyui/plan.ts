import { MAX_OUTPUT_FILES } from "../../../schemas/limits.ts";
import { isLink, type Prompt, type PromptNode } from "../../../schemas/prompt.ts";
import { type Refusal, readGraph, refuse } from "../graph.ts";
import { NodeErrors } from "../node-errors.ts";
import { LONGEST_CHAIN, longestChain, neededBy } from "./chains.ts";
import { guardOf, uploadWithoutMark } from "./file-inputs.ts";
import { shapeProblem, unwrapped } from "./input-shape.ts";
import { type ClassSchema, isCoreModule, type ObjectInfo, type UploadKind } from "./object-info.ts";

/** A file that a node wants, as its author named it. */
export interface WantedFile {
  readonly node_id: string;
  readonly field: string;
  readonly url: string;
  readonly kind: UploadKind;
}

/** A graph that may run here, before it has the names of one run. */
export interface GraphPlan {
  /** The nodes that some output needs, and no other. */
  readonly nodes: Prompt;
  readonly outputs: ReadonlySet<string>;
  readonly files: readonly WantedFile[];
}

/**
 * Classes that a runner executes as another one. SaveImageWebsocket hands its pictures to the socket alone, where a lost
 * connection loses them; SaveImage makes the same picture as a file.
 */
export const SUBSTITUTES: ReadonlyMap<string, string> = new Map([["SaveImageWebsocket", "SaveImage"]]);

/** Numbers keep their author's spelling: `64.0` is no integer to a node that looks, and a seed has up to 20 digits. */
declare global {
  interface JSON {
    rawJSON(text: string): object;
    isRawJSON(value: unknown): boolean;
  }
}

/** The second place of a link holds a plain number, so that `["4", 0.0]` is known as one. */
const exactNumber = (source: string, value: number, key: string): unknown =>
  key === "1" && Number.isSafeInteger(value) ? value : JSON.rawJSON(source);

/** What an output's description takes (schemas/job.ts). */
const MAX_NODE_ID = 200;

const named = (text: string): string => JSON.stringify(text.slice(0, 200));

/** Names that ComfyUI reads in a folder other than its own one. */
const ELSEWHERE = /\[(?:input|output|temp)\]\s*$|^[/\\~]|^[a-z]:[/\\]|(?:^|[/\\])\.\.(?:[/\\]|$)/i;

/** `missing_node` for the classes that can't run here: not installed, or closed by the operator. */
function classRefusal(graph: Prompt, info: ObjectInfo, open: ReadonlySet<string>): Refusal | undefined {
  const errors = new NodeErrors();
  let first: { id: string; words: string } | undefined;
  for (const [id, { class_type }] of graph) {
    if (open.has(class_type)) continue;
    const words = info.has(class_type)
      ? `This runner does not execute the class ${named(class_type)}.`
      : `This runner has no class ${named(class_type)}.`;
    first ??= { id, words };
    errors.add(id, { field: "class_type", reason: "missing_node_type", message: words });
  }
  if (!first) return undefined;
  const { error } = refuse(first.words, errors.byNode);
  return { ok: false, error: { ...error, code: "missing_node", node_id: first.id } };
}

function fileProblem(value: unknown): string | undefined {
  const give = "Give the https: URL of the file.";
  if (isLink(value)) return `A file input takes no link to another node. ${give}`;
  if (typeof value !== "string") return `A file input takes a URL. ${give}`;
  if (/^https?:\/\//i.test(value)) return undefined;
  return `${named(value)} is no URL: file names of this service's machines can't be given. ${give}`;
}

/** Words that some classes take in place of a file, and mean none. */
const NO_FILE: ReadonlyMap<string, string> = new Map([
  ["Painter\0mask", ""],
  ["Load3DAdvanced\0model_file", "none"],
]);

/**
 * Inputs that a class does not have: a constant is passed over by the server, a link is handed to the node's function. Packs may
 * take any; inputs that a core class makes as they are needed are named after the one that it has, with a dot.
 */
const isStrange = (schema: ClassSchema, field: string): boolean =>
  isCoreModule(schema.module) && !schema.inputs.has(field) && !schema.inputs.get(field.split(".")[0] ?? "")?.dynamic;

/** Why an input may not have its value, beyond what the server checks; undefined where it may. */
function guardProblem(class_type: string, field: string, value: unknown): string | undefined {
  const guard = guardOf(class_type, field);
  if (!guard) return undefined;
  if (isLink(value)) return "This input takes no link to another node: give its value.";
  const { longest } = guard;
  // The server makes a text of whatever is not one.
  const written = typeof value === "string" ? value : JSON.stringify(value);
  if (longest === undefined || written.length <= longest) return undefined;
  return `This input has at most ${longest} characters.`;
}

/** Some choices take several of their list. */
const choicesIn = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : [value]).filter((one) => typeof one === "string");

function inspectNode(id: string, node: PromptNode, info: ObjectInfo, errors: NodeErrors, files: WantedFile[]): void {
  const { class_type } = node;
  const schema = info.get(class_type);
  if (!schema) return;
  for (const [field, given] of node.inputs) {
    const value = unwrapped(given);
    const input = schema.inputs.get(field);
    const kind = input?.upload ?? uploadWithoutMark(class_type, field);
    const guarded = guardProblem(class_type, field, value);
    if (kind !== undefined) {
      if (NO_FILE.get(`${class_type}\0${field}`) === value) continue;
      const message = fileProblem(value);
      if (message !== undefined) errors.add(id, { field, reason: "not_a_url", message });
      else files.push({ node_id: id, field, url: String(value), kind });
    } else if (guarded !== undefined) {
      errors.add(id, { field, reason: "invalid_value", message: guarded });
    } else if (isLink(value) && isStrange(schema, field)) {
      const message = `The class ${named(class_type)} has no input ${named(field)}.`;
      errors.add(id, { field, reason: "unknown_input", message });
    } else if (input?.options) {
      const strange = choicesIn(value).find((choice) => ELSEWHERE.test(choice));
      if (strange === undefined) continue;
      const message = `${named(strange)} reaches outside the folder of this input.`;
      errors.add(id, { field, reason: "value_not_in_list", message });
    }
  }
}

/**
 * Reads a graph and decides whether it may run on this server. Refuses what is no graph, unknown and closed classes, graphs
 * without an output node, and file inputs that are no URL. Nodes that no output needs are left out: ComfyUI does not execute
 * them, but one of them can end its worker.
 * @param open the classes that may run
 * @param options ownFiles: the graph is the operator's and may name files of the server
 */
export function planGraph(
  text: string,
  info: ObjectInfo,
  open: ReadonlySet<string>,
  { ownFiles = false }: { readonly ownFiles?: boolean } = {},
): { readonly ok: true; readonly plan: GraphPlan } | Refusal {
  const read = readGraph(text, exactNumber);
  if (!read.ok) return read;
  const graph = new Map(
    [...read.graph].map(([id, node]): [string, PromptNode] => {
      const class_type = SUBSTITUTES.get(node.class_type);
      if (class_type === undefined || !info.has(class_type)) return [id, node];
      return [id, { class_type, inputs: new Map([["filename_prefix", "ComfyUI"], ...node.inputs]) }];
    }),
  );
  const closed = classRefusal(graph, info, open);
  if (closed) return closed;
  const outputs = new Set([...graph].filter(([, node]) => info.get(node.class_type)?.output).map(([id]) => id));
  if (outputs.size === 0) {
    return refuse(
      "The workflow has no output node: end it with a node such as SaveImage that saves or shows a result.",
    );
  }
  // Each message of progress repeats all nodes that have begun: thousands of outputs would take the server minutes.
  if (outputs.size > MAX_OUTPUT_FILES)
    return refuse(`The workflow has ${outputs.size} output nodes; a job has at most ${MAX_OUTPUT_FILES} files.`);
  const needed = neededBy(outputs, graph);
  if (longestChain(needed, graph) > LONGEST_CHAIN)
    return refuse(`The workflow has a chain of more than ${LONGEST_CHAIN} nodes.`);
  const nodes = new Map([...graph].filter(([id]) => needed.has(id)));
  const errors = new NodeErrors();
  const files: WantedFile[] = [];
  for (const [id, node] of nodes) {
    if (id.length > MAX_NODE_ID) return refuse(`The id of a node has at most ${MAX_NODE_ID} characters.`);
    for (const [field, value] of node.inputs) {
      const problem = shapeProblem(value);
      if (problem) errors.add(id, { field, ...problem });
    }
    if (!ownFiles) inspectNode(id, node, info, errors, files);
  }
  if (errors.first) return refuse(errors.first.message, errors.byNode);
  return { ok: true, plan: { nodes, outputs, files } };
}
