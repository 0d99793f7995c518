import type { Context } from "hono";
import { base64url } from "jose";
import { sha256, verifyRequest } from "../../schemas/signed-request.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { log } from "../log.ts";
import { edgeKeys } from "./edge-keys.ts";
import { type Credential, type Lease, verifyCredential, verifyLease } from "./tokens.ts";

type RunnerContext = Context<{ Bindings: Env }>;

export type Authorised<T> =
  | { readonly ok: true; readonly claims: T; readonly kid: string | undefined; readonly bodySha256: string }
  | { readonly ok: false; readonly response: Response };

/** A runner's operator needs the reason to mend it; it names a check and holds no secret. */
export function unauthorised(c: RunnerContext, reason: string): { ok: false; response: Response } {
  log("warn", "runner_unauthorised", { path: c.req.path, reason });
  return {
    ok: false,
    response: c.json({ error: { code: "unauthorized", message: `Refused: ${reason}.` } }, 401, {
      "WWW-Authenticate": "DPoP",
    }),
  };
}

/**
 * Verifies token and proof of a runner's request without asking anyone (design section 7). `bodySha256` is what the proof
 * promises of the body: whoever reads that must hold it to it.
 */
async function authorise<T extends Credential | Lease>(
  c: RunnerContext,
  verify: typeof verifyCredential | typeof verifyLease,
): Promise<Authorised<T>> {
  const [, token] = /^DPoP ([\w.-]+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
  const proof = c.req.header("dpop");
  if (token === undefined || proof === undefined) return unauthorised(c, "no DPoP token and proof");
  const { baseUrl } = configOf(c.env);
  const now = Date.now();
  const access = await verify(token, await edgeKeys(c.env), baseUrl, now);
  if (!access.ok) return unauthorised(c, access.reason);
  const request = {
    type: "dpop+jwt",
    audience: baseUrl,
    method: c.req.method,
    url: baseUrl + c.req.path,
    accessToken: token,
    now,
  } as const;
  const proven = await verifyRequest(proof, request, "embedded");
  if (!proven.ok) return unauthorised(c, `proof ${proven.reason}`);
  if (proven.thumbprint !== access.claims.cnf.jkt) return unauthorised(c, "proof by another key");
  return { ok: true, claims: access.claims as T, kid: access.kid, bodySha256: proven.claims.body_sha256 };
}

export const authoriseCredential = (c: RunnerContext): Promise<Authorised<Credential>> =>
  authorise(c, verifyCredential);
export const authoriseLease = (c: RunnerContext): Promise<Authorised<Lease>> => authorise(c, verifyLease);

/** Whether bytes are the ones that a proof promised. */
export const isPromised = async (bytes: Uint8Array, bodySha256: string): Promise<boolean> =>
  (await sha256(bytes)) === bodySha256;

/** Base64url digest to the hexadecimal one that R2 checks. */
export const hexDigest = (digest: string): string =>
  [...base64url.decode(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
