import { calculateJwkThumbprint, createLocalJWKSet, decodeJwt, importJWK, type JWK } from "jose";
import {
  type RequestType,
  type RequestToVerify,
  sha256,
  type Signer,
  signRequest,
  verifyRequest,
} from "../../schemas/signed-request.ts";
import file from "./signed-request-vectors.json" with { type: "json" };

/** Signed requests of both directions as fixed bytes, for every runtime and for implementations in other languages. */

export type KeyName = keyof typeof file.keys;

interface VectorRequest {
  readonly type: RequestType;
  readonly audience: string;
  readonly method: string;
  readonly url: string;
  readonly body: string;
  /** Names the token that the request goes with. */
  readonly access?: string;
  readonly now: number;
}

export interface GoodVector {
  readonly name: string;
  readonly signer: KeyName;
  readonly request: VectorRequest;
  readonly jti: string;
  readonly expires_at?: number;
  readonly token: string;
}

export interface RefusedVector {
  readonly name: string;
  /** The good vector whose place it takes. */
  readonly of: string;
  /** When it is verified, where that is another time than the good vector's. */
  readonly now?: number;
  readonly token: string;
  /** What the refusal says. */
  readonly reason: string;
}

export interface TokenVector {
  readonly name: string;
  readonly kind: "credential" | "lease";
  readonly signer: KeyName;
  readonly claims: object;
  readonly now: number;
  readonly expires_at?: number;
  readonly token: string;
}

export const good = file.good as readonly GoodVector[];
export const refused = file.refused as readonly RefusedVector[];
export const tokens: readonly TokenVector[] = file.tokens as readonly TokenVector[];

export const privateJwk = (name: KeyName): JWK => file.keys[name];
export function publicJwk(name: KeyName): JWK {
  const { d: _, ...jwk } = privateJwk(name);
  return jwk;
}

/** What the edge publishes: its key, and the one that is being retired. */
export const published = { keys: [publicJwk("edge"), publicJwk("retired_edge")] };

export function named<T extends { readonly name: string }>(vectors: readonly T[], name: string): T {
  const found = vectors.find((vector) => vector.name === name);
  if (!found) throw new Error(`There is no vector "${name}".`);
  return found;
}

async function signerOf(name: KeyName): Promise<Signer> {
  const jwk = privateJwk(name);
  const privateKey = await importJWK(jwk, "EdDSA");
  if (privateKey instanceof Uint8Array) throw new Error("That is no key pair.");
  const { kid } = jwk;
  return { privateKey, header: kid === undefined ? { jwk: { ...publicJwk(name) } } : { kid } };
}

/** The bytes that this runtime signs for a good vector. */
export async function signed({ signer, request, jti, expires_at }: GoodVector): Promise<string> {
  const { body, access, ...rest } = request;
  const toSign = { ...rest, bodySha256: await sha256(body), jti };
  const accessToken = access === undefined ? {} : { accessToken: named(tokens, access).token };
  const expiry = expires_at === undefined ? {} : { expiresAt: expires_at };
  return signRequest({ ...toSign, ...accessToken, ...expiry }, await signerOf(signer));
}

/**
 * What a receiver makes of `token` where it expects `request`: "ok", or why not. A dispatch is held to the published keys, a proof
 * to the key that its token is bound to.
 */
export async function verdict(token: string, { body, access, ...request }: VectorRequest): Promise<string> {
  const toVerify: RequestToVerify = {
    ...request,
    bodySha256: await sha256(body),
    ...(access === undefined ? {} : { accessToken: named(tokens, access).token }),
  };
  const byEdge = request.type === "dispatch+jwt";
  const verified = await verifyRequest(token, toVerify, byEdge ? createLocalJWKSet(published) : "embedded");
  if (!verified.ok) return verified.reason;
  if (byEdge) return "ok";
  const bound =
    access === undefined
      ? await calculateJwkThumbprint(publicJwk("runner"))
      : decodeJwt<{ cnf?: { jkt?: string } }>(named(tokens, access).token).cnf?.jkt;
  return verified.thumbprint === bound ? "ok" : "another key";
}

/** The same for a vector that must be refused. */
export async function refusal({ of, token, now }: RefusedVector): Promise<string> {
  const { request } = named(good, of);
  return verdict(token, now === undefined ? request : { ...request, now });
}
