import { checkPrompt, type NodeError, type Prompt } from "../../schemas/prompt.ts";
import type { EngineFailure } from "../engine.ts";
import { NodeErrors } from "./node-errors.ts";

/** A graph that can't be run, for reasons that are told to its author. */
export type Refusal = { readonly ok: false; readonly error: EngineFailure };

/** At most this many nodes are listed, so that a reply to a hostile graph stays small. */
const MAX_LISTED_NODES = 100;

/** `invalid_prompt` with the reasons node by node. Ids are strangers' words: fromEntries never sets a prototype. */
export function refuse(message: string, nodeErrors: ReadonlyMap<string, readonly NodeError[]> = new Map()): Refusal {
  const bounded = new NodeErrors();
  for (const [id, errors] of nodeErrors) for (const error of errors) bounded.add(id, error);
  const listed = [...bounded.byNode].slice(0, MAX_LISTED_NODES);
  const [first] = listed;
  if (!first) return { ok: false, error: { code: "invalid_prompt", message } };
  const details = { node_errors: Object.fromEntries(listed) };
  return { ok: false, error: { code: "invalid_prompt", message, node_id: first[0], details } };
}

/** What becomes of a number that JavaScript would not write as its author did. */
export type NumberKeeper = (source: string, value: number, key: string) => unknown;

/** Whole numbers beyond 2^53 become bigints, so that not a digit is lost. */
const toBigInt: NumberKeeper = (source, value) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value;

function parseExact(text: string, keep: NumberKeeper): unknown {
  return JSON.parse(text, (key, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value !== "number" || context?.source === undefined || String(value) === context.source) return value;
    return keep(context.source, value, key);
  });
}

/** Reads a graph: its shape, links that lead somewhere, no cycle. What the nodes mean is not looked at. */
export function readGraph(
  text: string,
  keep: NumberKeeper = toBigInt,
): { readonly ok: true; readonly graph: Prompt } | Refusal {
  let value: unknown;
  try {
    value = parseExact(text, keep);
  } catch {
    return refuse("The prompt is not JSON, or nested too deeply.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return refuse("The prompt must be an object of nodes by their ids.");
  }
  const check = checkPrompt({ ...value });
  return check.ok ? { ok: true, graph: check.prompt } : refuse(check.message, check.nodeErrors);
}
