import { LIMITS } from "./examples.ts";
import { V1_HEADERS } from "./headers.ts";
import { EVERYWHERE } from "./jobs.ts";
import { type PathItem, schemaRef } from "./operation.ts";
import { refusals } from "./refusals.ts";

export const LIMIT_PATHS: Readonly<Record<string, PathItem>> = {
  "/v1/limits": {
    get: {
      operationId: "getLimits",
      summary: "Read the limits of this key",
      tags: ["Limits"],
      description: "What the calling key may use, and how much of it is in use. Reading counts as a request.",
      responses: {
        200: {
          description: "The key's limits.",
          headers: V1_HEADERS,
          content: { "application/json": { schema: schemaRef("KeyLimits"), example: LIMITS } },
        },
        ...EVERYWHERE,
        ...refusals(["wrong_method_for_limits"]),
      },
    },
  },
};
