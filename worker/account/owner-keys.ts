import { TIER_LIMITS } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { addKey, type NewKey, revoke } from "./administration.ts";
import { viewWindow } from "./keys.ts";
import type { OwnerAddKey, OwnerKey, OwnerRevokeKey } from "./owner-types.ts";

/** What an owner does with the account's keys (spec section 5, contract sections 3 and 7). */

const MAX_NAME_LENGTH = 100;

/** Every key that the account ever had, the newest first, with what it uses now. */
export function listKeys(account: Account, now: number): OwnerKey[] {
  const { requests_per_minute } = TIER_LIMITS[account.mustSettings.tier];
  const use = new Map<string, { slots: number; places: number }>();
  for (const { key_hash, phase, jobs } of account.store.owner.openJobs()) {
    const { slots, places } = use.get(key_hash) ?? { slots: 0, places: 0 };
    use.set(key_hash, phase === "waiting" ? { slots, places: places + jobs } : { slots: slots + jobs, places });
  }
  return account
    .keys()
    .reverse()
    .map(({ window, ...key }) => ({
      ...key,
      ...(use.get(key.key_hash) ?? { slots: 0, places: 0 }),
      window: viewWindow(window, requests_per_minute, now),
    }));
}

/**
 * Adds a key, unless 20 count already, 20 were made within a day, or the account is suspended. The same hash again changes
 * nothing. A name has 1 to 100 characters, white space around it aside.
 */
export function addOwnersKey(account: Account, { key_hash, prefix, name }: NewKey, now: number): OwnerAddKey {
  if (account.store.key(key_hash)) return { ok: true };
  if (account.mustSettings.suspended) return { ok: false, reason: "account_suspended" };
  const trimmed = name.trim();
  if (trimmed === "" || trimmed.length > MAX_NAME_LENGTH) return { ok: false, reason: "invalid_name" };
  return addKey(account, { key_hash, prefix, name: trimmed }, now);
}

/** Revokes exactly this key: every request of it is refused from now on. Revoking it again changes nothing. */
export function revokeOwnersKey(account: Account, key_hash: string, now: number): OwnerRevokeKey {
  const revoked_at = revoke(account, key_hash, now);
  return revoked_at === undefined ? { ok: false, reason: "unknown" } : { ok: true, revoked_at };
}
