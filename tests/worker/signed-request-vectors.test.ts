import { describe, expect, it } from "vitest";
import { edgeKeys } from "../../worker/runners/edge-keys.ts";
import { signCredential, signLease, verifyCredential, verifyLease } from "../../worker/runners/tokens.ts";
import {
  good,
  type KeyName,
  privateJwk,
  publicJwk,
  refusal,
  refused,
  signed,
  tokens,
  verdict,
} from "../schemas/signed-request-vectors.ts";

/** The vectors in the edge's own runtime, whose cryptography is not Node's. */

const BASE = "https://darkroom.example.com";

const keysOf = (name: KeyName, retired = "") =>
  edgeKeys({ EDGE_SIGNING_KEY: JSON.stringify(privateJwk(name)), EDGE_RETIRED_KEYS: retired });
const rotated = () => keysOf("edge", JSON.stringify({ keys: [publicJwk("retired_edge")] }));

it.each(good)("signs and takes $name as exactly these bytes", async (vector) => {
  expect(await signed(vector)).toBe(vector.token);
  expect(await verdict(vector.token, vector.request)).toBe("ok");
});

it.each(refused)("refuses $name: $reason", async (vector) => {
  expect(await refusal(vector)).toBe(vector.reason);
});

describe("the tokens of a runner", () => {
  it.each(tokens)(
    "are signed as exactly these bytes: $name",
    async ({ kind, signer, claims, now, expires_at, token }) => {
      const keys = await keysOf(signer);
      const made =
        kind === "credential"
          ? await signCredential(claims as Parameters<typeof signCredential>[0], keys, BASE, now)
          : await signLease(claims as Parameters<typeof signLease>[0], keys, BASE, now, expires_at ?? 0);
      expect(made).toBe(token);
    },
  );

  it.each(tokens)("are taken while their key is published, each as its own kind: $name", async (vector) => {
    const { kind, claims, now, token } = vector;
    const [own, other] = kind === "lease" ? [verifyLease, verifyCredential] : [verifyCredential, verifyLease];
    expect(await own(token, await rotated(), BASE, now)).toMatchObject({ ok: true, claims });
    expect(await other(token, await rotated(), BASE, now)).toMatchObject({ ok: false });
    expect(await own(token, await rotated(), "https://elsewhere.example.org", now)).toMatchObject({ ok: false });
    const only = await keysOf(vector.signer === "edge" ? "retired_edge" : "edge");
    expect(await own(token, only, BASE, now)).toEqual({ ok: false, reason: `${kind} ERR_JWKS_NO_MATCHING_KEY` });
  });

  it("end with the lease's expiry, to the second", async () => {
    for (const { kind, expires_at, token } of tokens) {
      if (kind !== "lease") continue;
      const at = expires_at ?? 0;
      expect(await verifyLease(token, await rotated(), BASE, at - 1)).toMatchObject({ ok: true });
      expect(await verifyLease(token, await rotated(), BASE, at)).toMatchObject({ reason: "lease ERR_JWT_EXPIRED" });
    }
  });
});
