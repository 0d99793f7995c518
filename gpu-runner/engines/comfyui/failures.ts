import type { JsonObject } from "../../../schemas/json.ts";
import type { EngineFailure } from "../../engine.ts";
import { refuse } from "../graph.ts";
import { NodeErrors } from "../node-errors.ts";
import { isObject, type Json } from "./json.ts";
import type { InputSchema, ObjectInfo } from "./object-info.ts";
import type { GraphPlan } from "./plan.ts";
import { lastPart, scrub, shorten } from "./scrub.ts";

const MAX_MESSAGE_BYTES = 2048;
const MAX_VALUE_CHARACTERS = 120;
/** The last frames of a traceback that its author sees. */
const MAX_FRAMES = 6;

const clip = (text: string, characters: number): string =>
  text.length <= characters ? text : `${text.slice(0, characters).toWellFormed()}…`;

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

/** A graph's own value, as it stood in the submission. */
function writtenValue(plan: GraphPlan, id: string, field: string | undefined): string | undefined {
  const value = field === undefined ? undefined : plan.nodes.get(id)?.inputs.get(field);
  if (value === undefined) return undefined;
  return clip(JSON.stringify(value), MAX_VALUE_CHARACTERS);
}

/** What is wrong with one input, in words made here: ComfyUI's own list the folders of its machine. */
function explain(
  reason: string,
  field: string | undefined,
  value: string | undefined,
  schema: InputSchema | undefined,
) {
  const input = field === undefined ? "an input" : `the input ${clip(field, MAX_VALUE_CHARACTERS)}`;
  const given = value === undefined ? "" : ` ${value}`;
  switch (reason) {
    case "required_input_missing":
      return `The node lacks ${input}.`;
    case "value_not_in_list":
      return `No value${given} is known for ${input} here.`;
    case "value_smaller_than_min":
      return `The value${given} of ${input} is too small${schema?.min === undefined ? "" : `: at least ${schema.min}`}.`;
    case "value_bigger_than_max":
      return `The value${given} of ${input} is too large${schema?.max === undefined ? "" : `: at most ${schema.max}`}.`;
    case "invalid_input_type":
      return `The value${given} of ${input} has the wrong type.`;
    case "return_type_mismatch":
      return `The output that ${input} is linked to has another type than it takes.`;
    case "bad_linked_input":
      return `The value${given} of ${input} is no link to another node.`;
    case "custom_validation_failed":
      return `The node does not accept the value${given} of ${input}.`;
    case "dependency_cycle":
      return "This node depends on its own output.";
    default:
      return "This node can't be validated: look at its links and at the outputs that they name.";
  }
}

/** ComfyUI's refusal of a graph, in words that hold nothing of its machine. */
export function validationFailure(body: Json, plan: GraphPlan, info: ObjectInfo): EngineFailure {
  const listed = new NodeErrors();
  let first: { readonly id: string; readonly message: string } | undefined;
  const reasons = new Set<string>();
  const nodes = isObject(body.node_errors) ? body.node_errors : {};
  for (const [id, entry] of Object.entries(nodes)) {
    const node = plan.nodes.get(id);
    const errors = isObject(entry) && Array.isArray(entry.errors) ? entry.errors.filter(isObject) : [];
    if (!node) continue;
    for (const error of errors) {
      const reason = /^[a-z_]{1,60}$/.test(textOf(error.type)) ? textOf(error.type) : "invalid";
      reasons.add(reason);
      const named = isObject(error.extra_info) ? textOf(error.extra_info.input_name) : "";
      const schemas = info.get(node.class_type)?.inputs;
      const field = node.inputs.has(named) || schemas?.has(named) ? named : undefined;
      const schema = field === undefined ? undefined : schemas?.get(field);
      const message = explain(reason, field, writtenValue(plan, id, field), schema);
      first ??= { id, message };
      listed.add(id, { ...(field === undefined ? {} : { field }), reason, message });
    }
  }
  if (!first) {
    const type = isObject(body.error) ? textOf(body.error.type) : "";
    const reason = /^[a-z_]{1,60}$/.test(type) ? ` (${type})` : "";
    return refuse(`The engine does not accept this workflow${reason}.`).error;
  }
  const { id, message } = first;
  const class_type = plan.nodes.get(id)?.class_type ?? "";
  const { error: failure } = refuse(`Node ${id} (${class_type}): ${message}`, listed.byNode);
  const missing = [...reasons].every((reason) => reason === "value_not_in_list");
  return { ...failure, code: missing ? "missing_model" : "invalid_prompt" };
}

