import { parseArgs } from "node:util";
import { TIER_WEIGHT } from "../schemas/limits.ts";
import type { SimAccount } from "./fairness/account.ts";
import {
  gpuTime,
  isFree,
  jain,
  mean,
  quantile,
  type Spread,
  waitsIn,
  waitsOf,
  weightedTime,
  wellBehaved,
  type Window,
} from "./fairness/measures.ts";
import { type Mix, MISBEHAVERS, type Misbehaver, misbehaver, population, WORDS } from "./fairness/population.ts";
import { seatsOfAll, Simulation, START } from "./fairness/simulation.ts";
import { duration, type Goal, goalTable, percent, table } from "./fairness/table.ts";

/**
 * How fairly the real pool shares its seats, in simulated time: one long run in which more is wanted than there is, and the same
 * again with each kind of misbehaver.
 *
 *   node bench/fairness.ts [--accounts 10000] [--runners 1000] [--minutes 40] [--compare 12] [--seed 1] [--only flood,...] [--json]
 *
 * `minutes` is how long the run for Jain's index takes: a job is never interrupted, so no scheduler is fair at a finer grain than
 * its longest job, and an index is honest only where everybody's share is longer than that hour. `compare` is how long the runs
 * with a misbehaver take; he comes after a quarter of it, and waits count from then on.
 */

const { values: options } = parseArgs({
  options: {
    accounts: { type: "string", default: "10000" },
    runners: { type: "string", default: "1000" },
    minutes: { type: "string", default: "40" },
    compare: { type: "string", default: "12" },
    light: { type: "string", default: "0.3" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: MISBEHAVERS.join(",") },
    json: { type: "boolean", default: false },
  },
});
const runners = Number(options.runners);
const seats = seatsOfAll(runners);
const mix: Mix = {
  seed: Number(options.seed),
  accounts: Number(options.accounts),
  seats,
  light: Number(options.light),
};
const long_ms = Number(options.minutes) * 60_000;
const compare_ms = Math.min(Number(options.compare) * 60_000, long_ms);
const joins_at = compare_ms / 4;
const compared: Window = { from: START + joins_at, until: START + compare_ms };
const whole: Window = { from: START, until: START + long_ms };
const say = (line: string): void => {
  if (!options.json) console.log(line);
};

/**
 * Waits of everybody but the misbehaver. Light jobs come at the same moments with and without him. Busy accounts submit as their
 * jobs end, so there each account counts once, with its median: jobs would count those more that were served more.
 */
interface Others {
  readonly light: Spread;
  readonly light_paid: Spread;
  readonly light_free: Spread;
  readonly busy_paid_ms: number;
  readonly busy_free_ms: number;
}

const busy = (simulation: Simulation) =>
  simulation.present.filter(({ kind }) => kind === "backlogged").map(({ account }) => account);

const othersIn = (simulation: Simulation): Others => {
  const medianOf = (account: SimAccount) =>
    quantile(
      waitsOf(account, compared).map(({ wait_ms }) => wait_ms),
      0.5,
    );
  const medians = (free: boolean) =>
    quantile(
      busy(simulation)
        .filter((account) => isFree(account) === free)
        .map(medianOf)
        .filter(Number.isFinite),
      0.5,
    );
  return {
    light: waitsIn(simulation, compared, (kind) => kind === "light"),
    light_paid: waitsIn(simulation, compared, (kind, account) => kind === "light" && !isFree(account)),
    light_free: waitsIn(simulation, compared, (kind, account) => kind === "light" && isFree(account)),
    busy_paid_ms: medians(false),
    busy_free_ms: medians(true),
  };
};

const jainOf = (simulation: Simulation, window: Window, which: (free: boolean) => boolean = () => true): number =>
  jain(
    busy(simulation)
      .filter((account) => which(isFree(account)))
      .map((account) => weightedTime(account, window)),
  );

const warmShare = (simulation: Simulation): number => {
  const uses = simulation.present.flatMap(({ account }) => account.uses);
  return uses.filter(({ warm }) => warm).length / uses.length;
};

