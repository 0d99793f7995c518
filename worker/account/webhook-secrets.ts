import type { Account } from "./account.ts";
import type { Settings } from "./keys.ts";

/** The secret that signs webhooks, and those it has replaced (spec section 2.3, contract section 5). */

/** A replaced secret still signs beside the new one for this long. */
export const RETIRED_SECRET_MS = 24 * 3_600_000;
/** More replacements than this within 24 h leave the oldest behind. */
const MAX_RETIRED = 3;

export interface RetiredSecret {
  readonly secret: string;
  /** Epoch milliseconds. */
  readonly until: number;
}

/** The secrets that sign a delivery now: the current one first, then those it has replaced lately. */
export function signingSecrets(
  { webhook_secret, retired_webhook_secrets = [] }: Settings,
  now: number,
): readonly string[] {
  return [webhook_secret, ...retired_webhook_secrets.filter(({ until }) => until > now).map(({ secret }) => secret)];
}

/**
 * Replaces the webhook secret. Putting the current one again changes nothing, so a repeated call is harmless.
 * @param secret 64 hexadecimal characters
 */
export function replaceWebhookSecret(account: Account, secret: string, now: number): void {
  const settings = account.mustSettings;
  const { webhook_secret, retired_webhook_secrets = [], secret_version = 0 } = settings;
  if (secret === webhook_secret) return;
  const retired = [{ secret: webhook_secret, until: now + RETIRED_SECRET_MS }, ...retired_webhook_secrets];
  account.putSettings({
    ...settings,
    webhook_secret: secret,
    secret_version: secret_version + 1,
    retired_webhook_secrets: retired.filter(({ until }) => until > now).slice(0, MAX_RETIRED),
  });
}
