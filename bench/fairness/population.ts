import { TIER_WEIGHT, type Tier } from "../../schemas/limits.ts";
import type { Habit, Profile, SimAccount } from "./account.ts";
import { between, type BoundedPareto, type Chance, exponential, pareto, paretoMean, stream, zipf } from "./chance.ts";

/** Who uses the pool, and how. */

/** Half a second to an hour: half of the jobs take under 1.4 s, the mean is 15.6 s, and nearly half of the GPU time goes to jobs of over ten minutes. */
export const LENGTHS: BoundedPareto = { least: 500, most: 3_600_000, alpha: 0.7 };
const HOUR_MS = 3_600_000;
const CHECKPOINTS = 12;
/** Part of an account's jobs that use its favourite checkpoint. */
const FAVOURITE = 0.8;
/** Keys of the accounts that always have work: slots enough for more than their share of the pool. */
const BACKLOGGED_KEYS: Readonly<Record<Tier, number>> = { free: 4, pro: 2, enterprise: 1 };
const MOST_KEYS = 20;

export type Kind = "backlogged" | "light" | "misbehaver";

export interface Member {
  readonly kind: Kind;
  readonly profile: Profile;
  readonly joins_at: number;
}

export interface Mix {
  readonly seed: number;
  readonly accounts: number;
  readonly seats: number;
  /** Part of the pool's capacity that the light accounts ask for together. */
  readonly light: number;
}

const jobsOf = (
  seed: number,
  name: string,
  length: (chance: Chance) => number = (chance) => pareto(chance, LENGTHS),
) => {
  const taste = stream(seed, `${name} taste`);
  const favourite = zipf(taste, CHECKPOINTS);
  return (chance: Chance) => {
    const length_ms = length(chance);
    const checkpoint = chance() < FAVOURITE ? favourite : zipf(chance, CHECKPOINTS);
    return { length_ms, model: `checkpoint-${checkpoint}.safetensors` };
  };
};

/** As many open jobs as it has slots, always. */
const backlogged: Habit = {
  starts: (account) => account.submit(account.slots),
  ended: (account) => account.submit(),
};

/** Jobs that come when they come, whether or not earlier ones have ended. */
const arrivals = (mean_gap_ms: number): Habit => {
  const next = (account: SimAccount): void =>
    account.clock.after(exponential(account.chance, mean_gap_ms), () => {
      account.submit();
      next(account);
    });
  return { starts: next };
};

/** So many tickets at a time, each cancelled soon, served or not, and submitted anew. */
const submitAndCancel = (tickets: number): Habit => ({
  starts: (account) => account.submit(tickets),
  // A key may make 1,000 requests a minute: 64 tickets, 2 s each on average, are 64 requests a second, the most that 4 keys may make.
  offered: (account, job) =>
    account.clock.after(between(account.chance, 500, 3_500), () => {
      account.cancel(job.id);
      account.submit();
    }),
});

const tierOf = (i: number, count: number, shares: Readonly<Record<Tier, number>>): Tier => {
  const at = (i + 0.5) / count;
  if (at < shares.enterprise) return "enterprise";
  return at < shares.enterprise + shares.pro ? "pro" : "free";
};

/** Of every two hundred accounts three always have work; all others are light, and ask for far less than their share. */
export function population({ seed, accounts, seats, light }: Mix): Member[] {
  const busy = Math.max(15, Math.round(accounts * 0.015));
  const members: Member[] = [];
  for (let i = 0; i < busy; i++) {
    const tier = tierOf(i, busy, { free: 0.5, pro: 0.37, enterprise: 0.13 });
    const name = `busy-${tier}-${i}`;
    const keys = BACKLOGGED_KEYS[tier];
    const profile = { name, tier, keys, habit: backlogged, draws: jobsOf(seed, name) };
    members.push({ kind: "backlogged", joins_at: 0, profile });
  }
  const quiet = accounts - busy;
  const tiers = Array.from({ length: quiet }, (_, i) =>
    tierOf(i, quiet, { free: 0.81, pro: 0.165, enterprise: 0.025 }),
  );
  const weight = tiers.reduce((sum, tier) => sum + TIER_WEIGHT[tier], 0);
  const gap = (paretoMean(LENGTHS) * weight) / (light * seats);
  for (const [i, tier] of tiers.entries()) {
    const name = `light-${tier}-${i}`;
    const habit = arrivals(gap / TIER_WEIGHT[tier]);
    members.push({ kind: "light", joins_at: 0, profile: { name, tier, keys: 2, habit, draws: jobsOf(seed, name) } });
  }
  return members;
}

export const MISBEHAVERS = ["flood", "thousand", "newcomer", "canceller"] as const;
export type Misbehaver = (typeof MISBEHAVERS)[number];

export const WORDS: Readonly<Record<Misbehaver, string>> = {
  flood: "one enterprise account floods: 20 keys, 64 tickets at all times",
  thousand: "a tenth as many Free accounts as there are accounts, all of one person, always with work",
  newcomer: "an enterprise account comes with 20 keys and jobs of an hour each",
  canceller: "an enterprise account submits and cancels in a loop",
};

/** The accounts of one who misbehaves, from `joins_at` on (milliseconds since the start). */
export function misbehaver(which: Misbehaver, { seed, accounts }: Mix, joins_at: number): Member[] {
  const one = (name: string, tier: Tier, keys: number, habit: Habit, length?: (chance: Chance) => number): Member => ({
    kind: "misbehaver",
    joins_at,
    profile: { name, tier, keys, habit, draws: jobsOf(seed, name, length) },
  });
  switch (which) {
    case "flood":
      return [one("flood", "enterprise", MOST_KEYS, backlogged)];
    case "thousand":
      return Array.from({ length: Math.round(accounts / 10) }, (_, i) => one(`crowd-${i}`, "free", 1, backlogged));
    case "newcomer":
      return [one("newcomer", "enterprise", MOST_KEYS, backlogged, () => HOUR_MS)];
    case "canceller":
      return [one("canceller", "enterprise", 4, submitAndCancel(64))];
  }
}