// The run without any misbehaver: waits of the time that is compared, then on to its end for the index.
say(`${mix.accounts} accounts, ${runners} runners with ${seats} seats, seed ${mix.seed}`);
const without = new Simulation(mix.seed, runners, population(mix));
without.runFor(compare_ms);
const calm = othersIn(without);
const behaved = wellBehaved(without, seats, compared);
without.runFor(long_ms);

const quarters = [0.25, 0.5, 1].map((part) => jainOf(without, { from: START, until: START + long_ms * part }));
const perWeight = (free: boolean): number => {
  const times = busy(without)
    .filter((account) => isFree(account) === free)
    .map((account) => weightedTime(account, whole));
  return times.reduce((sum, ms) => sum + ms, 0) / times.length / long_ms;
};
const index = {
  population: busy(without).length,
  all: jainOf(without, whole),
  paid: jainOf(without, whole, (free) => !free),
  free: jainOf(without, whole, (free) => free),
  after_a_quarter: quarters[0] ?? Number.NaN,
  after_a_half: quarters[1] ?? Number.NaN,
  seats_per_weight_paid: perWeight(false),
  seats_per_weight_free: perWeight(true),
  free_gpu_hours_each: (perWeight(true) * long_ms) / 3_600_000,
};
const placements = without.present.reduce((sum, { account }) => sum + account.uses.length, 0);
const worst = behaved[0];

say(`
Saturated for ${options.minutes} min: ${index.population} accounts always have more work than their share, the others ask for ${percent(mix.light)} of the seats.
Jain's index is over GPU time per weight of those ${index.population}, and of no other: who asks for less than his share gets what he asks for.`);
say(
  table([
    ["", "all", "paid", "Free"],
    ["Jain's index", index.all.toFixed(4), index.paid.toFixed(4), index.free.toFixed(4)],
    ["  after a quarter of the time", index.after_a_quarter.toFixed(4), "", ""],
    ["  after a half of it", index.after_a_half.toFixed(4), "", ""],
    ["seats per weight, mean", "", index.seats_per_weight_paid.toFixed(3), index.seats_per_weight_free.toFixed(3)],
    ["warm placements", percent(warmShare(without)), "", ""],
  ]),
);

interface Comparison {
  readonly misbehaver: Misbehaver;
  readonly with: Others;
  /** Its part of the pool's seats since it came, and the part that accounts of the same kind with as much weight together got. */
  readonly took: number;
  readonly likes_took: number;
  readonly most_seats: number;
  /** A well-behaved account's mean wait, relative to that on its fair share: the worst of them. */
  readonly worst_ratio: number;
}

function mostSeats(uses: readonly { readonly placed_at: number; readonly freed_at?: number }[]): number {
  const changes = uses.flatMap(({ placed_at, freed_at }) => [
    { at: placed_at, by: 1 },
    ...(freed_at === undefined ? [] : [{ at: freed_at, by: -1 }]),
  ]);
  let now = 0;
  let most = 0;
  for (const { by } of changes.sort((a, b) => a.at - b.at || a.by - b.by)) {
    now += by;
    most = Math.max(most, now);
  }
  return most;
}

const only = options.only.split(",");
const comparisons = MISBEHAVERS.filter((which) => only.includes(which)).map((which): Comparison => {
  const simulation = new Simulation(mix.seed, runners, [...population(mix), ...misbehaver(which, mix, joins_at)]);
  simulation.runFor(compare_ms);
  const bad = simulation.present.filter(({ kind }) => kind === "misbehaver").map(({ account }) => account);
  const took = bad.reduce((sum, account) => sum + gpuTime(account, compared), 0) / (seats * (compare_ms - joins_at));
  const weight = bad.reduce((sum, { profile }) => sum + TIER_WEIGHT[profile.tier], 0);
  const likes = busy(simulation).filter((account) => bad.some((one) => isFree(one) === isFree(account)));
  const each = mean(likes.map((account) => weightedTime(account, compared)));
  const likes_took = (each * weight) / (seats * (compare_ms - joins_at));
  return {
    misbehaver: which,
    with: othersIn(simulation),
    took,
    likes_took,
    most_seats: mostSeats(bad.flatMap(({ uses }) => uses)),
    worst_ratio: wellBehaved(simulation, seats, compared)[0]?.ratio ?? Number.NaN,
  };
});

