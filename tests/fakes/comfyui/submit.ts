import { randomUUID } from "node:crypto";
import type { Behaviour } from "./behaviour.ts";
import type { QueueItem } from "./prompt-queue.ts";
import { PythonError, Trouble } from "./python-error.ts";
import { isObject, type Json, type JsonObject, str } from "./python-json.ts";
import type { Accepted, Refused } from "./validation.ts";

export interface Submission {
  readonly behaviour: Behaviour;
  /** The number that the next prompt gets; counts up. */
  nextNumber(): number;
  validate(prompt: Json, targets: readonly Json[] | undefined): Accepted | Refused;
  put(item: QueueItem): void;
}

export type Submitted = { readonly status: 200 | 400; readonly body: JsonObject };

const SECRETS = ["auth_token_comfy_org", "api_key_comfy_org"];
const CANONICAL_UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

function refused(type: string, message: string, details: string): Submitted {
  return { status: 400, body: { error: { type, message, details, extra_info: {} }, node_errors: {} } };
}

function numberOf(body: JsonObject, on: Submission): number {
  if (body.number === undefined) {
    const number = on.nextNumber();
    return body.front === true ? -number : number;
  }
  const number = typeof body.number === "object" ? Number.NaN : Number(body.number);
  if (Number.isNaN(number) || body.number === "") throw new Trouble(`could not convert ${str(body.number)} to float`);
  return number;
}

function idOf(body: JsonObject, { promptIds }: Behaviour): string | undefined {
  if (promptIds === "ignored") return randomUUID();
  if (promptIds === "any") return body.prompt_id === undefined ? randomUUID() : str(body.prompt_id);
  if (body.prompt_id === undefined || body.prompt_id === null) return randomUUID();
  return typeof body.prompt_id === "string" && CANONICAL_UUID.test(body.prompt_id) ? body.prompt_id : undefined;
}

/** `POST /prompt`, from the parsed body on. Throws a Trouble for what ComfyUI does not expect. */
export function submit(body: Json, on: Submission): Submitted {
  const nothing = refused("no_prompt", "No prompt provided", "No prompt provided");
  if (body === null || typeof body === "number" || typeof body === "boolean") throw new Trouble("not iterable");
  if (!isObject(body)) {
    on.nextNumber();
    return nothing;
  }
  const number = numberOf(body, on);
  if (body.prompt === undefined) return nothing;
  const prompt_id = idOf(body, on.behaviour);
  if (prompt_id === undefined) {
    return refused(
      "invalid_prompt_id",
      "prompt_id must be a valid UUID",
      "prompt_id must be a UUID string in canonical lowercase hyphenated form; omit it to let the server generate one",
    );
  }
  const { partial_execution_targets: targets } = body;
  const chosen = on.behaviour.partialTargets && Array.isArray(targets) ? targets : undefined;
  const validation = on.validate(body.prompt, chosen);
  const given = body.extra_data === undefined ? {} : body.extra_data;
  if (!isObject(given)) throw new Trouble("extra_data is no object");
  if (!validation.ok) return { status: 400, body: { error: validation.error, node_errors: validation.node_errors } };
  const { graph, outputs, node_errors } = validation;
  on.put({ number, prompt_id, graph, outputs, extra_data: extraData(given, body, on.behaviour) });
  return { status: 200, body: { prompt_id, number, node_errors } };
}

function extraData(given: JsonObject, body: JsonObject, { createTime }: Behaviour): JsonObject {
  const extra = { ...given, ...(body.client_id === undefined ? {} : { client_id: body.client_id }) };
  if (!createTime) return extra;
  const open = Object.entries(extra).filter(([key]) => !SECRETS.includes(key));
  return { ...Object.fromEntries(open), create_time: Date.now() };
}

/** What `POST /interrupt` names: a prompt, or undefined for whatever runs. */
export function interruptTarget(body: Json | undefined): string | undefined {
  const named = body === undefined ? {} : body;
  if (!isObject(named)) throw new PythonError("AttributeError", "object has no attribute 'get'");
  const { prompt_id } = named;
  return prompt_id === undefined || prompt_id === null || prompt_id === "" ? undefined : str(prompt_id);
}
