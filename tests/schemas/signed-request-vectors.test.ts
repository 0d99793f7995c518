import { createPublicKey, verify } from "node:crypto";
import { describe, expect, test } from "vitest";
import { good, publicJwk, refusal, refused, signed, tokens, verdict } from "./signed-request-vectors.ts";

describe("a vector of a good request", () => {
  test.each(good)("is signed as exactly these bytes: $name", async (vector) => {
    expect(await signed(vector)).toBe(vector.token);
  });

  test.each(good)("is taken by its receiver: $name", async ({ token, request }) => {
    expect(await verdict(token, request)).toBe("ok");
  });
});

test.each([...good, ...tokens])("node:crypto alone finds the signature good: $name", ({ token, signer }) => {
  const [header = "", payload = "", signature = ""] = token.split(".");
  const key = createPublicKey({ key: { ...publicJwk(signer) }, format: "jwk" });
  const input = Buffer.from(`${header}.${payload}`);
  expect(verify(null, input, key, Buffer.from(signature, "base64url"))).toBe(true);
  expect(verify(null, Buffer.concat([input, Buffer.from("x")]), key, Buffer.from(signature, "base64url"))).toBe(false);
});

test("node:crypto alone reads what a good request says", () => {
  const [header, payload] = (good[0]?.token ?? "").split(".").map((part) => Buffer.from(part, "base64url").toString());
  expect(JSON.parse(header ?? "")).toEqual({ alg: "EdDSA", typ: "dispatch+jwt", kid: "edge-2026" });
  expect(JSON.parse(payload ?? "")).toMatchObject({
    aud: "https://gpu1.example.net",
    htm: "POST",
    htu: "https://gpu1.example.net/v1/executions",
    iat: Date.UTC(2026, 0, 15, 12) / 1000,
    exp: Date.UTC(2026, 0, 15, 12, 1) / 1000,
  });
});

test.each(refused)("a request that must not pass is refused, $name: $reason", async (vector) => {
  expect(await refusal(vector)).toBe(vector.reason);
});
