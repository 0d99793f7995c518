import { TIER_WEIGHT, Tier } from "../../schemas/limits.ts";
import type { SimAccount } from "./account.ts";
import type { Kind } from "./population.ts";
import { type Sample, type Simulation, START } from "./simulation.ts";

/** What a simulation has shown. Times are milliseconds of simulated time; a window is from and until, both epoch. */

export interface Window {
  readonly from: number;
  readonly until: number;
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

/** (sum x)^2 / (n * sum x^2): 1 where all are equal, 1/n where one has all. */
export function jain(values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  const squares = values.reduce((total, value) => total + value * value, 0);
  return squares === 0 ? Number.NaN : (sum * sum) / (values.length * squares);
}

/** Time on seats within the window, what runs at its end counted so far. */
export function gpuTime(account: SimAccount, { from, until }: Window): number {
  let total = 0;
  for (const { placed_at, freed_at = until } of account.uses)
    total += Math.max(0, Math.min(freed_at, until) - Math.max(placed_at, from));
  return total;
}

export const weightedTime = (account: SimAccount, window: Window): number =>
  gpuTime(account, window) / TIER_WEIGHT[account.profile.tier];

interface Wait {
  readonly offered_at: number;
  readonly length_ms: number;
  readonly wait_ms: number;
}

/**
 * From the ticket to the placement, of every job whose ticket came within the window. One that still waits at the window's end has
 * waited until then at least.
 */
export function waitsOf(account: SimAccount, { from, until }: Window): Wait[] {
  const waits: Wait[] = [];
  const add = (offered_at: number, length_ms: number, placed_at: number) => {
    if (offered_at >= from && offered_at < until)
      waits.push({ offered_at, length_ms, wait_ms: Math.min(placed_at, until) - offered_at });
  };
  for (const { job, placed_at } of account.uses) add(job.offered_at, job.length_ms, placed_at);
  for (const job of account.tickets()) add(job.offered_at, job.length_ms, until);
  return waits.sort((a, b) => a.offered_at - b.offered_at);
}

export interface Spread {
  readonly jobs: number;
  readonly median_ms: number;
  readonly p99_ms: number;
  readonly worst_ms: number;
}

export function spreadOf(waits: readonly number[]): Spread {
  return {
    jobs: waits.length,
    median_ms: quantile(waits, 0.5),
    p99_ms: quantile(waits, 0.99),
    worst_ms: quantile(waits, 1),
  };
}

export const isFree = (account: SimAccount): boolean => account.profile.tier === "free";

export function waitsIn(
  simulation: Simulation,
  window: Window,
  which: (kind: Kind, account: SimAccount) => boolean,
): Spread {
  const chosen = simulation.present.filter(({ kind, account }) => which(kind, account));
  return spreadOf(chosen.flatMap(({ account }) => waitsOf(account, window).map(({ wait_ms }) => wait_ms)));
}

/** While paid accounts are active, the Free tier as a whole is entitled to this part of the seats. */
const FREE_TIER_SHARE = 1 / 4;

/** Seats that an account of the tier was entitled to, on average over the samples of the window. */
export function fairSeats(tier: Tier, seats: number, samples: readonly Sample[], { from, until }: Window): number {
  const shares = samples
    .filter(({ at }) => at >= from && at <= until)
    .map(({ active, weight }) => {
      const share = (seats * TIER_WEIGHT[tier]) / Math.max(weight, TIER_WEIGHT[tier]);
      const paid = active.pro + active.enterprise > 0;
      return tier === "free" && paid ? Math.min(share, (seats * FREE_TIER_SHARE) / Math.max(1, active.free)) : share;
    });
  return mean(shares);
}

/** The finest grain by which the fleet divides time: what a placement prepays. */
const GRAIN_MS = 5_000;

export interface Behaved {
  readonly account: string;
  /** Mean wait, and the mean of what each job would have waited on the account's fair share alone. */
  readonly wait_ms: number;
  readonly fair_ms: number;
  readonly ratio: number;
}

/**
 * Accounts that have asked for no more than their fair share since the start, each with its mean wait beside the one that it would
 * have had on a machine of its own as large as its fair share: there a job starts when the earlier ones, served at that rate, are
 * over (the expected arrival time of start-time fair queueing), or a grain after it came. The worst come first.
 */
export function wellBehaved(simulation: Simulation, seats: number, window: Window): Behaved[] {
  const rates: Record<Tier, number> = { free: 0, pro: 0, enterprise: 0 };
  for (const tier of Tier.options) rates[tier] = fairSeats(tier, seats, simulation.samples, window);
  const found: Behaved[] = [];
  for (const { kind, account } of simulation.present) {
    const rate = rates[account.profile.tier];
    const waits = waitsOf(account, { from: START, until: window.until });
    const asked = waits.reduce((sum, { length_ms }) => sum + length_ms, 0);
    if (kind !== "light" || asked > rate * (window.until - START)) continue;
    let over = 0;
    const fair: number[] = [];
    const real: number[] = [];
    for (const { offered_at, length_ms, wait_ms } of waits) {
      const starts = Math.max(offered_at, over);
      over = starts + length_ms / rate;
      if (offered_at < window.from) continue;
      fair.push(Math.max(starts - offered_at, GRAIN_MS));
      real.push(wait_ms);
    }
    if (real.length === 0) continue;
    const wait_ms = mean(real);
    const fair_ms = mean(fair);
    found.push({ account: account.profile.name, wait_ms, fair_ms, ratio: wait_ms / fair_ms });
  }
  return found.sort((a, b) => b.ratio - a.ratio);
}
