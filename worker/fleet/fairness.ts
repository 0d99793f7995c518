import { TIER_WEIGHT, type Tier } from "../../schemas/limits.ts";

/**
 * Start-time fair queueing over accounts (design section 5): whoever has used the least GPU time for its weight goes first.
 * Pure; times are milliseconds.
 */

/** What a placement pays at once; the rest follows while it runs and when its seat is free. */
export const PREPAID_MS = 5_000;

/** While others wait, an account may have this many times its weighted share of a pool's seats. */
const MOST_OF_SHARE = 2;
/** While paid work waits, the Free tier as a whole may have this part of a pool's seats. */
const FREE_TIER_SHARE = 1 / 4;

/** Accounts queue with their like: newcomers join at the present of their own line. */
export type Line = "free" | "paid";
export const LINES = ["paid", "free"] as const satisfies readonly Line[];
export const lineOf = (tier: Tier): Line => (tier === "free" ? "free" : "paid");

export interface Share {
  readonly tier: Tier;
  /** GPU milliseconds per weight that the account has been charged, on the pool's common scale. */
  readonly virtual: number;
}

/** A newcomer starts at the present: neither ahead of those who have waited, nor behind by what it never used. */
export const joins = (share: Share, present: number): Share => ({
  ...share,
  virtual: Math.max(share.virtual, present),
});

/** Charges GPU time; a negative amount gives back what was prepaid and not used. */
export const charge = (share: Share, gpu_ms: number): Share => ({
  ...share,
  virtual: share.virtual + gpu_ms / TIER_WEIGHT[share.tier],
});

/** How many seats one account of each tier, and the Free tier as a whole, may have while others wait. */
export interface Caps {
  readonly account: Readonly<Record<Tier, number>>;
  readonly freeTier: number;
}

/**
 * @param seats of the pool's active runners
 * @param contested those of them that accounts with waiting tickets have or could get; who has all it asked for is no rival
 * @param waiting how many accounts of each tier have tickets that wait
 */
export function capsOf(seats: number, contested: number, waiting: Readonly<Record<Tier, number>>): Caps {
  const free = waiting.free * TIER_WEIGHT.free;
  const paid = waiting.pro * TIER_WEIGHT.pro + waiting.enterprise * TIER_WEIGHT.enterprise;
  // Where paid accounts wait, the Free tier weighs no more than the part that it may have.
  const freeWeight = paid > 0 ? Math.min(free, (paid * FREE_TIER_SHARE) / (1 - FREE_TIER_SHARE)) : free;
  const perWeight = (MOST_OF_SHARE * contested) / Math.max(paid + freeWeight, 1);
  const capOf = (tier: Tier): number => {
    const weight = tier === "free" && free > 0 ? freeWeight / waiting.free : TIER_WEIGHT[tier];
    return Math.max(1, Math.floor(perWeight * weight));
  };
  return {
    account: { free: capOf("free"), pro: capOf("pro"), enterprise: capOf("enterprise") },
    freeTier: Math.max(1, Math.floor(seats * FREE_TIER_SHARE)),
  };
}
