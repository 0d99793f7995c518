import { MAX_KEYS, MAX_NEW_KEYS_PER_DAY, type Tier } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { EMPTY_WINDOW, type Settings } from "./keys.ts";

/** What operators and owners change about an account (spec section 2.2, contract section 7). */

const DAY_MS = 86_400_000;

/** Creates the account, or leaves an existing one as it is: a repeated call is harmless. */
export function create(account: Account, settings: Settings): void {
  if (!account.settings) account.putSettings(settings);
}

/** After a downgrade nothing is cancelled; a larger tier promotes at once. */
export function setTier(account: Account, tier: Tier, now: number): void {
  account.putSettings({ ...account.mustSettings, tier });
  for (const key of account.store.keys()) account.settleKey(key.key_hash, now);
}

/** A suspended account's queued jobs wait, its running jobs finish (contract section 7). */
export function setSuspended(account: Account, suspended: boolean, now: number): void {
  account.putSettings({ ...account.mustSettings, suspended });
  account.owes({ kind: "wake" });
  account.links.forget();
  account.keepSyncing(now);
  account.owes({ kind: "sync" });
}

export type AddKey =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: "too_many_keys" | "too_many_new_keys" };

export interface NewKey {
  readonly key_hash: string;
  readonly prefix: string;
  readonly name: string;
}

/** Keys that are not revoked, those that count as the account's, and those that were made within a day. */
export function countKeys(account: Account, now: number): { live: number; counting: number; made: number } {
  const busy = new Set(account.store.owner.openJobs().map(({ key_hash }) => key_hash));
  const keys = account.store.keys();
  return {
    live: keys.filter(({ revoked_at }) => revoked_at === undefined).length,
    counting: keys.filter(({ key_hash, revoked_at }) => revoked_at === undefined || busy.has(key_hash)).length,
    made: keys.filter(({ created_at }) => created_at > now - DAY_MS).length,
  };
}

/** A revoked key counts until its last job has ended: new keys must not multiply limits (contract section 3). */
export function addKey(account: Account, key: NewKey, now: number): AddKey {
  if (account.store.key(key.key_hash)) return { ok: true };
  const { counting, made } = countKeys(account, now);
  if (counting >= MAX_KEYS) return { ok: false, reason: "too_many_keys" };
  if (made >= MAX_NEW_KEYS_PER_DAY) return { ok: false, reason: "too_many_new_keys" };
  account.store.putKey({ ...key, created_at: now, window: EMPTY_WINDOW });
  return { ok: true };
}

export type RevokeKey =
  | { readonly ok: true; readonly key_hash: string }
  | { readonly ok: false; readonly reason: "unknown" | "ambiguous" };

/** Revokes the key whose first 12 characters are `prefix`. Revoking it again changes nothing. */
export function revokeKey(account: Account, prefix: string, now: number): RevokeKey {
  const named = account.store.keys().filter((key) => key.prefix === prefix);
  const [key, ...others] = named.length > 1 ? named.filter(({ revoked_at }) => revoked_at === undefined) : named;
  if (!key) return { ok: false, reason: named.length > 1 ? "ambiguous" : "unknown" };
  if (others.length > 0) return { ok: false, reason: "ambiguous" };
  revoke(account, key.key_hash, now);
  return { ok: true, key_hash: key.key_hash };
}

/** Revokes exactly this key, for good. Undefined where there is none; else since when it is revoked. */
export function revoke(account: Account, key_hash: string, now: number): number | undefined {
  // Its window is written first: what is put below must not outrun what the window's requests are charged with.
  account.writeBehind();
  const key = account.store.key(key_hash);
  if (!key || key.revoked_at !== undefined) return key?.revoked_at;
  account.store.putKey({ ...key, revoked_at: now });
  account.owes({ kind: "wake" });
  return now;
}
