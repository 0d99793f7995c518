import { type ConversionConfig, toJsonSchema, toJsonSchemaDefs } from "@valibot/to-json-schema";
import type * as v from "valibot";
import { ErrorEnvelope } from "../error.ts";
import { JobId } from "../ids.ts";
import {
  JobError,
  JobErrorCode,
  JobList,
  JobRecord,
  JobStatus,
  OutputFile,
  OutputKind,
  Outputs,
  Progress,
  SubmissionOptions,
  Timing,
  WebhookState,
} from "../job.ts";
import { JsonObject } from "../json.ts";
import { KeyLimits, MAX_CLASS_NAME, MAX_METADATA_BYTES, MAX_NODES, Tier } from "../limits.ts";
import {
  CancelledNotification,
  CompletedNotification,
  DeliveryAttempt,
  FailedNotification,
  JobEvent,
  JobEventList,
  WebhookDelivery,
} from "../webhook.ts";
import { type Schema, schemaRef } from "./operation.ts";

/** The named schemas of the document: those that validate, in the words of JSON Schema. */

/** Schemas with a name of their own in the document; others stand where they are used. */
export const NAMED = {
  JobId,
  JobStatus,
  JobErrorCode,
  JobError,
  OutputKind,
  OutputFile,
  Outputs,
  Progress,
  Timing,
  WebhookState,
  JobRecord,
  JobList,
  Tier,
  KeyLimits,
  ErrorEnvelope,
  CompletedNotification,
  FailedNotification,
  CancelledNotification,
  DeliveryAttempt,
  WebhookDelivery,
  JobEvent,
  JobEventList,
};

const DESCRIPTIONS: Readonly<Partial<Record<keyof typeof NAMED, string>>> = {
  JobId: "A job's name: a UUID of version 7, lower case.",
  JobStatus: [
    "- `queued`: accepted; it waits for a slot or for a runner. A job whose runner was lost is queued again.",
    "- `running`: a runner has it.",
    "- `completed`, `failed`, `cancelled`: ended; never changes again.",
  ].join("\n"),
  JobErrorCode: [
    "| code | when |",
    "| --- | --- |",
    "| `execution_failed` | a node failed; `node_id` names it |",
    "| `invalid_prompt` | the engine refused the workflow; `node_id` names the first node to blame |",
    "| `missing_node`, `missing_model` | no runner has a class or a model that the workflow needs |",
    "| `input_download_failed` | an input could not be fetched: unreachable, too large or forbidden |",
    "| `out_of_memory` | a GPU's or a host's memory was too small, on a second runner too where there was one |",
    "| `timeout` | the engine took longer than `timeout_s` |",
    "| `queue_timeout` | no attempt started within `queue_timeout_s` |",
    "| `stalled` | the engine showed no life for 120 s, twice |",
    "| `runner_lost` | the runner was lost in 3 attempts |",
    "| `engine_crashed` | the engine's process went away in 3 attempts |",
    "| `no_outputs` | the workflow ended with nothing to show |",
    "| `output_upload_failed` | the outputs could not be stored |",
    "| `outputs_too_large` | more than 256 files or 2 GiB |",
    "| `internal_error` | anything else |",
  ].join("\n"),
  JobError: "Why a job failed.",
  OutputKind: "What a file is, by its media type.",
  OutputFile: "One output of a job.",
  Outputs: "What a completed job has produced.",
  Progress: "How far a running job is, as its runner last said.",
  Timing: "Where an ended job's time went.",
  WebhookState: "How the job's notification stands.",
  JobRecord: "A job. A field that does not apply is absent, never null.",
  JobList: "A page of the account's jobs.",
  Tier: "What the account pays for; it decides the limits.",
  KeyLimits: "The limits of the calling key, and how much of them is in use.",
  ErrorEnvelope: "The body of every refusal. Branch on `error.code`; the message is for people and may change.",
  CompletedNotification: "The notification of a completed job.",
  FailedNotification: "The notification of a failed job.",
  CancelledNotification: "The notification of a cancelled job.",
  DeliveryAttempt: "One attempt to deliver a job's webhook.",
  WebhookDelivery: "How the delivery of a job's webhook stands, and every attempt of it.",
  JobEvent: "The end of a job.",
  JobEventList: "A page of the account's events.",
};

