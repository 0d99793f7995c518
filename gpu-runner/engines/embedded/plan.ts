import { isLink, type NodeError, type Prompt, type PromptNode } from "../../../schemas/prompt.ts";
import { type Refusal, refuse } from "../graph.ts";
import { compareNodeIds } from "../node-order.ts";
import { convert, type Value } from "./input-values.ts";
import { CLASS_NAMES, type ClassName, findClass, type NodeClass } from "./node-classes.ts";

/** A node ready to run: its values converted, its links known to fit. */
export interface PlannedNode {
  readonly id: string;
  readonly className: ClassName;
  readonly isOutput: boolean;
  readonly values: ReadonlyMap<string, Value>;
  /** Input name -> the node whose first output it takes. */
  readonly links: ReadonlyMap<string, string>;
}

/** The nodes that an output needs, each after those that it takes from. */
export type Plan = readonly PlannedNode[];

interface KnownNode {
  readonly node: PromptNode;
  readonly className: ClassName;
  readonly nodeClass: NodeClass;
}

function knownNodes(graph: Prompt): ReadonlyMap<string, KnownNode> | Refusal {
  const known = new Map<string, KnownNode>();
  for (const [id, node] of graph) {
    const found = findClass(node.class_type);
    if (!found) {
      const message = `This engine has no node class ${JSON.stringify(node.class_type)}. It has ${CLASS_NAMES.join(", ")}.`;
      return { ok: false, error: { code: "missing_node", message, node_id: id } };
    }
    known.set(id, { node, className: found[0], nodeClass: found[1] });
  }
  return known;
}

/** Depth first from the outputs, so that few pictures are alive at once. Iterative: a long chain must not end the stack. */
function neededInOrder(known: ReadonlyMap<string, KnownNode>): readonly string[] {
  const outputs = [...known].filter(([, { nodeClass }]) => nodeClass.isOutput).map(([id]) => id);
  const seen = new Set<string>();
  const order: string[] = [];
  for (const output of outputs.sort(compareNodeIds)) {
    const stack: { readonly id: string; readonly next: string[] }[] = [];
    const enter = (id: string): void => {
      seen.add(id);
      const links = [...(known.get(id)?.node.inputs.values() ?? [])].filter(isLink);
      stack.push({ id, next: links.map(([from]) => from).reverse() });
    };
    if (!seen.has(output)) enter(output);
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      const from = top.next.pop();
      if (from === undefined) {
        order.push(top.id);
        stack.pop();
      } else if (!seen.has(from)) enter(from);
    }
  }
  return order;
}

function linkError(
  field: string,
  link: unknown,
  input: string,
  known: ReadonlyMap<string, KnownNode>,
): NodeError | undefined {
  if (!isLink(link)) {
    return { field, reason: "bad_linked_input", message: `${field} must be a link [node_id, output_index].` };
  }
  const [from, index] = link;
  const output = known.get(from)?.nodeClass.outputs[index];
  if (output === input) return undefined;
  const where = `output ${index} of node ${JSON.stringify(from)}`;
  return output === undefined
    ? { field, reason: "unknown_output", message: `There is no ${where}.` }
    : { field, reason: "return_type_mismatch", message: `${field} takes ${input}; ${where} is ${output}.` };
}

function planNode(id: string, own: KnownNode, known: ReadonlyMap<string, KnownNode>): PlannedNode | NodeError[] {
  const values = new Map<string, Value>();
  const links = new Map<string, string>();
  const errors: NodeError[] = [];
  for (const [field, input] of own.nodeClass.inputs) {
    const value = own.node.inputs.get(field);
    if (value === undefined) {
      errors.push({ field, reason: "required_input_missing", message: `${field} is required.` });
    } else if (Array.isArray(value)) {
      const error = linkError(field, value, input.kind, known);
      if (error) errors.push(error);
      else if (isLink(value)) links.set(field, value[0]);
    } else {
      const converted = convert(field, value, input);
      if (converted.ok) values.set(field, converted.value);
      else errors.push(converted.error);
    }
  }
  for (const [field, value] of own.node.inputs) {
    if (isLink(value) && !own.nodeClass.inputs.has(field)) {
      errors.push({ field, reason: "unknown_input", message: `${own.className} has no input of this name.` });
    }
  }
  if (errors.length > 0) return errors;
  return { id, className: own.className, isOutput: own.nodeClass.isOutput, values, links };
}

/** Turns a graph into what has to be done, or tells all that is wrong with it. Nodes that no output needs are left out. */
export function planRun(graph: Prompt): { readonly ok: true; readonly plan: Plan } | Refusal {
  const known = knownNodes(graph);
  if ("ok" in known) return known;
  const order = neededInOrder(known);
  if (order.length === 0) return refuse("The prompt has no output node: add a SaveImage or PreviewImage.");
  const plan: PlannedNode[] = [];
  const errors = new Map<string, readonly NodeError[]>();
  for (const id of order) {
    const own = known.get(id);
    if (!own) continue;
    const planned = planNode(id, own, known);
    if (Array.isArray(planned)) errors.set(id, planned);
    else plan.push(planned);
  }
  const [first] = [...errors].sort(([a], [b]) => compareNodeIds(a, b));
  if (!first) return { ok: true, plan };
  const sorted = new Map([...errors].sort(([a], [b]) => compareNodeIds(a, b)));
  return refuse(`Node ${JSON.stringify(first[0])}: ${first[1][0]?.message ?? "it can't be run."}`, sorted);
}
