import type { JobRecord } from "../../schemas/job.ts";
import { MAX_ATTEMPTS } from "../../schemas/limits.ts";
import { decodeRemoval } from "../../worker/account/outbox.ts";
import type { CarefulClient } from "./client.ts";
import { type AccountState, POISONED } from "./inspection.ts";
import type { Entry, Ledger } from "./ledger.ts";
import { RUNNERS } from "./schedule.ts";
import type { ChaosAccount, ChaosStack } from "./stack.ts";

/** What must hold when everything has come to rest. Each check returns its violations, one text each. */

export interface Run {
  readonly stack: ChaosStack;
  readonly client: CarefulClient;
  readonly ledger: Ledger;
  /** Timers that were poisoned for certain. */
  readonly poisoned: number;
}

const OPEN = ["waiting", "ready", "placed", "running"] as const;
/** The only ends that these faults may give a job besides completion. */
const EXCUSED: ReadonlySet<string> = new Set(["runner_lost", "output_upload_failed"]);
/** The share of jobs that must complete, those aside that their owners cancelled. */
const LEAST_COMPLETED = 0.75;
/** A removal that is overdue by more than this is stuck. */
const OVERDUE_MS = 60_000;

const openJobs = ({ phases }: AccountState): number => OPEN.reduce((sum, phase) => sum + (phases[phase] ?? 0), 0);

/** What is not at rest yet; empty when everything is. Rejects while the service does not answer. */
export async function unrest({ stack }: Pick<Run, "stack">): Promise<string[]> {
  const { status, runners } = await stack.edge.fleet();
  const states = await Promise.all(stack.accounts.map(({ account_id }) => stack.edge.account(account_id)));
  const sum = (count: (state: AccountState) => number): number => states.reduce((n, state) => n + count(state), 0);
  const open = sum(openJobs);
  const pending = sum(({ deliveries }) => deliveries.pending ?? 0);
  const listed = runners.flatMap(({ executions }) => executions).map(({ job, fence }) => `${job}.${fence}`);
  const found: string[] = [];
  if (open > 0) found.push(`${open} jobs are open`);
  if (pending > 0) found.push(`${pending} deliveries are under way`);
  if (status.seats_taken > 0) found.push(`${status.seats_taken} seats are taken`);
  if (status.tickets_waiting > 0) found.push(`${status.tickets_waiting} tickets wait`);
  if (status.runners.active !== RUNNERS) found.push(`runners are ${JSON.stringify(status.runners)}`);
  // While jobs are open their executions are no news.
  if (listed.length > 0)
    found.push(`${listed.length} executions are listed${open > 0 ? "" : `: ${listed.join(", ")}`}`);
  return found;
}

/** Every job of the account as the list shows it. The ledger compares each with what it has seen. */
async function listAll(client: CarefulClient, { keys }: ChaosAccount): Promise<JobRecord[]> {
  const [access] = keys;
  const jobs: JobRecord[] = [];
  for (let cursor: string | undefined; access; ) {
    const page = await client.list(access, cursor);
    jobs.push(...page.jobs);
    cursor = page.next_cursor;
    if (!page.has_more || cursor === undefined) break;
  }
  return jobs;
}

function jobViolations(entries: readonly Entry[], listed: readonly JobRecord[]): string[] {
  const found: string[] = [];
  const known = new Map(entries.map((entry) => [entry.job_id, entry]));
  const seen = new Set<string>();
  const numbers = new Map<unknown, string>();
  for (const { job_id, status, attempt = 0, error, outputs, metadata } of listed) {
    const job = `job ${job_id}`;
    const entry = known.get(job_id);
    if (seen.has(job_id)) found.push(`${job} is listed twice`);
    seen.add(job_id);
    const twin = numbers.get(metadata?.n);
    if (twin !== undefined) found.push(`submission ${metadata?.n} made ${twin} and ${job_id}`);
    numbers.set(metadata?.n, job_id);
    if (!entry) {
      found.push(`${job} is listed and its submission was never answered`);
      continue;
    }
    if (!entry.end) found.push(`${job} is ${status} and was never seen to end`);
    if (attempt > MAX_ATTEMPTS) found.push(`${job} is in attempt ${attempt}`);
    if (status === "completed" && outputs?.files.length !== entry.planned.outputs)
      found.push(`${job} has ${outputs?.files.length} outputs, not ${entry.planned.outputs}`);
    if (status === "cancelled" && entry.planned.cancel_after_ms === undefined)
      found.push(`${job} is cancelled and nobody had asked for it`);
    if (status === "failed" && !EXCUSED.has(error?.code ?? "")) found.push(`${job} failed: ${JSON.stringify(error)}`);
  }
  for (const { job_id } of entries) if (!seen.has(job_id)) found.push(`job ${job_id} was accepted and is not listed`);
  const wanted = listed.filter(({ status }) => status !== "cancelled");
  const completed = wanted.filter(({ status }) => status === "completed").length;
  if (completed < wanted.length * LEAST_COMPLETED) found.push(`only ${completed} of ${wanted.length} jobs completed`);
  return found;
}