const change = (of: (others: Others) => number, others: Others): string => {
  const ratio = of(others) / of(calm);
  return Number.isFinite(ratio) ? `x ${ratio.toFixed(2)}` : "-";
};
say(`
Waits of the others in ${options.compare} min, from ticket to seat; the misbehaver comes after a quarter of that. "x" is relative to the run
without him; light: all their jobs; busy: the median over the accounts of their median waits.`);
say(
  table([
    [
      "",
      "light median",
      "light paid p99",
      "light Free p99",
      "light worst",
      "busy paid",
      "busy Free",
      "took",
      "its like got",
      "most seats",
    ],
    [
      "nobody",
      duration(calm.light.median_ms),
      duration(calm.light_paid.p99_ms),
      duration(calm.light_free.p99_ms),
      duration(calm.light.worst_ms),
      duration(calm.busy_paid_ms),
      duration(calm.busy_free_ms),
      "",
      "",
      "",
    ],
    ...comparisons.map((one) => [
      one.misbehaver,
      change(({ light }) => light.median_ms, one.with),
      change(({ light_paid }) => light_paid.p99_ms, one.with),
      change(({ light_free }) => light_free.p99_ms, one.with),
      change(({ light }) => light.worst_ms, one.with),
      change(({ busy_paid_ms }) => busy_paid_ms, one.with),
      change(({ busy_free_ms }) => busy_free_ms, one.with),
      percent(one.took),
      percent(one.likes_took),
      String(one.most_seats),
    ]),
  ]),
);
for (const { misbehaver: which } of comparisons) say(`  ${which}: ${WORDS[which]}`);

say(`
Worst mean wait of a well-behaved account relative to that on a machine of its own as large as its fair share (at least 5 s):`);
say(
  table([
    ["", "worst", "p99 of accounts"],
    [
      "nobody",
      (worst?.ratio ?? Number.NaN).toFixed(2),
      (behaved[Math.floor(behaved.length / 100)]?.ratio ?? Number.NaN).toFixed(2),
    ],
    ...comparisons.map(({ misbehaver: which, worst_ratio }) => [which, worst_ratio.toFixed(2), ""]),
  ]),
);

const flood = comparisons.find((one) => one.misbehaver === "flood");
const goals: Goal[] = [
  { name: "Jain's index of weighted GPU time", value: index.all.toFixed(4), goal: ">= 0.97", met: index.all >= 0.97 },
];
if (flood) {
  const raises: [string, number][] = [
    ["light jobs", flood.with.light.median_ms / calm.light.median_ms - 1],
    ["busy paid accounts", flood.with.busy_paid_ms / calm.busy_paid_ms - 1],
    ["busy Free accounts", flood.with.busy_free_ms / calm.busy_free_ms - 1],
  ];
  for (const [whose, raised] of raises)
    goals.push({
      name: `a flood raises the median wait of ${whose} by`,
      value: percent(raised),
      goal: "< 10 %",
      met: raised < 0.1,
    });
}
say(`\n${goalTable(goals)}`);
say(`\n${placements} placements; ${((without.pool_ms * 1_000) / without.calls).toFixed(1)} us a message in the pool`);

if (options.json) {
  const [nobody] = [{ ...calm, worst_ratio: worst?.ratio, warm: warmShare(without) }];
  console.log(
    JSON.stringify({ mix, seats, weights: TIER_WEIGHT, index, nobody, comparisons, goals, placements }, null, 2),
  );
}
process.exitCode = goals.every(({ met }) => met) ? 0 : 1;
