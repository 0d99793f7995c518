import * as v from "valibot";
import type { Refusal } from "../../schemas/error.ts";
import { SubmissionOptions } from "../../schemas/job.ts";
import type { JsonObject } from "../../schemas/json.ts";
import { scanJson } from "../../schemas/json-scan.ts";
import { MAX_BODY_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES } from "../../schemas/limits.ts";
import {
  checkPrompt,
  MAX_NEEDS_BYTES,
  needTooMuch,
  type PromptFault,
  type PromptNeeds,
  promptNeeds,
  unknownClasses,
} from "../../schemas/prompt.ts";
import { checkTarget, type TargetRules } from "../../schemas/targets.ts";
import { readBody } from "./body.ts";

/** A submission that the edge has nothing against. */
export interface JudgedSubmission {
  /** The prompt's own text: numbers beyond 2^53 survive. */
  readonly prompt: Uint8Array;
  readonly needs: PromptNeeds;
  readonly options: SubmissionOptions;
  readonly webhook_url?: string;
}

export type Verdict =
  | { readonly ok: true; readonly submission: JudgedSubmission; readonly body: Uint8Array }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** The body, where its idempotency is to be judged before this refusal (contract section 4, precedence). */
      readonly body?: Uint8Array;
    };

const refuse = (code: Refusal["code"], message: string, details?: JsonObject): Verdict => ({
  ok: false,
  refusal: { code, message, ...(details === undefined ? {} : { details }) },
});

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function parseJson(bytes: Uint8Array): { readonly value: unknown } | undefined {
  try {
    return { value: JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)) };
  } catch {
    return undefined;
  }
}

const badGraph = ({ message, nodeErrors }: PromptFault, body: Uint8Array): Verdict => ({
  ...refuse("invalid_prompt", message, { node_errors: Object.fromEntries(nodeErrors) }),
  body,
});

const OPTION_NAMES = ["metadata", "timeout_s", "queue_timeout_s", "priority"] as const;

/** `null` in an optional field means absent; unknown fields are ignored (contract section 2). */
function optionsIn(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    OPTION_NAMES.map((name) => [name, body[name]]).filter(([, value]) => value !== null && value !== undefined),
  );
}

/**
 * Judges the body of `POST /v1/jobs` in the order of contract section 4: size, content type, JSON, shape, webhook URL, graph. The
 * scan comes before the parser: a body of a million empty objects never becomes them.
 * @param catalogue every class that some runner has; undefined while that is unknown, and classes are not looked at
 */
export async function judgeSubmission(
  request: Request,
  targets: TargetRules,
  catalogue: ReadonlySet<string> | undefined,
): Promise<Verdict> {
  const read = await readBody(request, MAX_BODY_BYTES);
  if (!read.ok) return read;
  const { bytes } = read;
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity")
    return refuse("unsupported_media_type", "Compressed bodies are not supported.");
  const type = request.headers.get("content-type") ?? "";
  if (bytes.length === 0 && type === "")
    return refuse("invalid_json", "The body is empty; send a JSON object with a prompt.");
  if (!/^application\/json\s*(;|$)/i.test(type))
    return refuse("unsupported_media_type", "Send the body as Content-Type: application/json.");

  const scan = scanJson(bytes, { maxValues: MAX_JSON_VALUES, maxDepth: MAX_JSON_DEPTH }, "prompt");
  if (!scan.ok) {
    return scan.reason === "too_deep"
      ? refuse("invalid_request", `The body is nested deeper than ${MAX_JSON_DEPTH} levels.`)
      : refuse("invalid_request", `The body has more than ${MAX_JSON_VALUES} JSON values.`);
  }
  const parsed = parseJson(bytes);
  if (!parsed) return refuse("invalid_json", "The body is not valid JSON in UTF-8.");
  const body = parsed.value;
  if (!isObject(body)) return refuse("invalid_request", "The body must be a JSON object.");
  const { prompt } = body;
  if (!isObject(prompt) || !scan.span) {
    return refuse("invalid_request", "prompt is required and must be an object: a workflow in ComfyUI's API format.", {
      field: "prompt",
    });
  }
  const options = v.safeParse(SubmissionOptions, optionsIn(body), { abortEarly: true });
  if (!options.success) {
    const [issue] = options.issues;
    const field = String(issue.path?.[0]?.key ?? "");
    return refuse("invalid_request", `${field}: ${issue.message}`, { field });
  }
  const { webhook_url } = body;
  if (webhook_url !== undefined && webhook_url !== null) {
    if (typeof webhook_url !== "string")
      return refuse("invalid_request", "webhook_url must be a string.", { field: "webhook_url" });
    const target = checkTarget(webhook_url, targets);
    if (!target.ok) {
      const refusal = refuse("invalid_webhook_url", `webhook_url is refused: ${target.rule}.`, {
        field: "webhook_url",
      });
      return { ...refusal, body: bytes };
    }
  }
  const graph = checkPrompt(prompt);
  if (!graph.ok) return badGraph(graph, bytes);
  const unknown = unknownClasses(graph.prompt, catalogue);
  if (unknown) return badGraph(unknown, bytes);
  const needs = promptNeeds(graph.prompt);
  if (needTooMuch(needs)) {
    const message = `The prompt names too many different classes and model files: more than ${MAX_NEEDS_BYTES} bytes of names.`;
    return badGraph({ message, nodeErrors: new Map() }, bytes);
  }
  return {
    ok: true,
    body: bytes,
    submission: {
      prompt: bytes.subarray(...scan.span),
      needs,
      options: options.output,
      ...(typeof webhook_url === "string" ? { webhook_url } : {}),
    },
  };
}
