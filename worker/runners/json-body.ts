import type { Context } from "hono";
import * as v from "valibot";
import { ERROR_STATUS } from "../../schemas/error.ts";
import type { Env } from "../env.ts";
import { readBody } from "../routes/body.ts";
import { isPromised, unauthorised } from "./authorise.ts";

/** A heartbeat may carry 20,000 class and model names each. */
const MAX_RUNNER_BODY_BYTES = 12 * 1024 * 1024;

export type RunnerBody<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly response: Response };

/** Reads a runner's JSON body, holds it to the digest that its proof promised, and to its schema. */
export async function runnerBody<S extends v.GenericSchema>(
  c: Context<{ Bindings: Env }>,
  schema: S,
  bodySha256: string,
): Promise<RunnerBody<v.InferOutput<S>>> {
  const read = await readBody(c.req.raw, MAX_RUNNER_BODY_BYTES);
  if (!read.ok) return { ok: false, response: c.json({ error: read.refusal }, ERROR_STATUS[read.refusal.code]) };
  if (!(await isPromised(read.bytes, bodySha256))) return unauthorised(c, "proof body");
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), new TextDecoder().decode(read.bytes));
  if (parsed.success) return { ok: true, value: parsed.output };
  const [issue] = parsed.issues;
  const field = issue.path?.map(({ key }) => String(key)).join(".") ?? "body";
  const message = `${field}: ${issue.message}`;
  return { ok: false, response: c.json({ error: { code: "invalid_request", message, details: { field } } }, 400) };
}
