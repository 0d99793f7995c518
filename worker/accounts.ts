import { apiKey, KEY_PREFIX_LENGTH } from "../schemas/api-key.ts";
import { accountId } from "../schemas/ids.ts";
import type { Tier } from "../schemas/limits.ts";
import { sha256 } from "../schemas/signed-request.ts";
import { insertAccount } from "./directory/directory.ts";
import type { Env } from "./env.ts";

/** How accounts and their secrets come to be, for the operator's script and the portal alike. */

const random = (bytes: number): Uint8Array => crypto.getRandomValues(new Uint8Array(bytes));

/** Spec section 2.3: 64 hexadecimal characters. */
export const newWebhookSecret = (): string =>
  [...random(32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The same secret as Standard Webhooks libraries want it (contract section 5). */
export const standardWebhooksSecret = (secret: string): string => `whsec_${btoa(secret)}`;

/** Makes an account: its object first, so that whoever finds it in the directory finds it whole. */
export async function createAccount(
  env: Env,
  { email, tier, pool }: { readonly email: string; readonly tier: Tier; readonly pool: string },
): Promise<{ account_id: string; webhook_secret: string }> {
  const account_id = accountId(random(20));
  const webhook_secret = newWebhookSecret();
  await env.ACCOUNT.getByName(account_id).create({ account_id, tier, pool, suspended: false, webhook_secret });
  await insertAccount(env.DIRECTORY, { account_id, email, tier, pool, created_at: Date.now() });
  return { account_id, webhook_secret };
}

/** A key and what its account keeps of it. */
export async function keyOf(bytes: Uint8Array): Promise<{ key: string; key_hash: string; prefix: string }> {
  const key = apiKey(bytes);
  return { key, key_hash: await sha256(key), prefix: key.slice(0, KEY_PREFIX_LENGTH) };
}

export const newKey = () => keyOf(random(32));
