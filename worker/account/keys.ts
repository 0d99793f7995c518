import { TIER_LIMITS, type Tier, WINDOW_MS } from "../../schemas/limits.ts";
import type { RedeliveredFailed } from "./redelivery.ts";
import type { RetiredSecret } from "./webhook-secrets.ts";

/** Who may ask, and how often: pure decisions on a key, its account and its request window. */

export interface Key {
  /** SHA-256 of the key, base64url. */
  readonly key_hash: string;
  /** The first 12 characters, for people. */
  readonly prefix: string;
  readonly name: string;
  readonly created_at: number;
  readonly revoked_at?: number;
  readonly last_used_at?: number;
  readonly window: RequestWindow;
}

/** A fixed window that opens with its first request. `opened_at` 0 means that none was made yet. */
export interface RequestWindow {
  readonly opened_at: number;
  readonly used: number;
}

export interface Settings {
  readonly account_id: string;
  readonly tier: Tier;
  readonly suspended: boolean;
  /** The fleet that this account's jobs go to. */
  readonly pool: string;
  /** Spec section 2.3: 64 hexadecimal characters. */
  readonly webhook_secret: string;
  /** Replaced secrets that may still sign, the latest first. */
  readonly retired_webhook_secrets?: readonly RetiredSecret[];
  /** How often the secret was replaced; absent means never. */
  readonly secret_version?: number;
  /** The portal's sessions that began with this number are open; absent means 0. */
  readonly session_epoch?: number;
  /** What became of the latest requests to deliver again whatever has failed, the latest first. */
  readonly redelivered_failed?: readonly RedeliveredFailed[];
}

/** What the rate headers say. Times are epoch milliseconds. */
export interface WindowView {
  readonly limit: number;
  readonly remaining: number;
  readonly reset_at: number;
}

export type Gate =
  | { readonly ok: true; readonly window: WindowView }
  /** `too_many_waits`: as many long requests of this key are open as may be. */
  | {
      readonly ok: false;
      readonly code:
        | "invalid_api_key"
        | "revoked_api_key"
        | "account_suspended"
        | "rate_limit_exceeded"
        | "too_many_waits";
      /** Absent for a key that the account does not know. */
      readonly window?: WindowView;
    };

export const EMPTY_WINDOW: RequestWindow = { opened_at: 0, used: 0 };

function current(window: RequestWindow, now: number): RequestWindow {
  return now >= window.opened_at + WINDOW_MS ? EMPTY_WINDOW : window;
}

export function viewWindow(window: RequestWindow, limit: number, now: number): WindowView {
  const { opened_at, used } = current(window, now);
  return {
    limit,
    remaining: Math.max(0, limit - used),
    reset_at: (opened_at === 0 ? now : opened_at) + WINDOW_MS,
  };
}

/** One more in a window of the account's; undefined where `limit` is reached. */
export function takeFrom(window: RequestWindow, limit: number, now: number): RequestWindow | undefined {
  const { opened_at, used } = current(window, now);
  return used < limit ? { opened_at: opened_at === 0 ? now : opened_at, used: used + 1 } : undefined;
}

/** Whether a key may see anything now, counting nothing. */
export function viewGate(key: Key, settings: Settings, now: number): Gate {
  const window = viewWindow(key.window, TIER_LIMITS[settings.tier].requests_per_minute, now);
  if (key.revoked_at !== undefined) return { ok: false, code: "revoked_api_key", window };
  return settings.suspended ? { ok: false, code: "account_suspended", window } : { ok: true, window };
}

/**
 * Counts one request. A refusal consumes nothing; neither does a revoked key or a suspended account, whose answers still show
 * the window (contract section 3).
 */
export function passGate(key: Key, settings: Settings, now: number): { gate: Gate; window: RequestWindow } {
  const view = viewGate(key, settings, now);
  if (!view.ok) return { gate: view, window: key.window };
  const limit = TIER_LIMITS[settings.tier].requests_per_minute;
  const window = current(key.window, now);
  if (window.used >= limit) {
    return { gate: { ok: false, code: "rate_limit_exceeded", window: view.window }, window: key.window };
  }
  const next = { opened_at: window.opened_at === 0 ? now : window.opened_at, used: window.used + 1 };
  return { gate: { ok: true, window: viewWindow(next, limit, now) }, window: next };
}
