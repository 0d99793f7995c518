import { MAX_JSON_DEPTH } from "../../../schemas/limits.ts";
import { isLink } from "../../../schemas/prompt.ts";

/** What a server's Python makes of the values in a graph, where that differs from what they look like here. */

/**
 * What ComfyUI takes for a link besides `isLink`: to Python `true` is a number, and so is one that is kept as its text. A link
 * that nobody has looked at may lead nowhere, and ends the server's worker.
 */
const isOddLink = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.length === 2 &&
  typeof value[0] === "string" &&
  (typeof value[1] === "boolean" || JSON.isRawJSON(value[1]));

/** ComfyUI takes a constant out of such a wrapper, and may then take it for a link. */
const WRAPPER = "__value__";

const isWrapped = (value: unknown): value is { readonly [WRAPPER]: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, WRAPPER);

/** The value that the server will look at. */
export const unwrapped = (value: unknown): unknown => (isWrapped(value) ? value[WRAPPER] : value);

/** Python reads no integer of more than 4,300 digits, and answers a graph with one as if it were broken itself. */
const LONGEST_NUMBER = 400;

/** Why the server could not even read a constant. */
function unreadable(constant: unknown): string | undefined {
  const open = [{ value: constant, depth: 1 }];
  for (let one = open.pop(); one; one = open.pop()) {
    const { value, depth } = one;
    if (typeof value !== "object" || value === null) continue;
    if (JSON.isRawJSON(value)) {
      if (JSON.stringify(value).length > LONGEST_NUMBER) return `A number has at most ${LONGEST_NUMBER} characters.`;
      continue;
    }
    if (depth > MAX_JSON_DEPTH) return "This input is nested too deeply.";
    for (const inner of Object.values(value)) open.push({ value: inner, depth: depth + 1 });
  }
  return undefined;
}

/** What is wrong with the shape of an input, whatever its class. */
export function shapeProblem(value: unknown): { readonly reason: string; readonly message: string } | undefined {
  if (isOddLink(value))
    return { reason: "invalid_output_index", message: "The index of a linked output must be an integer from 0." };
  if (isWrapped(value) && (isLink(value[WRAPPER]) || isOddLink(value[WRAPPER])))
    return { reason: "bad_linked_input", message: "A link to another node can't be wrapped in an object." };
  const message = unreadable(value);
  return message === undefined ? undefined : { reason: "invalid_value", message };
}
