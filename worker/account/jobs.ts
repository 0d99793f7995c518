import type { JobError, JobErrorCode, JobStatus, OutputDescription, Timing } from "../../schemas/job.ts";
import type { JsonObject } from "../../schemas/json.ts";
import { MAX_ATTEMPTS, RETENTION_MS, type RetentionClass } from "../../schemas/limits.ts";
import type { PromptNeeds } from "../../schemas/prompt.ts";
import type { Beat } from "../../schemas/runner-protocol.ts";
import type { SeatOutcome } from "../fleet/sync.ts";

/**
 * A job's life as pure decisions (design section 6): (job, message, now) -> (job, what follows). Nothing here stores or calls. This
 * file has the job, the views of it, and the moves of its dispatch, its owner and its timer; job-placement.ts has those of fleets,
 * job-end.ts has the runner's end report.
 */

export type Phase = "waiting" | "ready" | "placed" | "running" | "ended";
export type EndStatus = "completed" | "failed" | "cancelled";

export interface Placement {
  readonly pool: string;
  readonly runner: string;
  readonly boot: number;
  readonly url: string;
  readonly jkt: string;
  readonly retention: RetentionClass;
  readonly at: number;
}

export interface JobEnd {
  readonly status: EndStatus;
  readonly at: number;
  /** The execution whose report ended the job; absent where none did. */
  readonly fence?: number;
  readonly error?: JobError;
  readonly execution_ms?: number;
  readonly timing: Timing;
  /** Where its outputs lie, and how long. */
  readonly retention: RetentionClass;
  readonly expires_at: number;
}

export interface Job {
  readonly job_id: string;
  readonly key_hash: string;
  readonly phase: Phase;
  readonly created_at: number;
  readonly priority: number;
  readonly timeout_s: number;
  readonly queue_timeout_s: number;
  readonly queue_until: number;
  readonly needs: PromptNeeds;
  /** Where the prompt lies until the job ends: a row of its own, or R2. */
  readonly prompt_in: "row" | "r2";
  readonly webhook_url?: string;
  readonly metadata?: JsonObject;
  /** Of the latest placement; 0 before the first. */
  readonly fence: number;
  /** How the latest fence's hold ended while the job went on: by its own report, or without one. */
  readonly fence_over?: "reported" | "unreported";
  readonly placement?: Placement;
  /** Expiry of the latest lease, kept after the end; epoch milliseconds. */
  readonly lease_until?: number;
  readonly beat?: Beat;
  readonly started_at?: number;
  readonly ever_started: boolean;
  /** Accepted executions that were lost or are tried again. */
  readonly losses: number;
  readonly handbacks: number;
  /** Retries by error code that were spent. */
  readonly retries: Partial<Record<JobErrorCode, number>>;
  readonly last_error?: JobError;
  readonly avoid: readonly string[];
  readonly exclude: readonly string[];
  /** Losing executions that may have stored outputs, with the retention class of their lease. */
  readonly stale: readonly { readonly fence: number; readonly retention: RetentionClass }[];
  readonly end?: JobEnd;
}

/** What a transition asks the account to do in the same transaction. */
export type Consequence =
  /** The seat is free, on the runner's word. */
  | {
      readonly kind: "freed";
      readonly fence: number;
      readonly pool: string;
      readonly runner: string;
      readonly outcome: SeatOutcome;
    }
  /** Nobody wants this execution any more. */
  | { readonly kind: "dropped"; readonly fence: number; readonly pool: string }
  /** Nobody wants the ticket for this fence any more. */
  | { readonly kind: "ticket_dropped"; readonly fence: number }
  /** Tell the runner to stop; a nudge. */
  | { readonly kind: "stop"; readonly fence: number; readonly placement: Placement };

export interface Step {
  readonly job: Job;
  readonly consequences: readonly Consequence[];
  /** Output descriptions of a completed job. */
  readonly outputs?: readonly OutputDescription[];
}

/** Who reports: the runner of the lease, and its pool. */
export interface Reporter {
  readonly pool: string;
  readonly runner: string;
}

/** How long a placement of unknown outcome is posted again. */
export const DISPATCH_REPEAT_MS = 60_000;
/** A placement that nobody could decide in this time counts as refused. */
const PLACED_LIMIT_MS = 120_000;

/** What an ended job needs of a runner. */
const NOTHING: PromptNeeds = { classes: [], models: [] };

const ZERO_TIMES = { download_ms: 0, execution_ms: 0, upload_ms: 0 };

/** A runner's clock has more digits than anybody reads. */
const toMicroseconds = (ms: number): number => Math.round(ms * 1000) / 1000;

export const withRunner = (runners: readonly string[], runner: string | undefined): readonly string[] =>
  runner === undefined || runners.includes(runner) ? runners : [...runners, runner];

/** Drops optional fields by name; exact optional properties must not be set to undefined. */
export function without<K extends keyof Job>(job: Job, ...fields: K[]): Omit<Job, K> {
  const copy = { ...job };
  for (const field of fields) delete copy[field];
  return copy;
}

/** The public status of a phase (design section 6). */
export const statusOf = ({ phase, end }: Job): JobStatus => end?.status ?? (phase === "running" ? "running" : "queued");

/** The one moment at which a timer looks at this job again. */
export function deadlineOf(job: Job): number {
  switch (job.phase) {
    case "waiting":
    case "ready":
      return job.queue_until;
    case "placed":
      return Math.max(job.queue_until, (job.placement?.at ?? 0) + PLACED_LIMIT_MS);
    case "running":
      return job.lease_until ?? job.queue_until;
    case "ended":
      return job.end?.expires_at ?? job.queue_until;
  }
}

