import { base64url, createLocalJWKSet, exportJWK, generateKeyPair, SignJWT } from "jose";
import { calculateJwkThumbprint } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import {
  type RequestToSign,
  type RequestToVerify,
  sha256,
  type Signer,
  signRequest,
  verifyRequest,
} from "../../schemas/signed-request.ts";

const NOW = Date.UTC(2026, 0, 15, 12);
const KEY = { crv: "Ed25519", extractable: true } as const;
const BODY = `{"job":1}`;

let edge: Signer;
let runner: Signer & { thumbprint: string };
let keys: ReturnType<typeof createLocalJWKSet>;
let toSign: RequestToSign;
let toVerify: RequestToVerify;

beforeAll(async () => {
  const pair = await generateKeyPair("EdDSA", KEY);
  edge = { privateKey: pair.privateKey, header: { kid: "edge-1" } };
  keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(pair.publicKey)), kid: "edge-1", alg: "EdDSA" }] });
  const own = await generateKeyPair("EdDSA", KEY);
  const jwk = await exportJWK(own.publicKey);
  runner = { privateKey: own.privateKey, header: { jwk: { ...jwk } }, thumbprint: await calculateJwkThumbprint(jwk) };
  const bodySha256 = await sha256(BODY);
  const both = { type: "dispatch+jwt", audience: "https://r.example", method: "POST", bodySha256 } as const;
  toSign = { ...both, url: "https://r.example/v1/executions", jti: "request-0001", now: NOW };
  toVerify = { ...both, url: "https://r.example/v1/executions", now: NOW };
});

const dpop = { type: "dpop+jwt" } as const;
const reasonOf = async (
  token: string,
  request: Partial<RequestToVerify> = {},
  source: typeof keys | "embedded" = keys,
) => {
  const verified = await verifyRequest(token, { ...toVerify, ...request }, source);
  return verified.ok ? "ok" : verified.reason;
};

describe("a signed request", () => {
  test("by a known key is good, and gives its claims", async () => {
    const verified = await verifyRequest(await signRequest(toSign, edge), toVerify, keys);
    expect(verified).toEqual({
      ok: true,
      claims: {
        aud: "https://r.example",
        htm: "POST",
        htu: "https://r.example/v1/executions",
        iat: NOW / 1000,
        exp: NOW / 1000 + 60,
        jti: "request-0001",
        body_sha256: await sha256(BODY),
      },
    });
  });

  test("by an embedded key is good, and says which key it was", async () => {
    const token = await signRequest({ ...toSign, ...dpop, accessToken: "lease" }, runner);
    const verified = await verifyRequest(token, { ...toVerify, ...dpop, accessToken: "lease" }, "embedded");
    expect(verified).toMatchObject({ ok: true, thumbprint: runner.thumbprint });
  });

  test("is verified before its body is read, whose digest it then tells", async () => {
    const { bodySha256: _, ...unread } = toVerify;
    const verified = await verifyRequest(await signRequest(toSign, edge), unread, keys);
    expect(verified.ok && verified.claims.body_sha256).toBe(await sha256(BODY));
  });
});

describe("an alteration is refused with its reason:", () => {
  test.each([
    ["type", { type: "dpop+jwt" }, "typ"],
    ["audience", { audience: "https://other.example" }, "aud"],
    ["method", { method: "PUT" }, "method"],
    ["URL", { url: "https://r.example/v1/stops" }, "url"],
    ["host of the URL", { url: "https://r2.example/v1/executions" }, "url"],
    ["body", { bodySha256: "A".repeat(43) }, "body"],
    ["token that it goes with", { accessToken: "another" }, "token_binding"],
  ] as const)("%s", async (_, request, reason) => {
    expect(await reasonOf(await signRequest({ ...toSign, accessToken: "lease" }, edge), request)).toBe(reason);
  });

  test("a proof that names no token", async () => {
    expect(await reasonOf(await signRequest(toSign, edge), { accessToken: "lease" })).toBe("token_binding");
  });

  test("every bit of every part", async () => {
    const token = await signRequest(toSign, edge);
    const parts = token.split(".").map((part) => base64url.decode(part));
    for (const [p, part] of parts.entries()) {
      for (let i = 0; i < part.length; i += 3) {
        const altered = parts.map((bytes, q) => base64url.encode(q === p ? bytes.with(i, (bytes[i] ?? 0) ^ 1) : bytes));
        expect(await reasonOf(altered.join(".")), `byte ${i} of part ${p}`).not.toBe("ok");
      }
    }
  });

  test.each(["", "x", "a.b", "a.b.c", "a.b.c.d", "..", "{}"])("the text %j is no request", async (text) => {
    expect(await reasonOf(text)).not.toBe("ok");
    expect(await reasonOf(text, {}, "embedded")).not.toBe("ok");
  });
});

