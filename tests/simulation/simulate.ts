import { parseArgs } from "node:util";
import { search } from "./crew.ts";
import { MUTATIONS } from "./mutations.ts";
import { trySeed } from "./search.ts";
import { mutated } from "./take-out.ts";
import { histograms, type Tally } from "./tally.ts";

/**
 * `npm run simulate -- [--schedules N] [--seed N] [--one SEED] [--sqlite] [--trace] [--mutations]`: schedules of faults against the
 * product's own decisions (design section 3). Ends with 1 where an invariant breaks, and says with which seed.
 */

const USAGE =
  "npm run simulate -- [--schedules N] [--seed FIRST] [--sqlite]\n" +
  "npm run simulate -- --one SEED [--trace] [--sqlite]\n" +
  "npm run simulate -- --mutations [NAME ...]\n";

const SCHEDULES = 100_000;
/** A rule that so many schedules do not miss is not missed. */
const MUTATED_SCHEDULES = 20_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    schedules: { type: "string" },
    seed: { type: "string", default: "1" },
    one: { type: "string" },
    sqlite: { type: "boolean", default: false },
    trace: { type: "boolean", default: false },
    mutations: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const rates = ({ schedules, steps }: Tally, since: number): string => {
  const seconds = (performance.now() - since) / 1000;
  return `${schedules} schedules, ${(schedules / seconds).toFixed(0)}/s, ${steps} steps, ${(steps / seconds).toFixed(0)}/s`;
};

function whole(text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  process.stderr.write(USAGE);
  process.exit(2);
}

function broken({ violations }: Tally): boolean {
  for (const { seed, invariant, detail } of violations) say(`\nseed ${seed} breaks: ${invariant}\n${detail}`);
  return violations.length > 0;
}

function one(seed: number): boolean {
  const tally = trySeed(seed, { sqlite: values.sqlite, ...(values.trace ? { tell: say } : {}) });
  say(`${tally.steps} steps\n${histograms(tally)}`);
  return !broken(tally);
}

async function many(): Promise<boolean> {
  const since = performance.now();
  let said = since;
  const sum = await search({
    first: whole(values.seed, 0),
    schedules: whole(values.schedules ?? String(SCHEDULES), 1),
    sqlite: values.sqlite,
    progress(now) {
      if (performance.now() < said + 5_000) return;
      said = performance.now();
      say(rates(now, since));
    },
  });
  say(`${histograms(sum)}\n${rates(sum, since)}, ${sum.violations.length} violations`);
  return !broken(sum);
}

/** Each rule is taken out in turn; the simulation must miss it. */
async function mutations(): Promise<boolean> {
  let found = 0;
  const names = positionals.length > 0 ? positionals : MUTATIONS.map(({ name }) => name);
  // No entry of the list outlives the code that it speaks of.
  for (const name of names) mutated(name);
  say("| rule taken out | file | seed | invariant that breaks | schedules |\n| --- | --- | --- | --- | --- |");
  for (const name of names) {
    const schedules = whole(values.schedules ?? String(MUTATED_SCHEDULES), 1);
    const sum = await search({ first: whole(values.seed, 0), schedules, sqlite: values.sqlite, mutation: name });
    const { rule, file } = MUTATIONS.find((mutation) => mutation.name === name) ?? { rule: name, file: "" };
    const [first] = sum.violations.sort((a, b) => a.seed - b.seed);
    if (first) found++;
    say(`| ${rule} | \`${file}\` | ${first?.seed ?? "none"} | ${first?.invariant ?? "none"} | ${sum.schedules} |`);
  }
  say(`\n${found} of ${names.length} are missed.`);
  return found === names.length;
}

if (values.help) say(USAGE);
else {
  const work = values.mutations ? mutations() : values.one === undefined ? many() : one(whole(values.one, 0));
  process.exitCode = (await work) ? 0 : 1;
}
