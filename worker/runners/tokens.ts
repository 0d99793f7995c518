import { errors, jwtVerify, SignJWT } from "jose";
import * as v from "valibot";
import { AccountId, JobId, PoolName, RunnerId } from "../../schemas/ids.ts";
import { RetentionClass } from "../../schemas/limits.ts";
import { Fence } from "../../schemas/runner-protocol.ts";
import type { EdgeKeys } from "./edge-keys.ts";

/**
 * What the edge gives a runner to show again (design section 7): a credential for heartbeats, a lease for one execution. Both are
 * bound to the runner's key by `cnf.jkt`; each has a type and an audience of its own.
 */

const Binding = v.object({ jkt: v.string() });

const Credential = v.object({ sub: RunnerId, pool: PoolName, cnf: Binding });
export type Credential = v.InferOutput<typeof Credential>;

const Lease = v.object({
  sub: RunnerId,
  pool: PoolName,
  account: AccountId,
  job: JobId,
  fence: Fence,
  retention: RetentionClass,
  cnf: Binding,
});
export type Lease = v.InferOutput<typeof Lease>;

const KINDS = {
  credential: { typ: "runner+jwt", audience: "/runners/heartbeat", schema: Credential },
  lease: { typ: "lease+jwt", audience: "/runners/executions", schema: Lease },
} as const;

async function sign(
  kind: keyof typeof KINDS,
  claims: Credential | Lease,
  keys: EdgeKeys,
  baseUrl: string,
  now: number,
  expiresAt?: number,
): Promise<string> {
  const { typ, audience } = KINDS[kind];
  const jwt = new SignJWT({ ...claims })
    .setProtectedHeader({ alg: "EdDSA", typ, kid: keys.kid })
    .setIssuer(baseUrl)
    .setAudience(baseUrl + audience)
    .setIssuedAt(Math.floor(now / 1000));
  if (expiresAt !== undefined) jwt.setExpirationTime(Math.floor(expiresAt / 1000));
  return jwt.sign(keys.privateKey);
}

/** Does not expire: the fleet checks at every beat that the runner is not revoked. */
export const signCredential = (claims: Credential, keys: EdgeKeys, baseUrl: string, now: number): Promise<string> =>
  sign("credential", claims, keys, baseUrl, now);

/** The only authority with which one execution can be changed from outside; never renewed. `expiresAt` in epoch milliseconds. */
export const signLease = (
  claims: Lease,
  keys: EdgeKeys,
  baseUrl: string,
  now: number,
  expiresAt: number,
): Promise<string> => sign("lease", claims, keys, baseUrl, now, expiresAt);

export type Verified<T> =
  | { readonly ok: true; readonly claims: T; readonly kid: string | undefined }
  | { readonly ok: false; readonly reason: string };

async function verify<K extends keyof typeof KINDS>(
  kind: K,
  token: string,
  keys: EdgeKeys,
  baseUrl: string,
  now: number,
): Promise<Verified<v.InferOutput<(typeof KINDS)[K]["schema"]>>> {
  const { typ, audience, schema } = KINDS[kind];
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keys.verification, {
      algorithms: ["EdDSA"],
      typ,
      issuer: baseUrl,
      audience: baseUrl + audience,
      currentDate: new Date(now),
    });
    const parsed = v.safeParse(schema, payload);
    if (!parsed.success) return { ok: false, reason: `${kind} claims` };
    return { ok: true, claims: parsed.output, kid: protectedHeader.kid };
  } catch (error) {
    if (error instanceof errors.JOSEError) return { ok: false, reason: `${kind} ${error.code}` };
    throw error;
  }
}

export const verifyCredential = (token: string, keys: EdgeKeys, baseUrl: string, now: number) =>
  verify("credential", token, keys, baseUrl, now);
export const verifyLease = (token: string, keys: EdgeKeys, baseUrl: string, now: number) =>
  verify("lease", token, keys, baseUrl, now);
