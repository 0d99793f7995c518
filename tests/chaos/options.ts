import { parseArgs } from "node:util";

export const USAGE = `Usage: npm run chaos -- [--jobs 2000] [--seconds N] [--seed N] [--gap SECONDS] [--only KIND,...] [--keep] [--plan]

  --jobs N       how many jobs are submitted, default 2000
  --seconds N    how long jobs are submitted and faults happen; default: a second for every four jobs, at least 70
  --seed N       the same seed makes the same jobs and the same faults at the same times
  --gap SECONDS  between two faults on average, default 3; 0: no faults
  --only KINDS   of the schedule's faults only these kinds, with commas between them
  --keep         logs and storage stay, whatever the end
  --plan         prints the schedule of faults and ends
`;

export interface Options {
  readonly jobs: number;
  readonly seconds: number;
  readonly seed: number;
  readonly gap_s: number;
  readonly only: readonly string[] | undefined;
  readonly keep: boolean;
  readonly plan: boolean;
}

function number(text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new Error(`${text} is not a number`);
}

/** Throws where the arguments are not understood. */
export function parseOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      jobs: { type: "string" },
      seconds: { type: "string" },
      seed: { type: "string" },
      gap: { type: "string" },
      only: { type: "string" },
      keep: { type: "boolean", default: false },
      plan: { type: "boolean", default: false },
    },
  });
  const jobs = number(values.jobs, 2_000);
  return {
    jobs,
    seconds: number(values.seconds, Math.max(70, Math.ceil(jobs / 4))),
    seed: number(values.seed, Date.now() % 1_000_000),
    gap_s: number(values.gap, 3),
    only: values.only?.split(","),
    keep: values.keep,
    plan: values.plan,
  };
}

/** The command that runs the same again. */
export const commandOf = ({ jobs, seconds, seed, gap_s, only }: Options): string =>
  `npm run chaos -- --seed ${seed} --jobs ${jobs} --seconds ${seconds} --gap ${gap_s}${only ? ` --only ${only}` : ""}`;