describe("times", () => {
  test.each([
    [0, "ok"],
    [-60, "ok"],
    [-61, "iat: is the clock right?"],
    [119, "ok"],
    [121, "expired: is the clock right?"],
    [3_600, "expired: is the clock right?"],
  ])("of a receiver whose clock differs by %i s: %s", async (seconds, reason) => {
    expect(await reasonOf(await signRequest(toSign, edge), { now: NOW + seconds * 1000 })).toBe(reason);
  });

  test("may end earlier than a minute, never later", async () => {
    const soon = await signRequest({ ...toSign, expiresAt: NOW + 5_000 }, edge);
    expect(await reasonOf(soon, { now: NOW + 64_000 })).toBe("ok");
    expect(await reasonOf(soon, { now: NOW + 66_000 })).toBe("expired: is the clock right?");
    const late = await verifyRequest(
      await signRequest({ ...toSign, expiresAt: NOW + 3_600_000 }, edge),
      toVerify,
      keys,
    );
    expect(late.ok && late.claims.exp).toBe(NOW / 1000 + 60);
  });

  test("by the signer's own word do not make an old request good", async () => {
    const token = await forged({ iat: NOW / 1000 - 600, exp: NOW / 1000 + 86_400 });
    expect(await reasonOf(token)).toBe("expired: is the clock right?");
  });
});

/** Signed by the edge's key, with claims of our own. */
async function forged(claims: Record<string, unknown>): Promise<string> {
  const { audience: aud, method: htm, url: htu, jti, bodySha256: body_sha256 } = toSign;
  const usual = { aud, htm, htu, jti, body_sha256, iat: NOW / 1000, exp: NOW / 1000 + 60 };
  return new SignJWT({ ...usual, ...claims })
    .setProtectedHeader({ alg: "EdDSA", typ: "dispatch+jwt", kid: "edge-1" })
    .sign(edge.privateKey);
}

describe("claims", () => {
  test.each(["aud", "exp", "iat", "jti"])("without %s are refused", async (name) => {
    expect(await reasonOf(await forged({ [name]: undefined }))).toMatch(new RegExp(`^${name}`));
  });

  test.each(["htm", "htu", "body_sha256"])("without %s are refused", async (name) => {
    expect(await reasonOf(await forged({ [name]: undefined }))).toBe("claims");
  });

  test("with several audiences, a short jti or a digest of another form are refused", async () => {
    expect(await reasonOf(await forged({ aud: ["https://r.example", "https://x.example"] }))).toBe("claims");
    expect(await reasonOf(await forged({ jti: "short" }))).toBe("claims");
    expect(await reasonOf(await forged({ body_sha256: "00" }))).toBe("claims");
  });
});

describe("keys", () => {
  const unsigned = (header: object, signature = "") =>
    `${base64url.encode(JSON.stringify(header))}.${base64url.encode(JSON.stringify({ aud: "https://r.example" }))}.${signature}`;

  test.each(["none", "HS256", "RS256"])("alg %s is refused", async (alg) => {
    for (const source of [keys, "embedded"] as const) {
      expect(await reasonOf(unsigned({ alg, typ: "dispatch+jwt", kid: "edge-1" }), {}, source)).not.toBe("ok");
    }
  });

  test("of another signer under a known name are refused", async () => {
    const other = await generateKeyPair("EdDSA", KEY);
    const token = await signRequest(toSign, { privateKey: other.privateKey, header: { kid: "edge-1" } });
    expect(await reasonOf(token)).toBe("ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
  });

  test("of an unknown name are refused", async () => {
    const token = await signRequest(toSign, { ...edge, header: { kid: "edge-2" } });
    expect(await reasonOf(token)).toBe("ERR_JWKS_NO_MATCHING_KEY");
  });

  test("that are embedded count nowhere but where they are asked for", async () => {
    expect(await reasonOf(await signRequest(toSign, runner))).not.toBe("ok");
    expect(await reasonOf(await signRequest(toSign, edge), {}, "embedded")).not.toBe("ok");
  });

  test("that do not belong to the signature are refused", async () => {
    const token = await signRequest(toSign, { privateKey: edge.privateKey, header: runner.header });
    expect(await reasonOf(token, {}, "embedded")).toBe("ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
  });

  test("on another curve are refused", async () => {
    const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
    const jwk = await exportJWK(publicKey);
    const token = await new SignJWT({}).setProtectedHeader({ alg: "ES256", typ: "dispatch+jwt", jwk }).sign(privateKey);
    expect(await reasonOf(token, {}, "embedded")).not.toBe("ok");
    const renamed = [
      base64url.encode(JSON.stringify({ alg: "EdDSA", typ: "dispatch+jwt", jwk })),
      ...token.split(".").slice(1),
    ];
    expect(await reasonOf(renamed.join("."), {}, "embedded")).not.toBe("ok");
    const x448 = { kty: "OKP", crv: "Ed448", x: "A".repeat(76) };
    const strange = [
      base64url.encode(JSON.stringify({ alg: "EdDSA", typ: "dispatch+jwt", jwk: x448 })),
      ...token.split(".").slice(1),
    ];
    expect(await reasonOf(strange.join("."), {}, "embedded")).not.toBe("ok");
  });

  test("that are private or broken are refused, and no fault of ours", async () => {
    const secret = await exportJWK(runner.privateKey);
    for (const jwk of [
      { ...secret },
      { kty: "OKP", crv: "Ed25519", x: "AA" },
      { kty: "OKP" },
      {},
      { kty: "oct", k: "AAAA" },
    ]) {
      const token = await signRequest(toSign, { privateKey: runner.privateKey, header: { jwk } });
      expect(await reasonOf(token, {}, "embedded"), JSON.stringify(Object.keys(jwk))).not.toBe("ok");
    }
  });
});
