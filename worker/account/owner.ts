import { MAX_KEYS, MAX_NEW_KEYS_PER_DAY, TIER_LIMITS } from "../../schemas/limits.ts";
import type { Account } from "./account.ts";
import { countKeys } from "./administration.ts";
import type { OpenJobs, OperatorView, Owned, OwnerOverview, OwnerReplaceSecret, OwnerSecret } from "./owner-types.ts";
import { replaceWebhookSecret } from "./webhook-secrets.ts";

/**
 * What an account's owner sees and changes as a whole. owner-keys.ts, owner-jobs.ts, owner-deliveries.ts and owner-usage.ts have
 * the rest. None of these verbs counts against a rate window; `owned` is the gate before all of them.
 */

const DAY_MS = 86_400_000;
/** Nobody reads a larger count of failed deliveries as a number. */
export const MAX_COUNTED = 10_000;
/** Of a page of anything. */
const MAX_PAGE = 100;

/** A page's length as it is granted: 1 to 100. */
export const granted = (limit: number): number => Math.min(Math.max(Math.trunc(limit) || 1, 1), MAX_PAGE);

/** What a session that begins now carries; undefined where there is no account. */
export const sessionEpoch = ({ settings }: Account): number | undefined => settings && (settings.session_epoch ?? 0);

/** Opens to a session that was not signed out, of an account that exists. */
export function owned<T>(account: Account, epoch: number, verb: () => T): Owned<T> {
  const current = sessionEpoch(account);
  return current === undefined || epoch !== current ? { open: false } : { open: true, value: verb() };
}

/** Ends every session of the account; answers what those that begin from now on carry. */
export function signOut(account: Account): number {
  const settings = account.mustSettings;
  const session_epoch = (settings.session_epoch ?? 0) + 1;
  account.putSettings({ ...settings, session_epoch });
  return session_epoch;
}

/** Slots and queue places in use, and open jobs by their public status, of all keys together. */
function inUse(account: Account): { slots: number; places: number; jobs: OpenJobs } {
  let places = 0;
  let running = 0;
  let all = 0;
  for (const count of account.store.owner.openJobs()) {
    all += count.jobs;
    if (count.phase === "waiting") places += count.jobs;
    if (count.phase === "running") running += count.jobs;
  }
  return { slots: all - places, places, jobs: { queued: all - running, running } };
}

/** How the account stands: what it may use, and what it uses now. */
export function overview(account: Account, now: number): OwnerOverview {
  if (account.unwritten) account.writeBehind();
  const { tier, suspended, pool } = account.mustSettings;
  const { live, counting, made } = countKeys(account, now);
  return {
    tier,
    suspended,
    pool,
    limits: TIER_LIMITS[tier],
    keys: { live, counting, allowed: MAX_KEYS },
    new_keys: { made, allowed: MAX_NEW_KEYS_PER_DAY },
    ...inUse(account),
  };
}

/** The webhook secret itself, and until when those that it has replaced still sign. */
export function secret(account: Account, now: number): OwnerSecret {
  const { webhook_secret, secret_version = 0, retired_webhook_secrets = [] } = account.mustSettings;
  return {
    secret: webhook_secret,
    version: secret_version,
    retired: retired_webhook_secrets.filter(({ until }) => until > now).map(({ until }) => ({ until })),
  };
}

/**
 * Replaces the webhook secret that was seen. A form that is out of date, or sent twice, changes nothing; neither does the same
 * secret again, which is answered as the first time.
 * @param replacement 64 hexadecimal characters, made by the caller
 * @param seen the `version` that the page showed
 */
export function replaceSecret(account: Account, replacement: string, seen: number, now: number): OwnerReplaceSecret {
  const before = secret(account, now);
  if (before.secret !== replacement && before.version !== seen) return { kind: "stale", version: before.version };
  replaceWebhookSecret(account, replacement, now);
  return { kind: "replaced", version: secret(account, now).version };
}

/** What an operator sees of the account: nothing of its jobs but their number. Null where there is none. */
export function operatorView(account: Account, now: number): OperatorView | null {
  const { settings, store } = account;
  if (!settings) return null;
  if (account.unwritten) account.writeBehind();
  const { tier, suspended, pool } = settings;
  return {
    tier,
    suspended,
    pool,
    keys: store
      .keys()
      .reverse()
      .map(({ prefix, name, revoked_at }) => ({
        prefix,
        name,
        status: revoked_at === undefined ? "active" : "revoked",
      })),
    jobs: inUse(account).jobs,
    failed_deliveries: store.owner.countFailed(now - DAY_MS, MAX_COUNTED),
  };
}
