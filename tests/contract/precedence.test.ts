import { expect, it } from "vitest";
import type { ErrorCode } from "../../schemas/error.ts";
import { api, call, HELLO, newAccount, operator, submitted } from "../worker/service.ts";
import { refused } from "./account.ts";

/**
 * Of two faults the earlier one wins (contract section 4): authentication, rate limit, path and method, size, content type,
 * JSON, shape, idempotency, webhook URL, graph, queue depth.
 */

type Faults = Partial<Record<"key" | "type" | "idempotency" | "length", string>> & { body?: unknown };

/** In order; each fault alone is answered with its code. */
const FAULTS: readonly (readonly [ErrorCode, Faults])[] = [
  ["payload_too_large", { length: String(11 * 1024 * 1024) }],
  ["unsupported_media_type", { type: "text/plain" }],
  ["invalid_json", { body: "{" }],
  ["invalid_request", { body: { prompt: HELLO, priority: 99 } }],
  ["idempotency_key_reused", { idempotency: "claimed" }],
  ["invalid_webhook_url", { body: { prompt: HELLO, webhook_url: "http://example.org/" } }],
  ["invalid_prompt", { body: { prompt: {} } }],
  ["queue_full", {}],
];

const CLAIM = JSON.stringify({ prompt: HELLO, metadata: { claim: true } });

function post(key: string, { type = "application/json", idempotency, length, body }: Faults): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body ?? { prompt: HELLO });
  return call("/v1/jobs", {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": type,
      ...(idempotency === undefined ? {} : { "idempotency-key": idempotency }),
      ...(length === undefined ? {} : { "content-length": length }),
    },
    body: text,
  });
}

/** A key whose queue is full and whose account knows the Idempotency-Key `claimed`. */
async function fullAccount() {
  const account = await newAccount("free");
  const claim = { method: "POST", headers: { "content-type": "application/json", "idempotency-key": "claimed" } };
  await api(account.api_key, "/v1/jobs", { ...claim, body: CLAIM });
  await Promise.all(Array.from({ length: 6 }, () => submitted(account.api_key)));
  return account;
}

it("answers each fault alone, and of each pair the earlier one", async () => {
  const { api_key } = await fullAccount();
  for (const [i, [code, fault]] of FAULTS.entries()) {
    await refused(await post(api_key, fault), code);
    for (const [, later] of FAULTS.slice(i + 1)) {
      // Two faults of the body can't be joined; those pairs are below.
      if (fault.body !== undefined && later.body !== undefined) continue;
      await refused(await post(api_key, { ...later, ...fault }), code);
    }
  }
});

it("judges the parts of one body in their order", async () => {
  const { api_key } = await fullAccount();
  const webhook_url = "http://example.org/";
  const bodies: [ErrorCode, string][] = [
    ["invalid_json", '{"prompt":7,"priority":99,}'],
    ["invalid_json", '{"prompt":{},"webhook_url":"http://example.org/"'],
    ["invalid_request", JSON.stringify({ prompt: {}, priority: 99, webhook_url })],
    ["invalid_request", JSON.stringify({ webhook_url })],
    ["invalid_webhook_url", JSON.stringify({ prompt: {}, webhook_url })],
  ];
  for (const [code, body] of bodies) await refused(await post(api_key, { body }), code);
});

it("looks at an Idempotency-Key's form with the shape, before it looks for it", async () => {
  const { api_key } = await fullAccount();
  await refused(await post(api_key, { idempotency: "two words", body: "{" }), "invalid_json");
  const graph = await refused(
    await post(api_key, { idempotency: "two words", body: { prompt: {} } }),
    "invalid_request",
  );
  expect(graph.details).toEqual({ field: "Idempotency-Key" });
});

it("authenticates and counts before it looks at path, method and body", async () => {
  const { api_key, account_id } = await newAccount("free");
  const requests: [path: string, init: RequestInit][] = [
    ["/v1/nope", {}],
    ["/v1/jobs", { method: "PUT", body: "x" }],
    ["/v1/jobs", { method: "POST", body: "{" }],
    ["/v1/jobs/nope?wait=x", {}],
    ["/v1/jobs?limit=0", {}],
  ];
  const all = async (code: ErrorCode, headers: Record<string, string>): Promise<void> => {
    for (const [path, init] of requests) await refused(await call(path, { ...init, headers }), code);
  };
  const authorization = `Bearer ${api_key}`;
  await all("missing_auth", { "cf-connecting-ip": "198.51.100.1" });
  await all("invalid_auth_format", { authorization: api_key, "cf-connecting-ip": "198.51.100.2" });
  await all("invalid_api_key", { authorization: `Bearer ${api_key}x`, "cf-connecting-ip": "198.51.100.3" });
  await operator(`/accounts/${account_id}/suspend`, {});
  await all("account_suspended", { authorization });
  await operator(`/accounts/${account_id}/resume`, {});
  for (let n = 0; n < 60; n++) await api(api_key, "/v1/limits");
  await all("rate_limit_exceeded", { authorization });
  await operator(`/accounts/${account_id}/keys/revoke`, { key: api_key.slice(0, 12) });
});

it("looks for path and method before it looks at the body", async () => {
  const { api_key } = await newAccount("free");
  const body = { method: "POST", body: "{", headers: { "content-type": "text/plain" } };
  await refused(await api(api_key, "/v1/nope", body), "not_found");
  await refused(await api(api_key, "/v1/limits", body), "method_not_allowed");
  await refused(await api(api_key, "/v1/jobs", { ...body, method: "PUT" }), "method_not_allowed");
});
