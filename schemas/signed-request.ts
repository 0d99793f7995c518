import {
  base64url,
  type CryptoKey,
  calculateJwkThumbprint,
  EmbeddedJWK,
  errors,
  type JWTPayload,
  jwtVerify,
  SignJWT,
} from "jose";
import * as v from "valibot";

/**
 * One format of a signed request in both directions between edge and runner: the claims of DPoP (RFC 9449) plus audience,
 * expiry and a digest of the body. The signature covers what is asked, of whom, until when, and with which bytes.
 */

/** How long a signed request is good for: an answer within it, or a new one. */
export const REQUEST_TTL_MS = 60_000;
/** Clocks of machines may differ by this much. */
export const CLOCK_SKEW_S = 60;

export type RequestType = "dispatch+jwt" | "dpop+jwt";

const Claims = v.object({
  aud: v.string(),
  htm: v.string(),
  htu: v.string(),
  iat: v.number(),
  exp: v.number(),
  jti: v.pipe(v.string(), v.minLength(8), v.maxLength(128)),
  body_sha256: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{43}$/)),
  ath: v.optional(v.string()),
});
export type RequestClaims = v.InferOutput<typeof Claims>;

export interface RequestToSign {
  readonly type: RequestType;
  /** Who is asked: a runner's URL, or the service's base URL. */
  readonly audience: string;
  readonly method: string;
  /** Absolute, without query or fragment. */
  readonly url: string;
  /** Base64url SHA-256 of the exact body bytes; of no bytes where there is no body. */
  readonly bodySha256: string;
  /** The token that the proof goes with (DPoP's `ath`). */
  readonly accessToken?: string;
  /** A name that this request alone has; repeats are recognised by it. */
  readonly jti: string;
  readonly now: number;
  /** Ends the request earlier than REQUEST_TTL_MS from now. Epoch milliseconds. */
  readonly expiresAt?: number;
}

/** The signer's key, named by `kid` where the verifier knows it, embedded as `jwk` where it has to be bound by a token. */
export interface Signer {
  readonly privateKey: CryptoKey;
  readonly header: { readonly kid: string } | { readonly jwk: Record<string, unknown> };
}

export async function sha256(bytes: Uint8Array | string): Promise<string> {
  const data = typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes;
  return base64url.encode(new Uint8Array(await crypto.subtle.digest("SHA-256", data as Uint8Array<ArrayBuffer>)));
}

export async function signRequest(request: RequestToSign, signer: Signer): Promise<string> {
  const issued = Math.floor(request.now / 1000);
  const expires = Math.min(request.now + REQUEST_TTL_MS, request.expiresAt ?? Number.POSITIVE_INFINITY);
  const claims: JWTPayload = {
    aud: request.audience,
    htm: request.method,
    htu: request.url,
    iat: issued,
    exp: Math.ceil(expires / 1000),
    jti: request.jti,
    body_sha256: request.bodySha256,
  };
  if (request.accessToken !== undefined) claims.ath = await sha256(request.accessToken);
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: request.type, ...signer.header })
    .sign(signer.privateKey);
}

/** What the receiver knows to be true of the request that it got. */
export interface RequestToVerify {
  readonly type: RequestType;
  readonly audience: string;
  readonly method: string;
  readonly url: string;
  /** Absent while the body has not been read; the caller then compares `claims.body_sha256` itself. */
  readonly bodySha256?: string;
  readonly accessToken?: string;
  readonly now: number;
}

export type VerifiedRequest =
  | { readonly ok: true; readonly claims: RequestClaims; readonly thumbprint?: string }
  /** `reason` is for the log and for the other machine's operator: it names the check that failed and holds no secret. */
  | { readonly ok: false; readonly reason: string };

/** Resolves the key of a signed request from its header: jose's `JWTVerifyGetKey`, such as a remote JWKS. */
export type KeySource = Parameters<typeof jwtVerify>[1];

/** How runtimes say that they can't import a key: broken, of a curve that they lack, or not for verifying. */
const UNUSABLE_KEY: readonly string[] = ["DataError", "NotSupportedError", "SyntaxError"];

/**
 * Checks signature, type, audience, times, method, URL, and digest and token where given. With `keys` "embedded" the key comes
 * out of the header and `thumbprint` says which one it was: the caller must compare it with the token's `cnf.jkt`.
 */
export async function verifyRequest(
  token: string,
  request: RequestToVerify,
  keys: KeySource | "embedded",
): Promise<VerifiedRequest> {
  const options = {
    algorithms: ["EdDSA"],
    typ: request.type,
    audience: request.audience,
    currentDate: new Date(request.now),
    clockTolerance: CLOCK_SKEW_S,
    maxTokenAge: REQUEST_TTL_MS / 1000,
    requiredClaims: ["aud", "exp", "iat", "jti"],
  };
  try {
    const verified =
      keys === "embedded"
        ? await jwtVerify(token, EmbeddedJWK, options)
        : await jwtVerify(token, keys as Exclude<KeySource, CryptoKey>, options);
    const parsed = v.safeParse(Claims, verified.payload);
    if (!parsed.success) return { ok: false, reason: "claims" };
    const claims = parsed.output;
    if (claims.htm !== request.method) return { ok: false, reason: "method" };
    if (claims.htu !== request.url) return { ok: false, reason: "url" };
    if (request.bodySha256 !== undefined && claims.body_sha256 !== request.bodySha256)
      return { ok: false, reason: "body" };
    if (request.accessToken !== undefined && claims.ath !== (await sha256(request.accessToken)))
      return { ok: false, reason: "token_binding" };
    if (keys !== "embedded") return { ok: true, claims };
    const jwk = verified.protectedHeader.jwk;
    if (!jwk) return { ok: false, reason: "key" };
    return { ok: true, claims, thumbprint: await calculateJwkThumbprint(jwk) };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { ok: false, reason: "expired: is the clock right?" };
    if (error instanceof errors.JWTClaimValidationFailed) {
      return { ok: false, reason: error.claim === "iat" ? "iat: is the clock right?" : error.claim };
    }
    if (error instanceof errors.JOSEError) return { ok: false, reason: error.code };
    if (error instanceof TypeError || (error instanceof Error && UNUSABLE_KEY.includes(error.name)))
      return { ok: false, reason: "key" };
    throw error;
  }
}