/** Every picture that was promised is there, byte for byte, and nothing else unless its removal is owed. */
async function outputViolations(run: Run, entries: readonly Entry[], states: readonly AccountState[]) {
  const found: string[] = [];
  const promised = new Map<string, { job: string; sha256: string }>();
  for (const { job_id, end } of entries) {
    for (const { url, sha256 } of end?.outputs?.files ?? []) {
      // /outputs/<class>/<account>/<job>/<fence>/<n>/<file name>
      const key = `o/${new URL(url).pathname.split("/").slice(2, 7).join("/")}`;
      promised.set(key, { job: job_id, sha256 });
      const fence = Number(key.split("/")[4]);
      const reported = run.stack.traffic.resultOf(job_id);
      if (reported !== undefined && reported !== fence)
        found.push(`job ${job_id} shows outputs of execution ${fence}; the result of ${reported} was taken`);
    }
  }
  const owed = states
    .flatMap(({ timers }) => timers)
    .filter(({ kind, ref }) => kind === "removal" && !ref.startsWith(POISONED))
    .map((timer) => decodeRemoval({ ...timer, kind: "removal" }).key);
  const stored = new Map((await run.stack.edge.stored("o")).map((output) => [output.key, output]));
  for (const [key, { job, sha256 }] of promised) {
    const output = stored.get(key);
    if (!output) found.push(`output ${key} of job ${job} is gone`);
    else if (output.sha256 !== sha256) found.push(`output ${key} of job ${job} has other bytes than promised`);
  }
  const spare = [...stored.keys()].filter((key) => !promised.has(key));
  const covered = spare.filter((key) => owed.some((prefix) => key.startsWith(prefix)));
  for (const key of spare) if (!covered.includes(key)) found.push(`output ${key} is orphaned`);
  return { found, covered, owed: owed.length, stored: stored.size };
}

/** Prompts go with the end of their jobs, and runners keep nothing of an execution. */
async function remainsViolations({ stack, ledger }: Run, states: readonly AccountState[]): Promise<string[]> {
  const found: string[] = [];
  const rows = states.reduce((sum, { prompts }) => sum + prompts, 0);
  if (rows > 0) found.push(`${rows} prompts of ended jobs lie in rows`);
  // One whose submission was never answered, and was repeated, is the lifecycle rule's.
  for (const { key } of await stack.edge.stored("prompts"))
    if (ledger.get(key.split("/")[2] ?? "")) found.push(`the prompt ${key} of an ended job is stored`);
  for (const name of await stack.scratch()) found.push(`a runner keeps files of execution ${name}`);
  return found;
}

function webhookViolations({ ledger }: Run, listed: readonly JobRecord[]): string[] {
  const found: string[] = ledger.strays.map((job_id) => `a webhook came for job ${job_id}, which nobody submitted`);
  for (const { job_id, status, webhook } of listed) {
    const events = [...(ledger.get(job_id)?.events ?? [])];
    const named = events.map(([name, count]) => `${name} (${count} times)`).join(", ");
    if (events.length !== 1)
      found.push(`job ${job_id} has ${events.length} events: ${named || JSON.stringify(webhook)}`);
    else if (events[0]?.[0] !== `evt_${job_id} job.${status} ${status}`)
      found.push(`job ${job_id} is ${status}, its event is ${named}`);
  }
  return found;
}

async function slotViolations({ client, stack }: Run): Promise<string[]> {
  const found: string[] = [];
  for (const { account_id, keys } of stack.accounts) {
    for (const [n, key] of keys.entries()) {
      const limits = await client.limits(key);
      if (limits?.running !== 0 || limits.queued !== 0)
        found.push(`key ${n} of account ${account_id} holds ${limits?.running} slots and ${limits?.queued} places`);
    }
  }
  return found;
}

function timerViolations(states: readonly AccountState[], poisoned: number, now: number): string[] {
  const found: string[] = [];
  const timers = states.flatMap((state) => state.timers);
  const bad = timers.filter(({ ref }) => ref.startsWith(POISONED));
  if (bad.length < poisoned) found.push(`${poisoned} timers were poisoned, ${bad.length} are left`);
  for (const { ref, tries } of bad) if (tries === 0) found.push(`the timer "${ref}" was never tried`);
  for (const { kind, ref, due_at, tries } of timers) {
    if (kind === "delivery") found.push(`a delivery's timer is left: ${ref}`);
    if (kind === "removal" && !ref.startsWith(POISONED) && due_at < now - OVERDUE_MS)
      found.push(`the removal ${ref} is overdue for ${Math.round((now - due_at) / 1000)} s (${tries} tries)`);
  }
  for (const { phases, job_timers } of states) {
    const jobs = Object.values(phases).reduce((sum, n) => sum + n, 0);
    if (job_timers !== jobs) found.push(`${jobs} jobs have ${job_timers} deadlines`);
  }
  return found;
}

export interface Findings {
  readonly violations: readonly string[];
  readonly jobs: readonly JobRecord[];
  readonly stored: number;
  /** Stored outputs of losing executions whose removal is on record. */
  readonly covered: readonly string[];
  readonly owed: number;
}

/** Looks at everything from outside and inside. */
export async function check(run: Run): Promise<Findings> {
  const { stack, client, ledger, poisoned } = run;
  const jobs = (await Promise.all(stack.accounts.map((account) => listAll(client, account)))).flat();
  const { entries } = ledger;
  const states = await Promise.all(stack.accounts.map(({ account_id }) => stack.edge.account(account_id)));
  const outputs = await outputViolations(run, entries, states);
  const violations = [
    ...jobViolations(entries, jobs),
    ...outputs.found,
    ...webhookViolations(run, jobs),
    ...(await slotViolations(run)),
    ...(await remainsViolations(run, states)),
    ...timerViolations(states, poisoned, Date.now()),
    // Last: the lists above are compared as well.
    ...ledger.violations,
    ...stack.traffic.violations,
  ];
  return { violations, jobs, stored: outputs.stored, covered: outputs.covered, owed: outputs.owed };
}
