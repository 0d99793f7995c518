import type { JobError } from "../../schemas/job.ts";
import { MAX_ATTEMPTS } from "../../schemas/limits.ts";
import { again, finish, type Job, type Placement, type Step, without, withRunner } from "./jobs.ts";

/** What fleets decide of a job: where it runs, that it is lost there, that no runner could ever take it. Pure. */

/** From placement: room for the engine's time, inputs, outputs and repeated reports. */
const LEASE_SLACK_MS = 15 * 60_000;

/** A seat for a `ready` job's next fence. Undefined where the row does not allow it: the placement must then be dropped. */
export function place(job: Job, fence: number, seat: Omit<Placement, "at">, now: number): Job | undefined {
  if (job.phase !== "ready" || fence !== job.fence + 1) return undefined;
  return {
    ...without(job, "fence_over", "beat", "started_at"),
    phase: "placed",
    fence,
    placement: { ...seat, at: now },
    lease_until: now + job.timeout_s * 1000 + LEASE_SLACK_MS,
  };
}

/**
 * The fleet's verdict that the runner has it no more, and never reported.
 * @param over "reported" where nothing that the runner may still say of it counts
 */
export function lose(
  job: Job,
  fence: number,
  now: number,
  over: NonNullable<Job["fence_over"]> = "unreported",
): Step | undefined {
  if (fence !== job.fence || !job.placement) return undefined;
  const avoid = withRunner(job.avoid, job.placement.runner);
  if (job.phase === "placed") return { job: { ...again(job, over), avoid }, consequences: [] };
  if (job.phase !== "running") return undefined;
  const error: JobError = { code: "runner_lost", message: "The runner that executed this job was lost." };
  const lost: Job = { ...job, losses: job.losses + 1, last_error: error, avoid };
  if (lost.losses >= MAX_ATTEMPTS) {
    return {
      job: finish({ ...lost, started_at: job.started_at ?? now }, { status: "failed", error, stored: true }, now),
      consequences: [],
    };
  }
  return {
    job: { ...again(lost, over), queue_until: now + job.queue_timeout_s * 1000 },
    consequences: [],
  };
}

/** No other runner is enrolled, and the last error asks for one: the job fails with that error. */
export function giveUp(job: Job, fence: number, now: number): Step | undefined {
  if (job.phase !== "ready" || fence !== job.fence + 1 || !job.last_error || job.exclude.length === 0) return undefined;
  return {
    job: finish(job, { status: "failed", error: job.last_error }, now),
    consequences: [{ kind: "ticket_dropped", fence }],
  };
}
