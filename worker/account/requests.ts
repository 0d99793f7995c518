import { TIER_LIMITS } from "../../schemas/limits.ts";
import type { SubmissionOptions } from "../../schemas/job.ts";
import type { PromptNeeds } from "../../schemas/prompt.ts";
import type { Account } from "./account.ts";
import { admit } from "./admission.ts";
import type { Job } from "./jobs.ts";
import { type Gate, passGate } from "./keys.ts";
import { type JobView, viewJob } from "./record.ts";

/** What API clients ask of an account. Every verb counts its request and tells the key's window (contract section 3). */

export interface Submission {
  /** Made by the Worker before the call: repeating the call is harmless. */
  readonly job_id: string;
  /** The prompt's JSON text where it is small enough for a row; absent where it lies in R2. */
  readonly prompt?: string;
  readonly needs: PromptNeeds;
  readonly options: SubmissionOptions;
  readonly webhook_url?: string;
}

/** `value` is there exactly when the gate is open. */
export interface Gated<T> {
  readonly gate: Gate;
  readonly value?: T;
}

export type Submitted =
  | { readonly ok: true; readonly view: JobView }
  | { readonly ok: false; readonly limit: number; readonly queued: number };

/** Authenticates and counts; nothing else. For requests that ask for nothing the account has. */
export function count(account: Account, key_hash: string, now: number): Gate {
  const key = account.key(key_hash);
  const { settings } = account;
  if (!key || !settings) return { ok: false, code: "invalid_api_key" };
  const { gate, window } = passGate(key, settings, now);
  if (gate.ok) account.setWindow(key_hash, window, now);
  return gate;
}

/**
 * Stores a job if the key has a slot or a queue place for it, else says how many places are taken. A job id that is stored
 * already is answered with its record, before anything is counted.
 */
export function submit(account: Account, key_hash: string, submission: Submission, now: number): Gated<Submitted> {
  const { job_id, prompt, needs, options, webhook_url } = submission;
  const key = account.key(key_hash);
  const known = account.load(job_id);
  if (known && key && account.settings) {
    const { gate } = passGate({ ...key, window: { opened_at: 0, used: 0 } }, account.settings, now);
    return gate.ok ? { gate, value: { ok: true, view: viewJob(account, known) } } : { gate };
  }
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const limits = TIER_LIMITS[account.mustSettings.tier];
  const use = account.store.use(key_hash);
  const admission = admit(use, limits);
  if (admission === "full") return { gate, value: { ok: false, limit: limits.queue_depth, queued: use.places } };
  const { metadata, timeout_s, queue_timeout_s, priority } = options;
  const job: Job = {
    job_id,
    key_hash,
    phase: admission === "slot" ? "ready" : "waiting",
    created_at: now,
    priority,
    timeout_s,
    queue_timeout_s,
    queue_until: now + queue_timeout_s * 1000,
    needs,
    prompt_in: prompt === undefined ? "r2" : "row",
    ...(webhook_url === undefined ? {} : { webhook_url }),
    ...(metadata === undefined ? {} : { metadata }),
    fence: 0,
    ever_started: false,
    losses: 0,
    handbacks: 0,
    retries: {},
    avoid: [],
    exclude: [],
    stale: [],
  };
  const stored = account.insert(job, prompt);
  if (job.phase === "ready") {
    account.keepSyncing(now);
    account.owes({ kind: "sync" });
  } else account.settleKey(key_hash, now);
  account.writeBehind();
  return { gate, value: { ok: true, view: viewJob(account, account.load(job_id) ?? stored) } };
}

/** One job of the account, whichever of its keys made it; null where there is none. */
export function getJob(account: Account, key_hash: string, job_id: string, now: number): Gated<JobView | null> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const stored = account.load(job_id);
  return { gate, value: stored ? viewJob(account, stored) : null };
}

export interface JobPage {
  readonly jobs: readonly JobView[];
  readonly has_more: boolean;
}

/** The account's jobs, newest first, after the one with sequence number `before`. */
export function listJobs(
  account: Account,
  key_hash: string,
  page: { readonly limit: number; readonly before?: number },
  now: number,
): Gated<JobPage> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  if (account.unwritten) account.writeBehind();
  const rows = account.store.page(page.before, page.limit + 1);
  const jobs = rows.slice(0, page.limit).map((stored) => viewJob(account, stored));
  return { gate, value: { jobs, has_more: rows.length > page.limit } };
}