const CONFIG = {
  target: "draft-2020-12",
  // A size in bytes has no word in JSON Schema; the description says it.
  ignoreActions: ["check"],
  overrideSchema: ({ valibotSchema }) =>
    valibotSchema.type === JsonObject.type ? { type: "object", additionalProperties: true } : undefined,
} satisfies ConversionConfig;

const DRAFT = "$schema";

const inJsonSchema = (schema: v.GenericSchema, typeMode: "input" | "output"): Schema => {
  const { [DRAFT]: _, ...rest } = toJsonSchema(schema, { ...CONFIG, typeMode });
  return rest;
};

/** A `null` in an optional field means absent (contract section 2). */
const orNull = (schema: Schema): Schema =>
  typeof schema.type === "string" ? { ...schema, type: [schema.type, "null"] } : schema;

const options = inJsonSchema(SubmissionOptions, "input").properties as Record<string, Schema>;

const Submission: Schema = {
  type: "object",
  description: "A job to be done. Unknown fields are ignored; `null` in an optional field means absent.",
  required: ["prompt"],
  properties: {
    prompt: schemaRef("Prompt"),
    webhook_url: {
      type: ["string", "null"],
      format: "uri",
      maxLength: 2048,
      description:
        "Where to send the notification when the job ends. `https:` only, port 443 or above 1023, without user information, at a publicly reachable host; localhost and private addresses are refused.",
    },
    ...Object.fromEntries(Object.entries(options).map(([name, schema]) => [name, orNull(schema)])),
    metadata: {
      type: ["object", "null"],
      additionalProperties: true,
      description: `The caller's own words, returned with the job: an object of at most ${MAX_METADATA_BYTES} bytes as JSON.`,
    },
  },
};

const Prompt: Schema = {
  type: "object",
  description: `A workflow as ComfyUI exports it in its API format: nodes by id, at most ${MAX_NODES}.`,
  minProperties: 1,
  maxProperties: MAX_NODES,
  additionalProperties: schemaRef("PromptNode"),
};

const PromptNode: Schema = {
  type: "object",
  description: "One node of a workflow.",
  required: ["class_type", "inputs"],
  properties: {
    class_type: {
      type: "string",
      minLength: 1,
      maxLength: MAX_CLASS_NAME,
      description: "The node's class; some runner of the service must have it.",
    },
    inputs: {
      type: "object",
      additionalProperties: true,
      description: "Values by input name, or links to another node's output: `[node_id, index]`. No cycles.",
    },
    _meta: { type: "object", additionalProperties: true, description: "The editor's own; ignored." },
  },
};

const JwkSet: Schema = {
  type: "object",
  description: "Public keys as a JWK set (RFC 7517).",
  required: ["keys"],
  properties: {
    keys: {
      type: "array",
      items: {
        type: "object",
        required: ["kty", "crv", "x", "kid", "alg", "use"],
        properties: {
          kty: { type: "string", const: "OKP" },
          crv: { type: "string", const: "Ed25519" },
          x: { type: "string", description: "The public key, base64url." },
          kid: { type: "string", description: "The key's name." },
          alg: { type: "string", const: "EdDSA" },
          use: { type: "string", const: "sig" },
        },
      },
    },
  },
};

/** `components.schemas`. */
export function namedSchemas(): Record<string, Schema> {
  const converted = toJsonSchemaDefs(NAMED, {
    ...CONFIG,
    typeMode: "output",
    overrideRef: ({ referenceId }) => schemaRef(referenceId).$ref,
  });
  const described = Object.entries(converted).map(([name, schema]): [string, Schema] => {
    const description = DESCRIPTIONS[name as keyof typeof NAMED];
    return [name, description === undefined ? { ...schema } : { ...schema, description }];
  });
  return { ...Object.fromEntries(described), Submission, Prompt, PromptNode, JwkSet };
}