const OUT_OF_MEMORY_TYPE = /(?:^|\.)(?:OutOfMemoryError|MemoryError)$/;
/** What torch raises where it has no class of its own; other exceptions may have a graph's own words. */
const OUT_OF_MEMORY_CARRIER = /(?:^|\.)(?:RuntimeError|AcceleratorError)$/;
const OUT_OF_MEMORY_WORDS = /ran out of memory on your GPU|can't allocate memory|CUDA out of memory|HIP out of memory/i;

/** `file:line function` of the innermost frames; a file is named without its folders. */
function framesOf(traceback: unknown): readonly string[] {
  const lines = Array.isArray(traceback) ? traceback : [];
  return lines
    .flatMap((line: unknown) => {
      const match = /File "([^"]*)", line (\d+)(?:, in ([\w<>.]+))?/.exec(textOf(line));
      const file = match?.[1]?.split(/[\\/]/).at(-1);
      return match && file ? [`${file}:${match[2]}${match[3] ? ` ${match[3]}` : ""}`.slice(0, 200)] : [];
    })
    .slice(-MAX_FRAMES);
}

/**
 * A node's exception (the data of `execution_error`) for the author of the graph.
 * @param known what the run's own names stand for
 */
export function executionFailure(
  data: Json,
  plan: GraphPlan,
  known: ReadonlyMap<string, string>,
): EngineFailure & { readonly code: "execution_failed" | "out_of_memory" } {
  // The module of a custom pack is named after its whole path.
  const type = clip(lastPart(textOf(data.exception_type)), 200);
  const words = textOf(data.exception_message);
  const isMemory =
    OUT_OF_MEMORY_TYPE.test(type) || (OUT_OF_MEMORY_CARRIER.test(type) && OUT_OF_MEMORY_WORDS.test(words));
  const reported = textOf(data.node_id);
  const node_id = plan.nodes.has(reported) ? reported : reported.split(".")[0];
  const node = node_id === undefined ? undefined : plan.nodes.get(node_id);
  const node_class = node?.class_type ?? clip(textOf(data.node_type), 200);
  const said = scrub(words, known).trim() || type || "it gave no reason";
  const where = node ? `Node ${node_id} (${node_class})` : "A node";
  const details: JsonObject = {
    ...(node_class === "" ? {} : { node_class }),
    ...(type === "" ? {} : { exception_type: type }),
    frames: framesOf(data.traceback),
  };
  return {
    code: isMemory ? "out_of_memory" : "execution_failed",
    message: shorten(isMemory ? `${where} ran out of memory: ${said}` : `${where} failed: ${said}`, MAX_MESSAGE_BYTES),
    ...(node ? { node_id } : {}),
    details,
  };
}

/** The whole of it, for the operator's log, a line each. Customers' words are in it. */
export function logLinesOf(data: Json): readonly string[] {
  const traceback = Array.isArray(data.traceback) ? data.traceback.map(textOf) : [];
  return [
    `${textOf(data.exception_type)}: ${textOf(data.exception_message).trim()} (node ${textOf(data.node_id)}, ${textOf(data.node_type)})`,
    // Place and source line of each frame, without the marks that Python draws below.
    ...traceback.map((frame) => frame.trim().split(/\n\s*/).slice(0, 2).join(" | ")),
    `current_inputs ${JSON.stringify(data.current_inputs ?? {})}`,
    `current_outputs ${JSON.stringify(data.current_outputs ?? [])}`,
  ];
}