/** The public attempt number: 1 from the first start on (contract section 1). */
export const attemptOf = (job: Job): number | undefined =>
  job.ever_started ? Math.min(job.losses + 1, MAX_ATTEMPTS) : undefined;

/** A runner's word that it has the execution. Undefined where that is not news for a current one. */
export function accept(
  job: Job,
  fence: number,
  word: { beat: Beat; running_ms: number },
  now: number,
): Job | undefined {
  if (job.phase !== "placed" || fence !== job.fence) return undefined;
  return {
    ...job,
    phase: "running",
    beat: word.beat,
    started_at: Math.max(job.placement?.at ?? 0, now - word.running_ms),
    ever_started: true,
  };
}

/** Back to `ready`. The fence stays current until the next placement. */
export function again(job: Job, over: "reported" | "unreported"): Job {
  const { placement } = job;
  const stale = placement ? [...job.stale, { fence: job.fence, retention: placement.retention }] : job.stale;
  return { ...without(job, "placement", "beat", "started_at"), phase: "ready", fence_over: over, stale };
}

/**
 * The dispatch of a `placed` job came to nothing. It costs no attempt. The same dispatch may have been posted before and taken, so
 * outputs of it may still turn up.
 * @param how what the runner or the fleet said; `undecided` is silence
 */
export function refuse(job: Job, fence: number, how: SeatOutcome | "undecided"): Step | undefined {
  if (job.phase !== "placed" || fence !== job.fence || !job.placement) return undefined;
  const { pool, runner } = job.placement;
  const next = again(job, "unreported");
  const avoid = how === "refused_boot" ? job.avoid : withRunner(job.avoid, runner);
  return {
    job: { ...next, avoid },
    consequences: [
      how === "undecided" ? { kind: "dropped", fence, pool } : { kind: "freed", fence, pool, runner, outcome: how },
    ],
  };
}

export interface Ending {
  readonly status: EndStatus;
  readonly error?: JobError;
  readonly fence?: number;
  readonly times?: { download_ms: number; execution_ms: number; upload_ms: number };
  /** The latest execution may have stored outputs that nobody will be shown. */
  readonly stored?: boolean;
  /** The class of a job that never had a lease. */
  readonly retention?: RetentionClass;
}

/** The end of a job, however it comes. */
export function finish(job: Job, ending: Ending, now: number): Job {
  const late = job.stale.find((losing) => losing.fence === ending.fence) ?? job.stale.at(-1);
  const retention = job.placement?.retention ?? late?.retention ?? ending.retention ?? "d1";
  const losing =
    ending.stored && job.placement
      ? [...job.stale, { fence: job.fence, retention: job.placement.retention }]
      : job.stale;
  const stale = ending.status === "completed" ? losing.filter(({ fence }) => fence !== ending.fence) : losing;
  const times = ending.times ?? ZERO_TIMES;
  const download_ms = toMicroseconds(times.download_ms);
  const execution_ms = toMicroseconds(times.execution_ms);
  const upload_ms = toMicroseconds(times.upload_ms);
  const end: JobEnd = {
    status: ending.status,
    at: now,
    retention,
    timing: { queue_ms: Math.max(0, (job.started_at ?? now) - job.created_at), download_ms, execution_ms, upload_ms },
    expires_at: now + RETENTION_MS[retention],
    ...(ending.fence === undefined ? {} : { fence: ending.fence }),
    ...(ending.error === undefined ? {} : { error: ending.error }),
    ...(ending.status === "completed" ? { execution_ms } : {}),
  };
  return { ...without(job, "beat", "placement"), phase: "ended", needs: NOTHING, stale, end };
}

/** Its owner does not want it any more: terminal at once, whatever its runner does meanwhile. Undefined where it has ended. */
export function cancel(job: Job, retention: RetentionClass, now: number): Step | undefined {
  if (job.phase === "ended") return undefined;
  const { fence, placement } = job;
  return {
    job: finish(job, { status: "cancelled", retention, stored: true }, now),
    consequences: placement
      ? [
          { kind: "stop", fence, placement },
          { kind: "dropped", fence, pool: placement.pool },
        ]
      : [{ kind: "ticket_dropped", fence: fence + 1 }],
  };
}

/** The service itself can't go on with a placed job. */
export function abandon(job: Job, error: JobError, now: number): Step | undefined {
  if (job.phase !== "placed" || !job.placement) return undefined;
  return {
    job: finish(job, { status: "failed", error }, now),
    consequences: [{ kind: "dropped", fence: job.fence, pool: job.placement.pool }],
  };
}

/** The job's timer is due. Undefined where there is nothing to do but to set it again. */
export function pastDeadline(job: Job, retention: RetentionClass, now: number): Step | undefined {
  if (now < deadlineOf(job)) return undefined;
  if (job.phase === "placed") return refuse(job, job.fence, "undecided");
  if (job.phase === "running" && job.placement) {
    const error: JobError = {
      code: "timeout",
      message: `The job did not end within its ${job.timeout_s} s and the time to store its outputs.`,
    };
    const { fence, placement } = job;
    return {
      job: finish(job, { status: "failed", error, stored: true }, now),
      consequences: [
        { kind: "stop", fence, placement },
        { kind: "dropped", fence, pool: placement.pool },
      ],
    };
  }
  if (job.phase === "waiting" || job.phase === "ready") {
    const error: JobError = job.last_error ?? {
      code: "queue_timeout",
      message: `No runner started this job within its queue time of ${job.queue_timeout_s} s.`,
    };
    return {
      job: finish(job, { status: "failed", error, retention }, now),
      consequences: [{ kind: "ticket_dropped", fence: job.fence + 1 }],
    };
  }
  return undefined;
}
