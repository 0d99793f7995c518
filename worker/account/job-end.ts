import type { JobError, JobErrorCode } from "../../schemas/job.ts";
import { MAX_ATTEMPTS } from "../../schemas/limits.ts";
import type { EndReport } from "../../schemas/runner-protocol.ts";
import type { SeatOutcome } from "../fleet/sync.ts";
import {
  accept,
  again,
  type Consequence,
  type Ending,
  finish,
  type Job,
  type Reporter,
  type Step,
  without,
  withRunner,
} from "./jobs.ts";

/** What a runner's end report makes of a job: its end, or another attempt. Pure. */

/** Hand-backs beyond this many count like losses: a fleet that only drains must not keep a job for ever. */
const FREE_HANDBACKS = 5;

interface RetryRule {
  readonly times: number;
  /** Another runner is a must, not a wish. */
  readonly elsewhere: boolean;
}

/** Contract section 4, "tried again by the service". */
const RETRY_RULES: Partial<Record<JobErrorCode, RetryRule>> = {
  missing_node: { times: 1, elsewhere: true },
  missing_model: { times: 1, elsewhere: true },
  out_of_memory: { times: 1, elsewhere: true },
  stalled: { times: 1, elsewhere: false },
  engine_crashed: { times: 2, elsewhere: false },
};

export type EndVerdict =
  /** `step` is what changes; absent for a repeated report, which gets the same answer. */
  | { readonly answer: "ok"; readonly step?: Step }
  /** Another execution is the current one. */
  | { readonly answer: "fenced" }
  /** The job ended without this execution. */
  | { readonly answer: "gone" };

/** Whether a failure goes back to `ready`, and how (contract section 4). */
function retryOf(job: Job, error: JobError, runner: string): Partial<Job> | undefined {
  const rule = RETRY_RULES[error.code];
  const spent = job.retries[error.code] ?? 0;
  if (!rule || spent >= rule.times || job.losses + 1 >= MAX_ATTEMPTS) return undefined;
  return {
    retries: { ...job.retries, [error.code]: spent + 1 },
    losses: job.losses + 1,
    last_error: error,
    avoid: withRunner(job.avoid, runner),
    exclude: rule.elsewhere ? withRunner(job.exclude, runner) : job.exclude,
  };
}

/** Faults of the engine or its machine, as opposed to those of a graph. */
const ENGINE_FAULTS: ReadonlySet<JobErrorCode> = new Set(["stalled", "out_of_memory", "internal_error"]);

/** What an end report says of the seat that it frees. */
export function outcomeOf(report: EndReport): SeatOutcome {
  if (report.outcome === "completed") return "ended";
  if (report.outcome !== "failed") return "handed_back";
  if (report.error.code === "engine_crashed") return "engine_killed";
  return ENGINE_FAULTS.has(report.error.code) ? "engine_fault" : "ended";
}

/** The end report of execution `fence` (design section 6, step 5). A fence ends at most one attempt. */
export function end(job: Job, fence: number, { pool, runner }: Reporter, report: EndReport, now: number): EndVerdict {
  if (job.phase === "ended") return { answer: job.end?.fence === fence ? "ok" : "gone" };
  if (fence !== job.fence) return { answer: "fenced" };
  if (job.fence_over === "reported") return { answer: "ok" };
  const current = job.phase === "placed" || job.phase === "running";
  const running = accept(job, fence, report, now) ?? job;
  const seat: Consequence = { kind: "freed", fence, pool, runner, outcome: outcomeOf(report) };
  const started: Job = { ...running, started_at: running.started_at ?? now - report.running_ms, ever_started: true };
  const done = (ending: Ending): EndVerdict => ({
    answer: "ok",
    step: {
      job: finish(started, { ...ending, fence }, now),
      // A late result makes the ticket of the next attempt needless.
      consequences: current ? [seat] : [seat, { kind: "ticket_dropped", fence: fence + 1 }],
      ...(report.outcome === "completed" ? { outputs: report.outputs } : {}),
    },
  });
  if (report.outcome === "completed") return done({ status: "completed", times: report.times });
  if (report.outcome === "failed") {
    const error = report.error as JobError;
    const retry = retryOf(running, error, runner);
    if (!current)
      return RETRY_RULES[error.code] ? { answer: "ok" } : done({ status: "failed", error, times: report.times });
    if (!retry) return done({ status: "failed", error, times: report.times, stored: true });
    const next = { ...again(running, "reported"), ...retry, queue_until: now + job.queue_timeout_s * 1000 };
    return { answer: "ok", step: { job: next, consequences: [seat] } };
  }
  if (!current) return { answer: "ok" };
  const handbacks = running.handbacks + 1;
  const counted = handbacks > FREE_HANDBACKS ? 1 : 0;
  if (running.losses + counted >= MAX_ATTEMPTS) {
    return done({
      status: "failed",
      stored: true,
      error: { code: "runner_lost", message: "Its runners handed this job back too often." },
    });
  }
  const next: Job = {
    ...without(again(running, "reported"), "last_error"),
    handbacks,
    losses: running.losses + counted,
    avoid: withRunner(running.avoid, runner),
    queue_until: now + job.queue_timeout_s * 1000,
  };
  return { answer: "ok", step: { job: next, consequences: [seat] } };
}
