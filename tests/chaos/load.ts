import { Random } from "../fuzz/random.ts";
import type { Tier } from "../../schemas/limits.ts";

/** Which jobs are submitted, when and by whom: a pure function of the seed. */

/** `until`: where an account's share of all jobs ends, from 0 to 1. Each share fits the limits of its tier. */
export const ACCOUNTS: readonly { readonly tier: Tier; readonly keys: number; readonly until: number }[] = [
  { tier: "enterprise", keys: 2, until: 0.5 },
  { tier: "enterprise", keys: 1, until: 0.85 },
  { tier: "pro", keys: 2, until: 1 },
];

export interface PlannedJob {
  readonly n: number;
  readonly at_ms: number;
  readonly account: number;
  readonly key: number;
  /** JSON text. Every job's pictures are its own, so that a mixed-up output shows. */
  readonly prompt: string;
  readonly outputs: number;
  /** Its owner changes their mind so long after the submission. */
  readonly cancel_after_ms?: number;
}

/** The shares of jobs that run for seconds, that make several outputs, and whose prompts are large. */
const SLOW = 0.12;
const SEVERAL = 0.12;
const LARGE = 0.02;
const CANCELLED = 0.03;

const colour = (n: number): number => (n * 2_654_435_761) & 0xffffff;

const flat = (n: number, batch_size: number): string =>
  JSON.stringify({
    "1": { class_type: "EmptyImage", inputs: { width: 16, height: 16 + (n % 48), batch_size, color: colour(n) } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: `job-${n}` } },
  });

/** More than a row takes: this prompt lies in R2. */
const large = (n: number): string => {
  const title = "x".repeat(140 * 1024);
  return flat(n, 1).replace('"inputs"', `"_meta":{"title":"${title}"},"inputs"`);
};

/** Keeps the engine busy for some seconds where several run on a core: faults hit it while it runs. */
const slow = (n: number, width: number): string =>
  JSON.stringify({
    "1": { class_type: "LoadImage", inputs: { image: "dusk.png" } },
    "2": {
      class_type: "ImageScale",
      inputs: { image: ["1", 0], upscale_method: "lanczos", width, height: 0, crop: "disabled" },
    },
    "3": { class_type: "ImageBlur", inputs: { image: ["2", 0], blur_radius: 31, sigma: 10 } },
    "4": { class_type: "ImageBlur", inputs: { image: ["3", 0], blur_radius: 31, sigma: 10 } },
    "5": { class_type: "SaveImage", inputs: { images: ["4", 0], filename_prefix: `slow-${n}` } },
  });

/** `jobs` submissions, spread over `seconds`. */
export function loadOf(seed: number, { jobs, seconds }: { jobs: number; seconds: number }): PlannedJob[] {
  const random = new Random(seed ^ 0x10ad);
  return Array.from({ length: jobs }, (_, n) => {
    const share = random.next();
    const account = ACCOUNTS.findIndex(({ until }) => share < until);
    const key = random.int(0, (ACCOUNTS[account]?.keys ?? 1) - 1);
    const kind = random.next();
    const outputs = kind < SLOW + SEVERAL && kind >= SLOW ? random.int(2, 4) : 1;
    const quick = kind < SLOW + SEVERAL + LARGE && kind >= SLOW + SEVERAL ? large(n) : flat(n, outputs);
    return {
      n,
      at_ms: Math.round(((n + random.next()) / jobs) * seconds * 1000),
      account,
      key,
      prompt: kind < SLOW ? slow(n, random.int(700, 1_500)) : quick,
      outputs,
      ...(random.chance(CANCELLED) ? { cancel_after_ms: random.int(50, 3_000) } : {}),
    };
  });
}
