import { base64url, jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
import type { Env } from "../env.ts";

/** Signed cookies of the portal: who is signed in, and what a sign-in under way has to remember. No secret of a user is in them. */

/** A session ends after this long, whatever happens. */
export const SESSION_S = 12 * 3600;

/** `__Host-`: this host only, over TLS (or loopback), for every path. */
export const SESSION_COOKIE = "__Host-session";

const Identity = v.object({ iss: v.string(), sub: v.string() });
export type Identity = v.InferOutput<typeof Identity>;

const Session = v.object({
  identity: Identity,
  /** What to call them. */
  name: v.string(),
  /** Absent for an operator without an account. */
  account: v.optional(v.string()),
  /** Of the account when they signed in; another one has ended this session. */
  account_epoch: v.number(),
  /** The same of the identity. */
  identity_epoch: v.number(),
  /** The provider said that they are an operator. Those whom the configuration names are so without this. */
  operator: v.boolean(),
  /** Stands in every form of this session. */
  csrf: v.string(),
});
export type Session = v.InferOutput<typeof Session>;

export const random = (bytes = 24): string => base64url.encode(crypto.getRandomValues(new Uint8Array(bytes)));

/**
 * 32 bytes that follow from a text and the service's secret: what one form makes is the same however often it is sent.
 * @param text begins with what it is for
 */
export async function derive(env: Pick<Env, "SESSION_KEY">, text: string): Promise<Uint8Array> {
  const secret = base64url.decode(env.SESSION_KEY) as Uint8Array<ArrayBuffer>;
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", secret, algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text)));
}

/** @param purpose what the token is for: one for something else is none */
export async function seal(
  env: Pick<Env, "SESSION_KEY">,
  purpose: string,
  claims: Record<string, unknown>,
  seconds: number,
): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: "HS256", typ: purpose })
    .setIssuedAt()
    .setExpirationTime(`${seconds} seconds`)
    .sign(base64url.decode(env.SESSION_KEY));
}

/** What was sealed for that purpose; undefined for anything that is forged, over or of another shape. */
export async function open<S extends v.GenericSchema>(
  env: Pick<Env, "SESSION_KEY">,
  purpose: string,
  schema: S,
  token: string | undefined,
): Promise<v.InferOutput<S> | undefined> {
  if (token === undefined) return undefined;
  try {
    const options = { algorithms: ["HS256"], typ: purpose };
    const { payload } = await jwtVerify(token, base64url.decode(env.SESSION_KEY), options);
    const parsed = v.safeParse(schema, payload);
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}

const PURPOSE = "portal-session+jwt";

export const sealSession = (env: Pick<Env, "SESSION_KEY">, session: Session): Promise<string> =>
  seal(env, PURPOSE, session, SESSION_S);

export const openSession = (env: Pick<Env, "SESSION_KEY">, token: string | undefined): Promise<Session | undefined> =>
  open(env, PURPOSE, Session, token);

/** A `Set-Cookie` value. `seconds` 0 removes it. Lax, so that links from elsewhere find their reader signed in. */
export const cookie = (name: string, value: string, seconds: number): string =>
  `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Lax`;
