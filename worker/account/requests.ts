import { type KeyLimits, TIER_LIMITS } from "../../schemas/limits.ts";
import type { SubmissionOptions } from "../../schemas/job.ts";
import type { PromptNeeds } from "../../schemas/prompt.ts";
import type { Account } from "./account.ts";
import { admit } from "./admission.ts";
import { IDEMPOTENCY_MS, type IdempotencyClaim, judgeClaim } from "./idempotency.ts";
import { cancel, type Job } from "./jobs.ts";
import { type Gate, passGate, viewGate } from "./keys.ts";
import { type JobView, viewJob } from "./record.ts";
import type { PageFilter } from "./store.ts";
import { charge } from "./usage.ts";

/** What API clients ask of an account. Every verb counts its request and tells the key's window (contract section 3). */

export interface Submission {
  /** Made by the Worker before the call: repeating the call is harmless. */
  readonly job_id: string;
  /** The prompt's JSON text where it is small enough for a row; absent where it lies in R2. */
  readonly prompt?: string;
  readonly needs: PromptNeeds;
  readonly options: SubmissionOptions;
  readonly webhook_url?: string;
  readonly idempotency?: IdempotencyClaim;
}

/** `value` is there exactly when the gate is open. */
export interface Gated<T> {
  readonly gate: Gate;
  readonly value?: T;
}

export type Submitted =
  | {
      readonly kind: "stored";
      readonly view: JobView;
      /** The status of the first answer, where this is the replay of an earlier submission. */
      readonly replayed?: 200 | 202;
    }
  | { readonly kind: "queue_full"; readonly limit: number; readonly queued: number }
  /** The idempotency key was claimed with another body. */
  | { readonly kind: "reused" }
  /** The replayed job was deleted. */
  | { readonly kind: "deleted" };

/** Old idempotency keys that one new one sweeps up. */
const FORGOTTEN_AT_ONCE = 20;

/** Authenticates and counts; nothing else. For requests that ask for nothing the account has. */
export function count(account: Account, key_hash: string, now: number): Gate {
  const key = account.key(key_hash);
  const { settings } = account;
  if (!key || !settings) return { ok: false, code: "invalid_api_key" };
  const { gate, window } = passGate(key, settings, now);
  if (gate.ok) account.setWindow(key, window, now);
  return gate;
}

/**
 * Stores a job if the key has a slot or a queue place for it, else says how many places are taken. A job id that is stored
 * already is answered with its record, before anything is counted.
 */
