import type { ClassRegistry } from "./class-registry.ts";
import type { Folders } from "./folders.ts";
import type { InputSpec } from "./object-info.ts";
import { PythonError } from "./python-error.ts";
import { isObject, type Json, type JsonObject, repr, str } from "./python-json.ts";

export type Reason = JsonObject;

export interface Validated {
  readonly valid: boolean;
  readonly reasons: readonly Reason[];
}

export type Validate = (id: string, path: readonly string[]) => Validated;

export interface Checking {
  readonly nodes: Readonly<Record<string, JsonObject>>;
  readonly validated: Map<string, Validated>;
  readonly classes: ClassRegistry;
  readonly folders: Folders;
  readonly validate: Validate;
  /** The nodes from the output down to the one whose input is checked. */
  readonly path: readonly string[];
}

/** Options beyond this number are not sent back. */
const MOST_OPTIONS_SHOWN = 20;

export const traceback: Json = ['  File "ComfyUI/execution.py", line 933, in validate_inputs\n    <source line>\n'];

const FINE: Validated = { valid: true, reasons: [] };

const bad = (type: string, message: string, details: string, extra_info: JsonObject): Validated => ({
  valid: false,
  reasons: [{ type, message, details, extra_info }],
});

/** Checks one input of a node, and what it links to. */
export function checkInput(
  on: Checking,
  class_type: string,
  inputs: JsonObject,
  name: string,
  spec: InputSpec,
  required: boolean,
): Validated {
  const value = inputs[name];
  if (value === undefined) {
    if (!required) return FINE;
    return bad("required_input_missing", "Required input is missing", name, { input_name: name });
  }
  const config: Json = [typeof spec[0] === "string" ? spec[0] : [...spec[0]], spec[1] ?? {}];
  if (Array.isArray(value)) return checkLink(on, value, name, spec, config);
  return checkValue(on, class_type, inputs, value, name, spec, config);
}

function checkLink(on: Checking, link: Json[], name: string, [type]: InputSpec, config: Json): Validated {
  const [from = null, slot = null] = link;
  const about = { input_name: name, input_config: config };
  if (link.length !== 2) {
    const message = "Bad linked input, must be a length-2 list of [node_id, slot_index]";
    return bad("bad_linked_input", message, name, { ...about, received_value: link });
  }
  const node = typeof from === "string" ? on.nodes[from] : undefined;
  if (typeof from !== "string" || node === undefined) throw new PythonError("KeyError", repr(from));
  const received = returnType(on.classes, String(node.class_type), slot);
  if (!fits(received, type)) {
    const expected = typeof type === "string" ? type : repr([...type]);
    const details = `${name}, received_type(${received}) mismatch input_type(${expected})`;
    const message = "Return type mismatch between linked nodes";
    return bad("return_type_mismatch", message, details, { ...about, received_type: received, linked_node: link });
  }
  try {
    return { valid: on.validate(from, on.path).valid, reasons: [] };
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    const { message, type: exception_type } = error;
    const told = { ...about, exception_message: message, exception_type, traceback, linked_node: link };
    const inner = bad("exception_during_inner_validation", "Exception when validating inner node", message, told);
    on.validated.set(from, inner);
    return { valid: false, reasons: [] };
  }
}

function returnType(classes: ClassRegistry, class_type: string, slot: Json): string {
  const info = classes.info(class_type);
  // Newer nodes declare their outputs as a list, classic ones as a tuple.
  const container = "output_matchtypes" in info ? "list" : "tuple";
  if (typeof slot !== "number" || !Number.isInteger(slot)) {
    throw new PythonError("TypeError", `${container} indices must be integers or slices, not ${typeName(slot)}`);
  }
  const type = info.output.at(slot);
  if (type === undefined) throw new PythonError("IndexError", `${container} index out of range`);
  return type;
}

function typeName(value: Json): string {
  if (value === null) return "NoneType";
  if (typeof value === "number") return "float";
  if (typeof value === "string") return "str";
  return Array.isArray(value) ? "list" : "dict";
}

function fits(received: string, type: InputSpec[0]): boolean {
  if (type === "*" || received === "*" || received === type) return true;
  const allowed = typeof type === "string" ? type.split(",") : [];
  return received.split(",").every((one) => allowed.includes(one));
}

function checkValue(
  on: Checking,
  class_type: string,
  inputs: JsonObject,
  given: Json,
  name: string,
  [type, options = {}]: InputSpec,
  config: Json,
): Validated {
  let value = given;
  if (isObject(value) && value.__value__ !== undefined) value = value.__value__;
  const about = { input_name: name, input_config: config, received_value: value };
  try {
    value = converted(value, type);
    inputs[name] = value;
  } catch (error) {
    if (!(error instanceof PythonError)) throw error;
    const message = `Failed to convert an input value to a ${String(type)} value`;
    const details = `${name}, ${str(value)}, ${error.message}`;
    return bad("invalid_input_type", message, details, { ...about, exception_message: error.message });
  }
  const told = { ...about, received_value: value };
  const own = on.classes.get(class_type).checks?.[name];
  if (own !== undefined) {
    const wrong = own(value, on.folders);
    if (wrong === undefined) return FINE;
    const message = "Custom validation failed for node";
    return bad("custom_validation_failed", message, `${name} - ${wrong}`, { input_name: name });
  }
  if (typeof value === "number" && typeof options.min === "number" && value < options.min) {
    const message = `Value ${value} smaller than min of ${options.min}`;
    return bad("value_smaller_than_min", message, name, told);
  }
  if (typeof value === "number" && typeof options.max === "number" && value > options.max) {
    return bad("value_bigger_than_max", `Value ${value} bigger than max of ${options.max}`, name, told);
  }
  const choices = typeof type === "string" ? (type === "COMBO" ? options.options : undefined) : type;
  if (!Array.isArray(choices) || choices.includes(value)) return FINE;
  const isLong = choices.length > MOST_OPTIONS_SHOWN;
  const list = isLong ? `(list of length ${choices.length})` : repr([...choices] as Json[]);
  return bad("value_not_in_list", "Value not in list", `${name}: '${str(value)}' not in ${list}`, {
    ...told,
    input_config: isLong ? null : config,
  });
}

/** The value as the node gets it. Throws what Python's `int` and `float` throw. */
function converted(value: Json, type: InputSpec[0]): Json {
  if (type === "INT") return toInt(value);
  if (type === "FLOAT") return toFloat(value);
  if (type === "STRING") return str(value);
  if (type === "BOOLEAN") return isTrue(value);
  return value;
}

function toInt(value: Json): number {
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "number") {
    if (Number.isNaN(value)) throw new PythonError("ValueError", "cannot convert float NaN to integer");
    if (!Number.isFinite(value)) throw new PythonError("OverflowError", "cannot convert float infinity to integer");
    return Math.trunc(value);
  }
  if (typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value)) return Number(value);
  if (typeof value === "string") {
    throw new PythonError("ValueError", `invalid literal for int() with base 10: '${value}'`);
  }
  const text = `int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`;
  throw new PythonError("TypeError", text);
}

function toFloat(value: Json): number {
  if (typeof value === "boolean" || typeof value === "number") return Number(value);
  if (typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value))) return Number(value);
  if (typeof value === "string") throw new PythonError("ValueError", `could not convert string to float: '${value}'`);
  throw new PythonError("TypeError", `float() argument must be a string or a real number, not '${typeName(value)}'`);
}

function isTrue(value: Json): boolean {
  if (isObject(value)) return Object.keys(value).length > 0;
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}
