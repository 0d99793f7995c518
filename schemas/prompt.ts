import { closest } from "fastest-levenshtein";
import { MAX_CLASS_NAME, MAX_NODES } from "./limits.ts";

/**
 * A workflow in ComfyUI's API format: `{node_id: {class_type, inputs, _meta?}}`. Node ids and input names are strangers' words
 * (`__proto__` among them), so a graph is a Map and never an object that is looked up by name.
 */
export interface PromptNode {
  readonly class_type: string;
  readonly inputs: ReadonlyMap<string, unknown>;
}
export type Prompt = ReadonlyMap<string, PromptNode>;

export interface NodeError {
  readonly field?: string;
  readonly reason: string;
  readonly message: string;
}

/** What is wrong with a graph: in one sentence, and by node. */
export interface PromptFault {
  readonly message: string;
  readonly nodeErrors: ReadonlyMap<string, readonly NodeError[]>;
}

export type PromptCheck = { readonly ok: true; readonly prompt: Prompt } | ({ readonly ok: false } & PromptFault);

/** At most this many node errors are listed (contract section 4). */
const MAX_NODE_ERRORS = 100;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A link is a pair of a node id and an output index, as ComfyUI writes it. */
export function isLink(value: unknown): value is [string, number] {
  return Array.isArray(value) && value.length === 2 && typeof value[0] === "string" && typeof value[1] === "number";
}

/** The ids of a cycle, or undefined. Iterative: a chain of 5,000 nodes must not end the stack. */
function cycleOf(prompt: Prompt): string | undefined {
  const state = new Map<string, "open" | "done">();
  for (const root of prompt.keys()) {
    const path: { id: string; next: string[] }[] = [];
    const enter = (id: string): void => {
      state.set(id, "open");
      const links = [...(prompt.get(id)?.inputs.values() ?? [])].filter(isLink).map(([to]) => to);
      path.push({ id, next: links.filter((to) => prompt.has(to)) });
    };
    if (!state.has(root)) enter(root);
    for (let top = path.at(-1); top; top = path.at(-1)) {
      const to = top.next.pop();
      if (to === undefined) {
        state.set(top.id, "done");
        path.pop();
      } else if (state.get(to) === "open") return to;
      else if (!state.has(to)) enter(to);
    }
  }
  return undefined;
}

/**
 * The graph checks that need no engine (contract section 4): the shape of every node, links that lead somewhere, no cycle.
 * @param value the parsed `prompt` member of a submission
 */
export function checkPrompt(value: Record<string, unknown>): PromptCheck {
  const errors = new Map<string, NodeError[]>();
  const refuse = (message: string): PromptCheck => ({ ok: false, message, nodeErrors: errors });
  if (Array.isArray(value.nodes) && Array.isArray(value.links)) {
    return refuse(
      "This is ComfyUI's UI export. Export the workflow in the API format (Workflow > Export (API)) and send that.",
    );
  }
  const entries = Object.entries(value);
  if (entries.length === 0) return refuse("The prompt has no nodes.");
  if (entries.length > MAX_NODES)
    return refuse(`The prompt has ${entries.length} nodes; at most ${MAX_NODES} are allowed.`);

  let listed = 0;
  const blame = (id: string, error: NodeError): void => {
    if (++listed > MAX_NODE_ERRORS) return;
    const list = errors.get(id);
    if (list) list.push(error);
    else errors.set(id, [error]);
  };
  const prompt = new Map<string, PromptNode>();
  for (const [id, node] of entries) {
    if (!isObject(node)) {
      blame(id, { reason: "not_an_object", message: "A node is an object with class_type and inputs." });
      continue;
    }
    const { class_type, inputs } = node;
    if (typeof class_type !== "string" || class_type === "" || class_type.length > MAX_CLASS_NAME) {
      blame(id, {
        field: "class_type",
        reason: "invalid_class_type",
        message: `class_type must be a string of 1 to ${MAX_CLASS_NAME} characters.`,
      });
      continue;
    }
    if (!isObject(inputs)) {
      blame(id, {
        field: "inputs",
        reason: "invalid_inputs",
        message: "inputs must be an object, {} if there are none.",
      });
      continue;
    }
    prompt.set(id, { class_type, inputs: new Map(Object.entries(inputs)) });
  }
  const ids = new Set(entries.map(([id]) => id));
  for (const [id, node] of prompt) {
    for (const [field, input] of node.inputs) {
      if (!isLink(input)) continue;
      const [to, index] = input;
      if (!ids.has(to)) {
        blame(id, {
          field,
          reason: "unknown_node",
          message: `This input is linked to node ${JSON.stringify(to)}, which is not in the prompt.`,
        });
      } else if (!Number.isInteger(index) || index < 0) {
        blame(id, {
          field,
          reason: "invalid_output_index",
          message: "The index of a linked output must be an integer from 0.",
        });
      }
    }
  }
  if (listed === 0) {
    const id = cycleOf(prompt);
    if (id !== undefined) blame(id, { reason: "cycle", message: "This node depends on its own output." });
  }
  if (listed > 0) return refuse(listed === 1 ? "The prompt has an error." : `The prompt has ${listed} errors.`);
  return { ok: true, prompt };
}

