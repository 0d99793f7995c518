import type { EndReport, ProgressReport } from "../../schemas/runner-protocol.ts";
import { TIER_RETENTION } from "../../schemas/limits.ts";
import type { FleetNews, SeatOutcome } from "../fleet/sync.ts";
import type { Account } from "./account.ts";
import { abandon, accept, DISPATCH_REPEAT_MS, end, giveUp, type Job, lose, place, refuse } from "./jobs.ts";

/** What fleet, dispatcher and runners tell an account of its executions (design section 6). */

/** Applies placements, impossible tickets and verdicts. An answer and a callback are the same news; repeats change nothing. */
export function applyNews(account: Account, news: FleetNews, now: number): void {
  const retention = TIER_RETENTION[account.mustSettings.tier];
  for (const { job: job_id, fence, runner, boot, url, jkt } of news.placed) {
    const job = account.load(job_id)?.job;
    const placed =
      job && !account.mustSettings.suspended && place(job, fence, { runner, boot, url, jkt, retention }, now);
    if (placed) account.putPlaced(placed, now);
    else if (job?.fence !== fence || job.placement === undefined) {
      account.link.freed({ job: job_id, fence, runner, outcome: "unused" });
      account.owes({ kind: "sync" });
    }
  }
  for (const { job: job_id, fence, excluded } of news.impossible) {
    const job = account.load(job_id)?.job;
    const step = excluded && job ? giveUp(job, fence, now) : undefined;
    if (step) account.apply(step, now);
    else account.link.impossible({ job: job_id, fence });
  }
  for (const { job: job_id, fence, verdict, beat, running_ms } of news.verdicts) {
    const job = account.load(job_id)?.job;
    if (!job) continue;
    if (verdict === "held" && beat) hearAcceptance(account, job, fence, { beat, running_ms: running_ms ?? 0 }, now);
    const step =
      verdict === "lost" ? lose(job, fence, now) : verdict === "refused" ? refuse(job, fence, "undecided") : undefined;
    if (step) account.apply(step, now);
  }
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
  | { readonly kind: "refused"; readonly outcome: Exclude<SeatOutcome, "unused" | "ended" | "handed_back"> }
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
  if (report.progress && job.placement) account.progress.set(job_id, { fence, progress: report.progress });
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
  runner: string,
  report: EndReport,
  now: number,
): EndAnswerKind {
  const job = account.load(job_id)?.job;
  if (!job) return "unknown";
  const verdict = end(job, fence, runner, report, now);
  if (verdict.answer === "ok" && verdict.step) account.apply(verdict.step, now);
  else if (verdict.answer !== "ok") {
    // Nobody wants the result, but the runner's word that the seat is free counts.
    account.link.freed({ job: job_id, fence, runner, outcome: "ended" });
    account.owes({ kind: "sync" });
  }
  return verdict.answer;
}
