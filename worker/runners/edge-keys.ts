import { type CryptoKey, createLocalJWKSet, importJWK, type JWK, type JWTVerifyGetKey } from "jose";
import * as v from "valibot";
import { PublicJwk } from "../../schemas/runner-protocol.ts";
import type { Env } from "../env.ts";

/** The edge's own Ed25519 key, and every public key that is still good (design section 7). */
export interface EdgeKeys {
  readonly kid: string;
  readonly privateKey: CryptoKey;
  /** What /.well-known/jwks.json publishes: the current key and a retired one during a rotation. */
  readonly published: { readonly keys: JWK[] };
  readonly verification: JWTVerifyGetKey;
}

type KeyVars = Pick<Env, "EDGE_SIGNING_KEY" | "EDGE_RETIRED_KEYS">;

/** Takes over what is public of a key and nothing else, whatever an operator has pasted: the result is published. */
const Published = v.object({ ...PublicJwk.entries, kid: v.string() });
const Retired = v.object({ keys: v.array(Published) });

const imported = new Map<string, Promise<EdgeKeys>>();

async function importKeys(vars: KeyVars): Promise<EdgeKeys> {
  const jwk = JSON.parse(vars.EDGE_SIGNING_KEY) as JWK;
  if (jwk.kty !== "OKP" || jwk.crv !== "Ed25519" || !jwk.d || !jwk.kid) {
    throw new Error("EDGE_SIGNING_KEY must be a private Ed25519 JWK with a kid.");
  }
  const retired = vars.EDGE_RETIRED_KEYS === "" ? [] : v.parse(Retired, JSON.parse(vars.EDGE_RETIRED_KEYS)).keys;
  const keys = [v.parse(Published, jwk), ...retired].map((key) => ({ ...key, alg: "EdDSA", use: "sig" }));
  return {
    kid: jwk.kid,
    privateKey: (await importJWK(jwk, "EdDSA")) as CryptoKey,
    published: { keys },
    verification: createLocalJWKSet({ keys }),
  };
}

/** Imported once an isolate. */
export function edgeKeys(vars: KeyVars): Promise<EdgeKeys> {
  const name = `${vars.EDGE_SIGNING_KEY}\n${vars.EDGE_RETIRED_KEYS}`;
  let keys = imported.get(name);
  if (!keys) {
    keys = importKeys(vars);
    imported.set(name, keys);
  }
  return keys;
}
