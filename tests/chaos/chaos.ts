import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onStopSignal } from "../../scripts/local/signals.ts";
import { Ledger } from "./ledger.ts";
import { commandOf, type Options, parseOptions, USAGE } from "./options.ts";
import { startEventReceiver } from "./receiver.ts";
import { report } from "./report.ts";
import { run } from "./run.ts";
import { describeFault, scheduleOf } from "./schedule.ts";
import { type ChaosStack, startChaosStack } from "./stack.ts";

/**
 * The whole service under faults: real worker, four real runners, hundreds of short jobs, while a seeded schedule breaks what can
 * break. When the faults are over everything must come to rest, and nothing may be lost, doubled or left behind.
 */

function readOptions(): Options {
  try {
    return parseOptions(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    process.exit(2);
  }
}

const options = readOptions();
const { jobs, seconds, seed, gap_s, only, keep, plan } = options;
const faults = (gap_s === 0 ? [] : scheduleOf(seed, options)).filter(({ kind }) => only?.includes(kind) ?? true);
if (plan) {
  for (const fault of faults) console.log(`${(fault.at_ms / 1000).toFixed(1).padStart(7)} s  ${describeFault(fault)}`);
  process.exit(0);
}

const started = Date.now();
const since = (from: number): string => `${((Date.now() - from) / 1000).toFixed(1)} s`;
const folder = await mkdtemp(join(tmpdir(), "darkroom-chaos-"));
console.log(`seed ${seed}: ${jobs} jobs and ${faults.length} faults in ${seconds} s`);
console.log(`again  ${commandOf(options)}`);
console.log(`logs   ${folder}`);

let zero = started;
const say = (line: string): void => console.log(`${since(zero).padStart(9)}  ${line}`);
const unexpected: string[] = [];
let stack: ChaosStack | undefined;
let interrupted = false;
onStopSignal(async () => {
  interrupted = true;
  await stack?.stop();
});
try {
  const root = join(import.meta.dirname, "..", "..");
  const ledger = new Ledger();
  const receiver = await startEventReceiver((delivery) => ledger.delivered(delivery));
  stack = await startChaosStack({ root, folder, say, unexpected: (what) => unexpected.push(what) });
  say("everything runs");
  zero = Date.now();
  const outcome = await run({ ...options, stack, receiver, ledger, faults, unexpected, say });
  await stack.stop();
  await receiver.close();
  console.log(report(outcome, { ledger, traffic: stack.traffic, lines: stack.lines }));
  const rest = (outcome.rest_ms / 1000).toFixed(1);
  console.log(`\nseed ${seed}, ${since(started)} in all, at rest ${rest} s after the last fault`);
  for (const violation of outcome.violations) console.log(`VIOLATION ${violation}`);
  if (outcome.violations.length === 0) {
    if (!keep) await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    console.log("no violations");
    process.exit(0);
  }
  console.log(`${outcome.violations.length} violations; logs and storage are in ${folder}`);
} catch (error) {
  if (!interrupted) console.error(error);
  await stack?.stop();
}
process.exit(1);
