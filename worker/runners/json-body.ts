import type { Context } from "hono";
import * as v from "valibot";
import { ERROR_STATUS } from "../../schemas/error.ts";
import type { Env } from "../env.ts";
import { readBody } from "../routes/body.ts";
import { isPromised, unauthorised } from "./authorise.ts";

/**
 * How much of a body is read, by what it is. A heartbeat may carry a description (DESCRIPTION_LIMITS) and lists 1,024 executions at
 * most, an end report names 256 outputs.
 * Anybody can sign an enrolment with a key of his own: there the bound stands between strangers and this isolate's memory.
 */
export const MAX_BODY_BYTES = {
  enrolment: 16 * 1024,
  heartbeat: 4 * 1024 * 1024,
  progress: 64 * 1024,
  end: 1024 * 1024,
} as const;

export type RunnerBody<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly response: Response };

/** Reads a runner's JSON body, holds it to the digest that its proof promised, and to its schema. */
export async function runnerBody<S extends v.GenericSchema>(
  c: Context<{ Bindings: Env }>,
  schema: S,
  bodySha256: string,
  maxBytes: number,
): Promise<RunnerBody<v.InferOutput<S>>> {
  const read = await readBody(c.req.raw, maxBytes);
  if (!read.ok) return { ok: false, response: c.json({ error: read.refusal }, ERROR_STATUS[read.refusal.code]) };
  if (!(await isPromised(read.bytes, bodySha256))) return unauthorised(c, "proof body");
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), new TextDecoder().decode(read.bytes));
  if (parsed.success) return { ok: true, value: parsed.output };
  const [issue] = parsed.issues;
  const field = issue.path?.map(({ key }) => String(key)).join(".") ?? "body";
  const message = `${field}: ${issue.message}`;
  return { ok: false, response: c.json({ error: { code: "invalid_request", message, details: { field } } }, 400) };
}
