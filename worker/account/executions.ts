import type { EndReport, ProgressReport } from "../../schemas/runner-protocol.ts";
import { TIER_RETENTION } from "../../schemas/limits.ts";
import type { FleetNews, SeatOutcome, SyncAnswer, Verdict } from "../fleet/sync.ts";
import type { Account } from "./account.ts";
import { end, outcomeOf } from "./job-end.ts";
import { giveUp, lose, place } from "./job-placement.ts";
import { abandon, accept, DISPATCH_REPEAT_MS, type Job, type Reporter, refuse, type Step } from "./jobs.ts";
import { charge, gpuTime } from "./usage.ts";

/** What fleet, dispatcher and runners tell an account of its executions (design section 6). */

/** Applies placements, impossible tickets and verdicts. An answer and a callback are the same news; repeats change nothing. */
export function applyNews(account: Account, pool: string, news: FleetNews, now: number): void {
  const retention = TIER_RETENTION[account.mustSettings.tier];
  const { links, mustSettings: settings } = account;
  for (const { job: job_id, fence, runner, boot, url, jkt } of news.placed) {
    const job = account.load(job_id)?.job;
    const placed = job && !settings.suspended && place(job, fence, { pool, runner, boot, url, jkt, retention }, now);
    if (placed) account.putPlaced(placed, now);
    else if (job?.fence !== fence || job.placement?.runner !== runner) {
      // One that was never written was never posted: its seat is free. Of any other its runner has the last word.
      const elsewhere = job?.fence === fence && job.placement !== undefined;
      if (job && (job.fence < fence || elsewhere)) links.freed(pool, { job: job_id, fence, runner, outcome: "unused" });
      else links.dropped(pool, { job: job_id, fence });
      account.owes({ kind: "sync" });
    }
  }
  for (const { job: job_id, fence, hopeless } of news.impossible) {
    links.of(pool).impossible({ job: job_id, fence }, hopeless);
    const job = links.isHopeless(settings, { job: job_id, fence }) ? account.load(job_id)?.job : undefined;
    const step = job && giveUp(job, fence, now);
    if (step) account.apply(step, now);
  }
  for (const { job: job_id, fence, verdict, beat, running_ms } of news.verdicts) {
    const job = account.load(job_id)?.job;
    // A fleet judges its own executions: the same ticket may have been placed by two, and one of them was given back.
    if (job?.placement?.pool !== pool) continue;
    if (verdict === "held" && beat) hearAcceptance(account, job, fence, { beat, running_ms: running_ms ?? 0 }, now);
    const step = judgedStep(job, fence, verdict, now);
    if (step) account.apply(step, now);
  }
}

function judgedStep(job: Job, fence: number, verdict: Verdict["verdict"], now: number): Step | undefined {
  switch (verdict) {
    case "lost":
      return lose(job, fence, now);
    case "revoked":
      return lose(job, fence, now, "reported");
    case "refused":
      return refuse(job, fence, "undecided");
    case "held":
    case "unknown":
      return undefined;
  }
}

/** A fleet's answer to a request of the account. */
export function syncAnswered(account: Account, pool: string, answer: SyncAnswer, now: number): void {
  const { links, store, mustSettings: settings } = account;
  links.of(pool).answered(answer);
  applyNews(account, pool, answer, now);
  if (store.inPhases(["ready", "placed", "running"], 1).length === 0) return;
  account.keepSyncing(now, links.nextLookIn(settings, now));
}

function hearAcceptance(
  account: Account,
  job: Job,
  fence: number,
  word: Pick<ProgressReport, "beat" | "running_ms">,
  now: number,
): void {
  if (accept(job, fence, word, now)) account.hear(job.job_id, fence, word, now);
}

/** What became of one posting of a dispatch. `unknown` means that the runner may have it. */
export type DispatchAnswer =
  | ({ readonly kind: "accepted" } & Pick<ProgressReport, "beat" | "running_ms">)
  | {
      readonly kind: "refused";
      readonly outcome: Extract<SeatOutcome, "refused" | "refused_boot" | "refused_full" | "strike">;
    }
  /** The prompt is not to be had any more. */
  | { readonly kind: "no_prompt" }
  | { readonly kind: "unknown"; readonly reason: string };

/** A posted dispatch was answered. Acts on a `placed` row with that fence only. */
export function dispatchAnswered(
  account: Account,
  job_id: string,
  fence: number,
  answer: DispatchAnswer,
  now: number,
): void {
  const job = account.load(job_id)?.job;
  if (job?.phase !== "placed" || job.fence !== fence) return;
  if (answer.kind === "accepted") hearAcceptance(account, job, fence, answer, now);
  const step =
    answer.kind === "refused"
      ? refuse(job, fence, answer.outcome)
      : answer.kind === "no_prompt"
        ? abandon(job, { code: "internal_error", message: "The stored prompt of this job is gone." }, now)
        : undefined;
  if (step) account.apply(step, now);
}

/** Whether a dispatch is to be posted again: its row still waits for an answer and the repeats are not over. */
export function dispatchStillOpen(account: Account, job_id: string, fence: number, now: number): Job | undefined {
  const job = account.load(job_id)?.job;
  if (job?.phase !== "placed" || job.fence !== fence || !job.placement) return undefined;
  return now < job.placement.at + DISPATCH_REPEAT_MS ? job : undefined;
}

export type ProgressVerdict = "current" | "fenced" | "unknown";

/** A runner's word of progress. On a row that is back in `ready` it changes nothing and is not fenced. */
export function progress(
  account: Account,
  job_id: string,
  fence: number,
  report: ProgressReport,
  now: number,
): ProgressVerdict {
  const job = account.load(job_id)?.job;
  if (!job) return "unknown";
  if (job.phase === "ended" || job.fence !== fence) return "fenced";
  hearAcceptance(account, job, fence, report, now);
  const known = account.progress.get(job_id);
  // A report that was overtaken, or comes again, is older by the execution's own clock.
  const old = known?.fence === fence && report.running_ms < known.running_ms;
  if (report.progress && job.placement && !old) {
    account.progress.set(job_id, { fence, running_ms: report.running_ms, progress: report.progress });
  }
  return "current";
}

/** Whether execution `fence` may still store outputs. Asked before a body is read. */
export function mayUpload(account: Account, job_id: string, fence: number): boolean {
  const job = account.load(job_id)?.job;
  return job !== undefined && job.phase !== "ended" && job.fence === fence && job.fence_over !== "reported";
}

export type EndAnswerKind = "ok" | "fenced" | "gone" | "unknown";

/** The end report of one execution; a repeated one gets the same answer and changes nothing. */
export function endExecution(
  account: Account,
  job_id: string,
  fence: number,
  by: Reporter,
  report: EndReport,
  now: number,
): EndAnswerKind {
  const job = account.load(job_id)?.job;
  const verdict = job && end(job, fence, by, report, now);
  if (verdict?.answer === "ok" && verdict.step) {
    const { job: next } = verdict.step;
    const gpu_ms = "times" in report ? gpuTime(report.times.execution_ms, next.timeout_s) : 0;
    if (gpu_ms > 0) charge(account.store, next.key_hash, { gpu_ms }, now);
    account.apply(verdict.step, now);
  } else if (verdict?.answer !== "ok") {
    // Nobody wants the result, but the runner's word that the seat is free counts.
    const { pool, runner } = by;
    account.links.freed(pool, { job: job_id, fence, runner, outcome: outcomeOf(report) });
    account.owes({ kind: "sync" });
  }
  return verdict?.answer ?? "unknown";
}
