import { check, type Findings, unrest } from "./checks.ts";
import { CarefulClient } from "./client.ts";
import { inject } from "./inject.ts";
import type { Ledger } from "./ledger.ts";
import { LAST_REPLAY_MS } from "./lines.ts";
import { loadOf } from "./load.ts";
import type { EventReceiver } from "./receiver.ts";
import { describeFault, type Fault, type FaultKind } from "./schedule.ts";
import type { ChaosStack } from "./stack.ts";

/** One run over a started stack: submissions, looks and faults side by side, then rest, then the checks. */

/**
 * After the last fault: an outage holds losses back for 60 s, a dispatch of unknown outcome is repeated for 60 s and judged by two
 * beats, a seat that nobody mentions is void after 150 s, a webhook takes up to 36 s of retries and 20 s for each lost message.
 */
const REST_WITHIN_MS = 300_000;
const LOOK_EVERY_MS = 1_000;
const TELL_EVERY_MS = 5_000;
/** The oldest open jobs of each account, looked at one by one. */
const LOOKS = 3;
/** Every so manyth round of looks takes the list's first page too. */
const LIST_EVERY = 3;

export interface RunOptions {
  readonly stack: ChaosStack;
  readonly receiver: EventReceiver;
  readonly ledger: Ledger;
  readonly faults: readonly Fault[];
  readonly seed: number;
  readonly jobs: number;
  readonly seconds: number;
  /** What nothing explains; the run adds to it. */
  readonly unexpected: string[];
  say(line: string): void;
}

export interface Outcome extends Findings {
  /** Faults that were carried out. */
  readonly applied: ReadonlyMap<FaultKind, number>;
  /** What the client met and repeated. */
  readonly troubles: ReadonlyMap<string, number>;
  /** From the last fault and the last submission until everything was at rest. */
  readonly rest_ms: number;
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)));

export async function run(options: RunOptions): Promise<Outcome> {
  const { stack, receiver, ledger, faults, seed, unexpected, say } = options;
  const client = new CarefulClient(ledger, seed);
  const applied = new Map<FaultKind, number>();
  const zero = Date.now();

  async function submitAll(): Promise<void> {
    const submissions = loadOf(seed, options).map(async (planned) => {
      await wait(zero + planned.at_ms - Date.now());
      const access = stack.accounts[planned.account]?.keys[planned.key];
      if (!access) throw new Error(`No key for submission ${planned.n}.`);
      const job_id = await client.submit(access, planned, receiver.url(planned.account));
      if (planned.cancel_after_ms === undefined) return;
      await wait(planned.cancel_after_ms);
      await client.cancel(access, job_id);
    });
    for (const result of await Promise.allSettled(submissions))
      if (result.status === "rejected") unexpected.push(String(result.reason));
  }

  /** Looks at jobs as their owners do, until told to stop. */
  async function watch(signal: AbortSignal): Promise<void> {
    await Promise.all(
      stack.accounts.map(async ({ keys: [access] }, account) => {
        for (let round = 0; access && !signal.aborted; round++) {
          await wait(LOOK_EVERY_MS);
          const open = ledger.entries.filter(({ end, planned }) => !end && planned.account === account);
          await Promise.all([
            ...(round % LIST_EVERY === 0 ? [client.list(access)] : []),
            ...open.slice(0, LOOKS).map(({ job_id }) => client.look(access, job_id)),
          ]).catch((error: unknown) => unexpected.push(String(error)));
        }
      }),
    );
  }

  async function breakOne(fault: Fault): Promise<void> {
    await wait(zero + fault.at_ms - Date.now());
    say(describeFault(fault));
    try {
      if (await inject(fault, { stack, lasting: wait, note: say }))
        applied.set(fault.kind, (applied.get(fault.kind) ?? 0) + 1);
      else say(`${fault.kind} could not be carried out`);
    } catch (error) {
      unexpected.push(`${describeFault(fault)}: ${error}`);
    }
    if (fault.for_ms > 0) say(`${fault.kind}${"runner" in fault ? ` runner ${fault.runner}` : ""} is over`);
  }

  /** Resolves with what is still not at rest when the time is over; with nothing when everything is. */
  async function untilRest(): Promise<string[]> {
    const deadline = Date.now() + REST_WITHIN_MS;
    for (let told = 0; ; ) {
      const left = await unrest({ stack }).catch((error: unknown) => [String(error)]);
      if (left.length === 0) return [];
      if (Date.now() > deadline) return left.map((what) => `not at rest after ${REST_WITHIN_MS / 1000} s: ${what}`);
      if (Date.now() > told + TELL_EVERY_MS) {
        say(left.join(", "));
        told = Date.now();
      }
      await wait(LOOK_EVERY_MS);
    }
  }

  for (const [n, { webhook_secret }] of stack.accounts.entries()) receiver.expect(n, webhook_secret);
  const watching = new AbortController();
  const watched = watch(watching.signal);
  await Promise.all([submitAll(), ...faults.map(breakOne)]);
  const calm = Date.now();
  say("faults and submissions are over");
  const restless = await untilRest();
  const rest_ms = Date.now() - calm;
  // The last stale report comes when everything has long been decided.
  if (faults.length > 0) await wait(calm + LAST_REPLAY_MS - Date.now());
  watching.abort();
  await watched;
  say("looking at everything");
  const findings = await check({ stack, client, ledger, poisoned: applied.get("poison_timer") ?? 0 });
  const forged = receiver.forged();
  if (forged > 0) unexpected.push(`${forged} webhooks were not authentic`);
  return {
    ...findings,
    applied,
    troubles: client.troubles,
    rest_ms,
    violations: [...restless, ...findings.violations, ...unexpected],
  };
}
