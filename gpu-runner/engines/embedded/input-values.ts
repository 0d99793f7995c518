import type { NodeError } from "../../../schemas/prompt.ts";
import type { InputKind } from "./node-classes.ts";

/** An input's value after conversion. */
export type Value = string | number;

type Converted = { readonly ok: true; readonly value: Value } | { readonly ok: false; readonly error: NodeError };

const INTEGER_TEXT = /^\s*[+-]?\d+(_\d+)*\s*$/;
const FLOAT_TEXT = /^\s*[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)(e[+-]?\d+(_\d+)*)?\s*$/i;
/** Of a received value no more than this is repeated in a message. */
const SHOWN_CHARACTERS = 80;

function show(value: unknown): string {
  const text = typeof value === "bigint" ? String(value) : (JSON.stringify(value, bigintAsText) ?? String(value));
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}...` : text;
}

const bigintAsText = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);

/** Python's int(): digits in a string pass, the fraction of a float is cut off. */
function toInteger(value: unknown): number | bigint | undefined {
  if (typeof value === "bigint") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number" && Number.isFinite(value)) return Math.trunc(value);
  if (typeof value === "string" && INTEGER_TEXT.test(value)) return Number(value.replaceAll("_", ""));
  return undefined;
}

/** Python's float(), finite numbers only. */
function toFloat(value: unknown): number | undefined {
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value === "string" && FLOAT_TEXT.test(value)) return Number(value.replaceAll("_", ""));
  return undefined;
}

/** Python's str() of a JSON scalar. */
function toText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  return value === null ? "None" : undefined;
}

/** Converts a value as ComfyUI does, and holds it against the bounds that the input declares. */
export function convert(field: string, value: unknown, input: InputKind): Converted {
  const refuse = (reason: string, message: string): Converted => ({ ok: false, error: { field, reason, message } });
  switch (input.kind) {
    case "IMAGE":
      return refuse("link_required", `${field} takes an image: a link [node_id, output_index], not a value.`);
    case "INT":
    case "FLOAT": {
      const number = input.kind === "INT" ? toInteger(value) : toFloat(value);
      const noun = input.kind === "INT" ? "a whole number" : "a number";
      if (number === undefined) return refuse("invalid_input_type", `${field} must be ${noun}; it is ${show(value)}.`);
      if (number < input.min) {
        return refuse("value_smaller_than_min", `${field} must be at least ${input.min}; it is ${show(value)}.`);
      }
      if (number > input.max) {
        return refuse("value_bigger_than_max", `${field} must be at most ${input.max}; it is ${show(value)}.`);
      }
      return { ok: true, value: Number(number) };
    }
    case "COMBO": {
      if (typeof value === "string" && input.options.includes(value)) return { ok: true, value };
      const options = input.options.join(", ");
      return refuse("value_not_in_list", `${field} must be one of ${options}; it is ${show(value)}.`);
    }
    case "STRING":
    case "INPUT_FILE": {
      const text = toText(value);
      if (text === undefined) return refuse("invalid_input_type", `${field} must be a string; it is ${show(value)}.`);
      return { ok: true, value: text };
    }
  }
}
