import type { Behaviour } from "./behaviour.ts";
import type { ClassRegistry } from "./class-registry.ts";
import type { Folders } from "./folders.ts";
import type { Graph } from "./graph.ts";
import { checkInput, type Reason, traceback, type Validate, type Validated } from "./input-checks.ts";
import { PythonError, Trouble } from "./python-error.ts";
import { isObject, type Json, type JsonObject, str } from "./python-json.ts";

export interface Accepted {
  readonly ok: true;
  readonly graph: Graph;
  readonly outputs: readonly string[];
  readonly node_errors: JsonObject;
}

export interface Refused {
  readonly ok: false;
  readonly error: JsonObject;
  readonly node_errors: JsonObject;
}

export interface Validation {
  readonly behaviour: Behaviour;
  readonly classes: ClassRegistry;
  readonly folders: Folders;
}

/** How deep a chain may be before Python's stack ends. */
const DEEPEST = 970;

const refusal = (type: string, message: string, details: string, extra_info: JsonObject = {}): JsonObject => ({
  type,
  message,
  details,
  extra_info,
});

/** Why the node's class cannot be used, if it cannot. */
function missingClass(id: string, node: JsonObject, { behaviour, classes }: Validation): JsonObject | undefined {
  const class_type = node.class_type;
  const details = `Node ID '#${id}'`;
  if (class_type === undefined) {
    const message = behaviour.missingNodeType
      ? `Node 'ID #${id}' has no class_type. The workflow may be corrupted or a custom node is missing.`
      : "Cannot execute because a node is missing the class_type property.";
    const about = { node_id: id, class_type: null, node_title: null };
    return behaviour.missingNodeType
      ? refusal("missing_node_type", message, details, about)
      : refusal("invalid_prompt", message, details);
  }
  if (classes.find(class_type) !== undefined) return undefined;
  if (!behaviour.missingNodeType) {
    return refusal("invalid_prompt", `Cannot execute because node ${str(class_type)} does not exist.`, details);
  }
  const title = (isObject(node._meta) ? node._meta.title : undefined) ?? class_type;
  const message = `Node '${str(title)}' not found. The custom node may not be installed.`;
  return refusal("missing_node_type", message, details, { node_id: id, class_type, node_title: title });
}

/** `validate_prompt`: what of the prompt may run. Converts values in place, so the prompt is kept as converted. */
export function validatePrompt(
  prompt: Json,
  targets: readonly Json[] | undefined,
  world: Validation,
): Accepted | Refused {
  if (!isObject(prompt)) throw new Trouble("the prompt is no object");
  for (const node of Object.values(prompt)) {
    if (!isObject(node) || ("inputs" in node && !isObject(node.inputs))) throw new Trouble("a node is no object");
  }
  const nodes = prompt as Record<string, JsonObject>;
  const outputs: string[] = [];
  for (const [id, node] of Object.entries(nodes)) {
    const error = missingClass(id, node, world);
    if (error !== undefined) return { ok: false, error, node_errors: {} };
    const isOutput = world.classes.isOutput(String(node.class_type));
    if (isOutput && (targets === undefined || targets.includes(id))) outputs.push(id);
  }
  if (outputs.length === 0) {
    return { ok: false, error: refusal("prompt_no_outputs", "Prompt has no outputs", ""), node_errors: {} };
  }
  return validateOutputs(nodes, outputs, world);
}

function validateOutputs(
  nodes: Record<string, JsonObject>,
  outputs: readonly string[],
  world: Validation,
): Accepted | Refused {
  const validated = new Map<string, Validated>();
  const validate = nodeValidator(nodes, validated, world);
  const good: string[] = [];
  const texts: string[] = [];
  const node_errors: Record<string, { errors: Reason[]; dependent_outputs: string[]; class_type: Json }> = {};
  for (const output of outputs) {
    let result: Validated;
    try {
      result = validate(output, []);
    } catch (error) {
      if (!(error instanceof PythonError)) throw error;
      const extra_info = { exception_type: error.type, traceback };
      const reason = refusal(
        "exception_during_validation",
        "Exception when validating node",
        error.message,
        extra_info,
      );
      result = { valid: false, reasons: [reason] };
      validated.set(output, result);
    }
    if (result.valid) {
      good.push(output);
      continue;
    }
    texts.push(...result.reasons.map(({ message, details }) => `${String(message)}: ${String(details)}`));
    for (const [id, { valid, reasons }] of validated) {
      if (valid || reasons.length === 0) continue;
      node_errors[id] ??= { errors: [...reasons], dependent_outputs: [], class_type: nodes[id]?.class_type ?? null };
      node_errors[id].dependent_outputs.push(output);
    }
  }
  if (good.length > 0) return { ok: true, graph: nodes as unknown as Graph, outputs: good, node_errors };
  const error = refusal("prompt_outputs_failed_validation", "Prompt outputs failed validation", texts.join("\n"));
  return { ok: false, error, node_errors };
}

/** `validate_inputs`: a node with all that leads to it; each node once. */
function nodeValidator(
  nodes: Record<string, JsonObject>,
  validated: Map<string, Validated>,
  { behaviour, classes, folders }: Validation,
): Validate {
  const validate: Validate = (id, path) => {
    const known = validated.get(id);
    if (known !== undefined) return known;
    if (path.includes(id) && behaviour.cycleCheck) return cycle(path.slice(path.indexOf(id)));
    if (path.length > DEEPEST) throw new PythonError("RecursionError", "maximum recursion depth exceeded");
    const node = nodes[id];
    if (node === undefined) throw new PythonError("KeyError", `'${id}'`);
    if (!isObject(node.inputs)) throw new PythonError("KeyError", "'inputs'");
    const class_type = String(node.class_type);
    const reasons: Reason[] = [];
    let valid = true;
    const on = { nodes, validated, classes, folders, validate, path: [...path, id] };
    for (const [name, spec] of Object.entries(classes.inputs(class_type))) {
      const required = classes.info(class_type).input.required ?? {};
      const found = checkInput(on, class_type, node.inputs, name, spec, name in required);
      reasons.push(...found.reasons);
      valid &&= found.valid;
    }
    const inCycle = validated.get(id);
    if (inCycle !== undefined) return inCycle;
    const result = { valid: valid && reasons.length === 0, reasons };
    validated.set(id, result);
    return result;
  };

  function cycle(ids: readonly string[]): Validated {
    const name = (id: string) => `${id} (${String(nodes[id]?.class_type)})`;
    const details = [...ids, ids[0] ?? ""].map(name).join(" -> ");
    for (const id of ids) {
      const about = { node_id: id, cycle_nodes: [...ids] };
      const reason = refusal("dependency_cycle", "Dependency cycle detected", details, about);
      validated.set(id, { valid: false, reasons: [reason] });
    }
    return { valid: false, reasons: [] };
  }

  return validate;
}
