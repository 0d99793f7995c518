import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Miniflare } from "miniflare";
import { bundledWorker, workerdOptions } from "../scripts/local/workerd.ts";
import { type Goal, goalTable, percent, table } from "./fairness/table.ts";
import type { Plan, Report } from "./fleet-object/report.ts";

/**
 * The real fleet object in workerd: can it hold 200 jobs a second, each offered, placed and released by calls of an account, while
 * 1,000 runners beat every 5 s? And what is the most it holds?
 *
 *   node bench/fleet-object.ts [--seconds 60] [--rate 200] [--accounts 2000] [--runners 1000] [--most] [--json]
 *
 * The driver plays accounts and runners in the same isolate, so its own time is a part of everything; a fleet that does nothing
 * tells how large a part. workerd's clock stands still within a turn and counts whole milliseconds.
 */

const { values: options } = parseArgs({
  options: {
    seconds: { type: "string", default: "60" },
    warmup: { type: "string", default: "10" },
    rate: { type: "string", default: "200" },
    accounts: { type: "string", default: "2000" },
    runners: { type: "string", default: "1000" },
    seats: { type: "string", default: "1" },
    most: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const rate = Number(options.rate);
const runners = Number(options.runners);
const seats = Number(options.seats);
/** Part of the seats that is in use at every rate: enough are free to work off what a stall leaves behind. */
const LOAD = 0.7;
const MOST_RATES = [300, 400, 500, 600, 800, 1_000, 1_200];
const MOST_SECONDS = 15;
/** Held: as many end as are offered, but for what is under way at the end. */
const HELD = 0.98;

const planOf = (jobs_per_s: number, seconds: number, fleet: Plan["fleet"]): Plan => ({
  fleet,
  accounts: Number(options.accounts),
  runners,
  seats,
  jobs_per_s,
  length_ms: (LOAD * runners * seats * 1_000) / jobs_per_s,
  warmup_s: Number(options.warmup),
  seconds,
});

/** Seconds since its start that this process's workerd has had a processor, and that it was ready and had none. */
interface Cpu {
  readonly used: number;
  readonly starved: number;
}

async function workerdCpu(): Promise<Cpu> {
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
    const [, name, rest] = /\((.*)\) (.*)$/.exec(stat.trim()) ?? [];
    if (name !== "workerd" || Number(rest?.split(" ")[1]) !== process.pid) continue;
    let [used, starved] = [0, 0];
    for (const thread of await readdir(`/proc/${pid}/task`)) {
      const [ran = 0, waited = 0] = (await readFile(`/proc/${pid}/task/${thread}/schedstat`, "utf8").catch(() => ""))
        .split(" ")
        .map(Number);
      used += ran / 1e9;
      starved += waited / 1e9;
    }
    return { used, starved };
  }
  return { used: Number.NaN, starved: Number.NaN };
}

const root = join(import.meta.dirname, "..");
const worker = await bundledWorker(root, "bench/fleet-object/entry.ts");

interface Measured extends Report {
  readonly plan: Plan;
  /** Part of one processor that workerd uses, the driver included; and that by a job released, in milliseconds. */
  readonly cpu_share: number;
  /** Part of the time in which it was ready and others had the processors: where this is large, the machine was measured. */
  readonly starved_share: number;
  readonly cpu_ms_a_job: number;
}

/** Each plan on a workerd of its own, with a roster of its own. */
async function measure(plan: Plan): Promise<Measured> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-fleet-"));
  const mf = new Miniflare(
    workerdOptions(worker, {
      storage: folder,
      durableObjects: { NULL_FLEET: { className: "NullFleet", useSQLite: true } },
      log: (line) => console.error(line),
    }),
  );
  try {
    await mf.ready;
    const samples: (Cpu & { readonly at: number })[] = [];
    const sampling = setInterval(() => void workerdCpu().then((cpu) => samples.push({ at: Date.now(), ...cpu })), 500);
    const response = await mf
      .dispatchFetch("http://bench.example/", { method: "POST", body: JSON.stringify(plan) })
      .finally(() => clearInterval(sampling));
    if (!response.ok) throw new Error(await response.text());
    const report = (await response.json()) as Report;
    const within = samples.filter(({ at }) => at >= report.from && at <= report.until);
    const [first, last] = [within[0], within.at(-1)];
    const part = (of: (sample: Cpu) => number): number =>
      first && last ? (of(last) - of(first)) / ((last.at - first.at) / 1_000) : Number.NaN;
    const cpu_share = part(({ used }) => used);
    const starved_share = part(({ starved }) => starved);
    return {
      ...report,
      plan,
      cpu_share,
      starved_share,
      cpu_ms_a_job: (cpu_share * 1_000 * plan.seconds) / Math.max(1, report.released),
    };
  } finally {
    await mf.dispose();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const say = (line: string): void => {
  if (!options.json) console.log(line);
};
const seconds = Number(options.seconds);
const held = (one: Measured): boolean =>
  one.failures === 0 && one.placed >= HELD * one.offered && one.released >= HELD * one.offered;
const ms = (value: number): string => value.toFixed(0);

say(
  `${options.accounts} accounts, ${runners} runners with ${seats} seats, ${percent(LOAD)} of them in use; ${seconds} s`,
);
const nothing = await measure(planOf(rate, Math.min(20, seconds), "null"));
const real = await measure(planOf(rate, seconds, "real"));
const measured = [nothing, real];
if (options.most)
  for (const jobs_per_s of MOST_RATES) {
    const one = await measure(planOf(jobs_per_s, MOST_SECONDS, "real"));
    measured.push(one);
    if (!held(one)) break;
  }
const most = Math.max(
  0,
  ...measured.filter((one) => one.plan.fleet === "real" && held(one)).map(({ plan }) => plan.jobs_per_s),
);

say(
  table([
    [
      "fleet",
      "jobs/s",
      "offered",
      "placed",
      "released",
      "sync/s",
      "beats/s",
      "news/s",
      "CPU",
      "starved",
      "CPU ms/job",
      "rows/job",
    ],
    ...measured.map((one) => [
      one.plan.fleet,
      String(one.plan.jobs_per_s),
      String(one.offered),
      String(one.placed),
      String(one.released),
      (one.sync.count / one.plan.seconds).toFixed(0),
      (one.beat.count / one.plan.seconds).toFixed(0),
      (one.news / one.plan.seconds).toFixed(0),
      percent(one.cpu_share),
      percent(one.starved_share),
      one.cpu_ms_a_job.toFixed(2),
      (one.rows_written / one.offered).toFixed(3),
    ]),
  ]),
);
say("\nmilliseconds: median / p99 / worst");
say(
  table([
    ["fleet", "jobs/s", "sync", "beat", "ticket to placement", "driver late", "alarms set/s", "waiting", "lost"],
    ...measured.map((one) => [
      one.plan.fleet,
      String(one.plan.jobs_per_s),
      ...[one.sync, one.beat, one.wait, one.late].map(
        ({ median_ms, p99_ms, worst_ms }) => `${ms(median_ms)} / ${ms(p99_ms)} / ${ms(worst_ms)}`,
      ),
      (one.alarms_set / one.plan.seconds).toFixed(2),
      String(one.tickets_waiting),
      String(one.lost),
    ]),
  ]),
);
say(`
The fleet object itself: ${(real.cpu_ms_a_job - nothing.cpu_ms_a_job).toFixed(2)} CPU ms a job, beats and ticks included; ${((real.sync.count + real.news) / real.offered).toFixed(2)} calls between account and fleet a job.`);
if (options.most) say(`The most that was held: ${most} jobs a second.`);

const goals: Goal[] = [
  {
    name: `holds ${rate} jobs a second`,
    value: `${(real.released / seconds).toFixed(1)}/s`,
    goal: `>= ${HELD * rate}/s`,
    met: held(real),
  },
  {
    name: "rows written a job",
    value: (real.rows_written / real.offered).toFixed(3),
    goal: "0",
    met: real.rows_written / real.offered < 0.01,
  },
];
say(`\n${goalTable(goals)}`);
if (options.json) console.log(JSON.stringify({ measured, most, goals }, null, 2));
process.exit(goals.every(({ met }) => met) ? 0 : 1);