export function submit(account: Account, key_hash: string, submission: Submission, now: number): Gated<Submitted> {
  const { job_id, prompt, needs, options, webhook_url, idempotency } = submission;
  const key = account.key(key_hash);
  const known = account.load(job_id);
  if (known && key && account.settings) {
    const gate = viewGate(key, account.settings, now);
    return gate.ok ? { gate, value: { kind: "stored", view: viewJob(account, known) } } : { gate };
  }
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const replay = idempotency && replayOf(account, idempotency, now);
  if (replay) return { gate, value: replay };
  const limits = TIER_LIMITS[account.mustSettings.tier];
  const use = account.store.use(key_hash);
  const admission = admit(use, limits);
  if (admission === "full")
    return { gate, value: { kind: "queue_full", limit: limits.queue_depth, queued: use.places } };
  const { metadata, timeout_s, queue_timeout_s, priority } = options;
  const job: Job = {
    job_id,
    key_hash,
    phase: admission === "slot" ? "ready" : "waiting",
    // Never before an older job's, whatever the clock does: the list's order and its times agree.
    created_at: Math.max(now, account.store.lastCreatedAt()),
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
  charge(account.store, key_hash, { jobs: 1 }, now);
  if (idempotency) {
    account.store.putIdempotency({ ...idempotency, job_id, status: 202, created_at: now });
    account.store.forgetIdempotency(now - IDEMPOTENCY_MS, FORGOTTEN_AT_ONCE);
  }
  if (job.phase === "ready") {
    account.keepSyncing(now);
    account.owes({ kind: "sync" });
  } else account.settleKey(key_hash, now);
  account.writeBehind();
  return { gate, value: { kind: "stored", view: viewJob(account, account.load(job_id) ?? stored) } };
}

function replayOf(account: Account, claim: IdempotencyClaim, now: number): Submitted | undefined {
  const entry = account.store.idempotency(claim.idempotency_key);
  const stored = entry && account.load(entry.job_id);
  const judged = judgeClaim(entry, claim, stored !== undefined && stored.job.phase !== "ended", now);
  if (judged.kind === "free") return undefined;
  if (judged.kind === "reused") return { kind: "reused" };
  return stored ? { kind: "stored", view: viewJob(account, stored), replayed: judged.status } : { kind: "deleted" };
}

/** For a submission that is refused for its webhook URL or graph: whether its idempotency key is claimed with another body. */
export function isReused(account: Account, key_hash: string, claim: IdempotencyClaim, now: number): Gated<boolean> {
  const gate = count(account, key_hash, now);
  return gate.ok ? { gate, value: replayOf(account, claim, now)?.kind === "reused" } : { gate };
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

/** The account's jobs, newest first. */
export function listJobs(
  account: Account,
  key_hash: string,
  { limit, ...filter }: PageFilter & { readonly limit: number },
  now: number,
): Gated<JobPage> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  if (account.unwritten) account.writeBehind();
  const rows = account.store.page(filter, limit + 1);
  const jobs = rows.slice(0, limit).map((stored) => viewJob(account, stored));
  return { gate, value: { jobs, has_more: rows.length > limit } };
}

/** Cancels a job that has not ended; one that has is shown as it is. Null where there is none. */
export function cancelJob(account: Account, key_hash: string, job_id: string, now: number): Gated<JobView | null> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  return { gate, value: cancelStored(account, job_id, now) };
}

/** Cancels a job, whoever asks; counts nothing. */
export function cancelStored(account: Account, job_id: string, now: number): JobView | null {
  const stored = account.load(job_id);
  const step = stored && cancel(stored.job, account.retention, now);
  if (step) account.apply(step, now);
  return stored ? viewJob(account, step ? { ...stored, job: step.job } : stored) : null;
}

export type Deleted = "deleted" | "not_finished" | "not_found";

/** Removes an ended job: its record, outputs and owed deliveries. */
export function deleteJob(account: Account, key_hash: string, job_id: string, now: number): Gated<Deleted> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const job = account.load(job_id)?.job;
  if (!job) return { gate, value: "not_found" };
  if (job.phase !== "ended") return { gate, value: "not_finished" };
  account.remove(job, now);
  return { gate, value: "deleted" };
}

export function limits(account: Account, key_hash: string, now: number): Gated<KeyLimits> {
  const gate = count(account, key_hash, now);
  if (!gate.ok) return { gate };
  const { tier } = account.mustSettings;
  const { slots, places } = account.store.use(key_hash);
  return { gate, value: { tier, limits: TIER_LIMITS[tier], running: slots, queued: places } };
}

/**
 * The job after a wait. Counts nothing, but asks again who may see it: a key that was revoked meanwhile gets no answer.
 * @param submitted the wait belongs to a submission: an idempotent replay of it will get the same status
 */
export function lookAgain(
  account: Account,
  key_hash: string,
  job_id: string,
  submitted: boolean,
  now: number,
): Gated<JobView | null> {
  const key = account.key(key_hash);
  const { settings } = account;
  if (!key || !settings) return { gate: { ok: false, code: "invalid_api_key" } };
  const gate = viewGate(key, settings, now);
  if (!gate.ok) return { gate };
  const stored = account.load(job_id);
  if (submitted && stored?.job.phase === "ended") account.store.answeredAtOnce(job_id);
  return { gate, value: stored ? viewJob(account, stored) : null };
}
