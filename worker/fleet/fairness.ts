import { TIER_WEIGHT, type Tier } from "../../schemas/limits.ts";

/**
 * Start-time fair queueing over accounts (design section 5): whoever has used the least GPU time for its weight goes first.
 * Pure; times are milliseconds.
 */

/** What a placement pays at once; the rest follows while it runs and when its seat is free. */
export const PREPAID_MS = 5_000;

export interface Share {
  readonly tier: Tier;
  /** GPU milliseconds per weight that the account has been charged, on the pool's common scale. */
  readonly virtual: number;
}

/** A newcomer starts at the pool's present: neither ahead of those who have waited, nor behind by what it never used. */
export const joins = (share: Share, present: number): Share => ({
  ...share,
  virtual: Math.max(share.virtual, present),
});

/** Charges GPU time; a negative amount gives back what was prepaid and not used. */
export const charge = (share: Share, gpu_ms: number): Share => ({
  ...share,
  virtual: share.virtual + gpu_ms / TIER_WEIGHT[share.tier],
});
