import type { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import type { AddKey, RevokeKey } from "../account/administration.ts";
import { createAccount, newWebhookSecret } from "../accounts.ts";
import { audited, writeAudit } from "../directory/audit.ts";
import { insertKey, noteAccount } from "../directory/directory.ts";
import type { Env } from "../env.ts";
import { enrolToken } from "../runners/enrol.ts";

/**
 * What operators do, by script or console: each writes its line into the audit list before it acts, and throws RepeatedForm where
 * the same form has done it before. That an account exists is for the caller to see to.
 */

/** Who acts, and in the console by which form. */
export interface By {
  readonly actor: string;
  readonly form?: string;
}

export const SCRIPT: By = { actor: "script" };

/** An enrolment token is good for an hour. */
const ENROL_TOKEN_MS = 3_600_000;

const OK = { ok: true } as const;

/** A new account is written down when it is there: only then has it a name. */
export async function openAccount(
  env: Env,
  { actor }: By,
  account: { readonly email: string; readonly tier: Tier; readonly pool: string },
): Promise<{ account_id: string; webhook_secret: string }> {
  const created = await createAccount(env, account);
  const subject = `${created.account_id}, ${account.tier}, pool ${account.pool}`;
  await writeAudit(env.DIRECTORY, { actor, action: "account created", subject }, Date.now());
  return created;
}

export const changeTier = (env: Env, by: By, account_id: string, tier: Tier) =>
  audited(env.DIRECTORY, { ...by, action: `tier set to ${tier}`, subject: account_id }, async () => {
    await env.ACCOUNT.getByName(account_id).setTier(tier);
    await noteAccount(env.DIRECTORY, account_id, { tier });
    return OK;
  });

export const setSuspended = (env: Env, by: By, account_id: string, suspended: boolean) =>
  audited(
    env.DIRECTORY,
    { ...by, action: suspended ? "account suspended" : "account resumed", subject: account_id },
    async () => {
      await env.ACCOUNT.getByName(account_id).setSuspended(suspended);
      await noteAccount(env.DIRECTORY, account_id, { suspended });
      return OK;
    },
  );

export const renewWebhookSecret = (env: Env, by: By, account_id: string) =>
  audited(env.DIRECTORY, { ...by, action: "webhook secret replaced", subject: account_id }, async () => {
    const webhook_secret = newWebhookSecret();
    await env.ACCOUNT.getByName(account_id).replaceWebhookSecret(webhook_secret);
    return { ok: true, webhook_secret } as const;
  });

/** Makes a key known: to its account first, to the directory then. */
export const addKey = (
  env: Env,
  by: By,
  account_id: string,
  key: { readonly key_hash: string; readonly prefix: string; readonly name: string },
) =>
  audited<AddKey>(env.DIRECTORY, { ...by, action: "key created", subject: `${account_id}, ${key.name}` }, async () => {
    const added = await env.ACCOUNT.getByName(account_id).addKey(key);
    if (added.ok) await insertKey(env.DIRECTORY, key.key_hash, account_id, Date.now());
    return added;
  });

export const revokeKey = (env: Env, by: By, account_id: string, prefix: string) =>
  audited<RevokeKey>(env.DIRECTORY, { ...by, action: "key revoked", subject: `${account_id}, ${prefix}…` }, () =>
    env.ACCOUNT.getByName(account_id).revokeKey(prefix),
  );

export interface NewEnrolToken {
  readonly pool: string;
  readonly max_seats: number;
  /** 43 characters of base64url from a cryptographic source. */
  readonly random: string;
}

export const makeEnrolToken = (env: Env, by: By, { pool, max_seats, random }: NewEnrolToken) =>
  audited(
    env.DIRECTORY,
    { ...by, action: "enrolment token made", subject: `pool ${pool}, most seats ${max_seats}` },
    async () => {
      const token = enrolToken(pool, random);
      const expires_at = Date.now() + ENROL_TOKEN_MS;
      await env.FLEET.getByName(pool).putToken({ token_hash: await sha256(token), max_seats, expires_at });
      return { ok: true, token, expires_at } as const;
    },
  );

/** Not ok: the pool has no such runner. */
export const drainRunner = (env: Env, by: By, pool: string, runner_id: string) =>
  audited(env.DIRECTORY, { ...by, action: "runner drained", subject: `${runner_id}, pool ${pool}` }, async () => ({
    ok: await env.FLEET.getByName(pool).drain(runner_id),
  }));

/** The same. */
export const revokeRunner = (env: Env, by: By, pool: string, runner_id: string) =>
  audited(env.DIRECTORY, { ...by, action: "runner revoked", subject: `${runner_id}, pool ${pool}` }, async () => ({
    ok: await env.FLEET.getByName(pool).revoke(runner_id),
  }));
