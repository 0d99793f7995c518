import { REQUEST_ID } from "./headers.ts";
import { answerRef, headerRef, type Operation, type Parameter, type PathItem, schemaRef } from "./operation.ts";
import { refusals } from "./refusals.ts";

/** What needs no API key and counts against no limit. */

const part = (name: string, description: string, schema: Parameter["schema"]): Parameter => ({
  name,
  in: "path",
  required: true,
  description,
  schema,
});

const validators = { ETag: headerRef("ETag"), "Cache-Control": headerRef("CacheControl") };

/** Another method at a public address is answered as if there were nothing. */
const OTHERWISE = { ...refusals(["not_found"], REQUEST_ID), 500: answerRef("PublicInternalError") };

/** Any bytes: their media type is the output's own. */
const BYTES = { "*/*": { schema: {} } };

const output: Operation = {
  operationId: "getOutput",
  summary: "Fetch an output",
  tags: ["Outputs"],
  security: [],
  description: [
    "The bytes of an output. The address itself is the permission: take it as it stands in the job's record, and do not build one. It is good until the job's `expires_at`, or until the job is deleted.",
    "Outputs may be served from a host of their own; the record says which.",
  ].join("\n\n"),
  parameters: [
    part("retention", "How long it is kept.", { type: "string", enum: ["d1", "d7", "d30"] }),
    part("account_id", "Whose it is.", { type: "string" }),
    part("job_id", "The job that made it.", schemaRef("JobId")),
    part("execution", "Which execution of the job.", { type: "integer", minimum: 1 }),
    part("index", "Its place among the job's outputs.", { type: "integer", minimum: 0 }),
    part("filename", "Its name.", { type: "string" }),
    {
      name: "expires",
      in: "query",
      required: true,
      description: "Until when the address is good, as a Unix timestamp in seconds.",
      schema: { type: "integer" },
    },
    {
      name: "signature",
      in: "query",
      required: true,
      description: "The service's signature of this address.",
      schema: { type: "string" },
    },
    {
      name: "Range",
      in: "header",
      description: "A single range of bytes that is wanted, as in `bytes=0-1023`.",
      schema: { type: "string" },
    },
    {
      name: "If-None-Match",
      in: "header",
      description: "The ETag that the client has already.",
      schema: { type: "string" },
    },
  ],
  responses: {
    200: {
      description: "The whole output.",
      headers: { ...REQUEST_ID, ...validators, "Content-Disposition": headerRef("ContentDisposition") },
      content: BYTES,
    },
    206: {
      description: "The range that was asked for.",
      headers: {
        ...REQUEST_ID,
        ...validators,
        "Content-Disposition": headerRef("ContentDisposition"),
        "Content-Range": headerRef("ContentRange"),
      },
      content: BYTES,
    },
    304: { description: "The client has these bytes.", headers: { ...REQUEST_ID, ...validators } },
    ...OTHERWISE,
    412: { description: "A precondition of the request does not hold.", headers: { ...REQUEST_ID, ...validators } },
    416: {
      description: "The range begins behind the end.",
      headers: { ...REQUEST_ID, "Content-Range": headerRef("ContentRange") },
    },
  },
};

const health: Operation = {
  operationId: "getHealth",
  summary: "Ask whether the service answers",
  tags: ["Service"],
  security: [],
  description: "Answers where the edge is alive. Looks at nothing behind it.",
  responses: {
    200: {
      description: "It is alive.",
      headers: REQUEST_ID,
      content: {
        "application/json": {
          schema: { type: "object", required: ["ok"], properties: { ok: { type: "boolean", const: true } } },
          example: { ok: true },
        },
      },
    },
    ...OTHERWISE,
  },
};

const document: Operation = {
  operationId: "getOpenApiDocument",
  summary: "Read this document",
  tags: ["Service"],
  security: [],
  description: "The OpenAPI document that you are looking at.",
  responses: {
    200: {
      description: "The document, OpenAPI 3.1.",
      headers: { ...REQUEST_ID, "Cache-Control": headerRef("CacheControl") },
      content: {
        "application/json": {
          schema: {
            type: "object",
            required: ["openapi", "info", "paths"],
            additionalProperties: true,
            properties: { openapi: { type: "string" }, info: { type: "object" }, paths: { type: "object" } },
          },
        },
      },
    },
    ...OTHERWISE,
  },
};

const page: Operation = {
  operationId: "getDocumentation",
  summary: "Look at this document in a browser",
  tags: ["Service"],
  security: [],
  description:
    "A page that shows the OpenAPI document and tries its operations out. It loads nothing from any other host.",
  responses: {
    200: {
      description: "The page.",
      headers: REQUEST_ID,
      content: { "text/html": { schema: { type: "string" } } },
    },
    ...OTHERWISE,
  },
};

const keys: Operation = {
  operationId: "getSigningKeys",
  summary: "Read the service's public keys",
  tags: ["Service"],
  security: [],
  description: "The keys that runners verify the service's orders with. Clients of the API need them for nothing.",
  responses: {
    200: {
      description: "The keys that are good, Ed25519.",
      headers: { ...REQUEST_ID, "Cache-Control": headerRef("CacheControl") },
      content: {
        "application/json": {
          schema: schemaRef("JwkSet"),
          example: {
            keys: [
              {
                kty: "OKP",
                crv: "Ed25519",
                x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
                kid: "tHc4RBS6Sm_9",
                alg: "EdDSA",
                use: "sig",
              },
            ],
          },
        },
      },
    },
    ...OTHERWISE,
  },
};

export const PUBLIC_PATHS: Readonly<Record<string, PathItem>> = {
  "/outputs/{retention}/{account_id}/{job_id}/{execution}/{index}/{filename}": { get: output },
  "/healthz": { get: health },
  "/openapi.json": { get: document },
  "/docs": { get: page },
  "/.well-known/jwks.json": { get: keys },
};