/** What a runner must have to execute a graph; all that the fleet needs to know of it. */
export interface PromptNeeds {
  readonly classes: readonly string[];
  readonly models: readonly string[];
}

/** A job's record stays small: what it needs is told to the fleet with every ticket. */
export const MAX_NEEDS_BYTES = 6 * 1024;

/** Whether a graph names more different classes and models than a job's record takes. */
export const needTooMuch = (needs: PromptNeeds): boolean =>
  new TextEncoder().encode(JSON.stringify(needs)).length > MAX_NEEDS_BYTES;

/** Endings of model files as loader nodes name them. */
const MODEL_FILE = /\.(safetensors|sft|ckpt|pt|pth|bin|gguf|onnx)$/i;

/** Whether a text is a model file's name as a loader node's input spells it. A URL is none, whatever it ends in. */
export const isModelFile = (text: string): boolean =>
  text.length <= 255 && MODEL_FILE.test(text) && !text.includes("://");

/** Classes and model files that the graph names, each once, sorted. */
export function promptNeeds(prompt: Prompt): PromptNeeds {
  const classes = new Set<string>();
  const models = new Set<string>();
  for (const node of prompt.values()) {
    classes.add(node.class_type);
    for (const input of node.inputs.values()) {
      if (typeof input === "string" && isModelFile(input)) models.add(input);
    }
  }
  return { classes: [...classes].sort(), models: [...models].sort() };
}

/** So many unknown classes are told with the nearest known name (contract section 4). */
const NAMED_CLASSES = 5;

/** Nodes whose class no runner has; undefined where there is none, or nothing is known. */
export function unknownClasses(prompt: Prompt, catalogue: ReadonlySet<string> | undefined): PromptFault | undefined {
  if (!catalogue) return undefined;
  const nodeErrors = new Map<string, NodeError[]>();
  const nearest = new Map<string, string>();
  const classes = new Set<string>();
  for (const [id, { class_type }] of prompt) {
    if (catalogue.has(class_type)) continue;
    if (nodeErrors.size >= MAX_NODE_ERRORS) break;
    classes.add(class_type);
    if (!nearest.has(class_type) && nearest.size < NAMED_CLASSES)
      nearest.set(class_type, closest(class_type, [...catalogue]));
    const known = nearest.get(class_type);
    const hint = known === undefined ? "" : ` The nearest known class is ${known}.`;
    const message = `No runner of this service has the class ${class_type}.${hint}`;
    nodeErrors.set(id, [{ field: "class_type", reason: "unknown_class", message }]);
  }
  const [first] = classes;
  if (first === undefined) return undefined;
  const others = classes.size > 1 ? ` and ${classes.size - 1} more` : "";
  return { message: `No runner of this service has the class ${first}${others}.`, nodeErrors };
}
