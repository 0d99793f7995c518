import { parseArgs } from "node:util";
import { Load, type Shape } from "./assignments/load.ts";
import { type Chance, zipf } from "./fairness/chance.ts";
import { quantile } from "./fairness/measures.ts";
import { type Goal, goalTable, percent, table } from "./fairness/table.ts";

/**
 * Assignments a second in the pure core: an account says that an execution ended and what it wants next, the pool gives the seat
 * away, the news is taken. All seats are taken and every account waits, so each end is one assignment. Only the pool's own time
 * on the processor counts; beats and ticks are measured apart.
 *
 *   node bench/assignments.ts [--accounts 10000] [--runners 1000] [--rounds 5] [--steps 20000] [--json]
 */

const { values: options } = parseArgs({
  options: {
    accounts: { type: "string", default: "10000" },
    runners: { type: "string", default: "1000" },
    rounds: { type: "string", default: "5" },
    steps: { type: "string", default: "20000" },
    json: { type: "boolean", default: false },
  },
});
const rounds = Number(options.rounds);
const steps = Number(options.steps);
/** A slow core still ends. */
const MOST_MS_A_ROUND = 4_000;

const BASE = ["CheckpointLoaderSimple", "KSampler", "SaveImage"];
const KINDS = 5;
const extra = (kind: number): string => `Extra${kind % KINDS}`;
const pick = (chance: Chance, count: number): number => Math.floor(chance() * count);

const plain: Shape = {
  accounts: Number(options.accounts),
  tickets: 4,
  runners: Number(options.runners),
  seats: 2,
  batch: 1,
  classes: () => BASE,
  needs: () => ({ classes: BASE, models: [] }),
};
/** Runners of five kinds; a ticket fits all of them, or three, or one. */
const mixed: Shape = {
  ...plain,
  classes: (n) => [...BASE, extra(n), extra(n + 1), extra(n + 2), `Only${n % KINDS}`],
  needs: (chance) => {
    const kind = pick(chance, KINDS);
    const more = [[], [], [extra(kind)], [`Only${kind}`]][pick(chance, 4)] ?? [];
    return { classes: [...BASE, ...more], models: [] };
  },
};
const models: Shape = {
  ...plain,
  needs: (chance) => ({ classes: BASE, models: [`checkpoint-${zipf(chance, 12)}.safetensors`] }),
};
const shapes: Readonly<Record<string, Shape>> = {
  "one end a message": plain,
  "16 ends a message": { ...plain, accounts: Math.max(1, Math.round(plain.accounts / 50)), tickets: 40, batch: 16 },
  "five kinds of runner": mixed,
  "12 models": models,
  "five kinds, 12 models": {
    ...mixed,
    needs: (chance) => ({ ...mixed.needs(chance), models: models.needs(chance).models }),
  },
};

const rows = Object.entries(shapes).map(([name, shape]) => {
  const load = new Load(shape);
  load.run(steps / 4, MOST_MS_A_ROUND);
  const costs = Array.from({ length: rounds }, () => load.run(steps, MOST_MS_A_ROUND));
  const median = (of: (cost: (typeof costs)[number]) => number): number =>
    quantile(costs.map(of).filter(Number.isFinite), 0.5);
  const each_us = (verb: "sync" | "beat" | "tick" | "nextTick"): number =>
    median((cost) => (cost[verb].ms * cost.on_cpu * 1_000) / cost[verb].calls);
  return {
    name,
    a_second: median(({ assignments, sync, on_cpu }) => (assignments * 1_000) / (sync.ms * on_cpu)),
    sync_us: each_us("sync"),
    beat_us: each_us("beat"),
    tick_us: each_us("tick"),
    next_tick_us: each_us("nextTick"),
    on_cpu: median(({ on_cpu }) => on_cpu),
  };
});

const goals: Goal[] = rows.map(({ name, a_second }) => ({
  name: `assignments a second, ${name}`,
  value: a_second.toFixed(0),
  goal: "> 20000",
  met: a_second > 20_000,
}));
if (options.json) console.log(JSON.stringify({ options, rows, goals }, null, 2));
else {
  console.log(
    `${plain.accounts} accounts that wait, ${plain.runners} runners with ${plain.seats} seats each; median of ${rounds} rounds, processor time`,
  );
  console.log(
    table([
      ["", "assignments/s", "sync us", "beat us", "tick us", "nextTick us", "had the CPU"],
      ...rows.map((row) => [
        row.name,
        row.a_second.toFixed(0),
        row.sync_us.toFixed(1),
        row.beat_us.toFixed(1),
        row.tick_us.toFixed(0),
        row.next_tick_us.toFixed(1),
        percent(row.on_cpu),
      ]),
    ]),
  );
  console.log(`\n${goalTable(goals)}`);
}
process.exitCode = goals.every(({ met }) => met) ? 0 : 1;
