import type { JobError, JobErrorCode, JobStatus, OutputDescription, Timing } from "../../schemas/job.ts";
import type { JsonObject } from "../../schemas/json.ts";
import { MAX_ATTEMPTS, RETENTION_MS, type RetentionClass } from "../../schemas/limits.ts";
import type { PromptNeeds } from "../../schemas/prompt.ts";
import type { Beat, EndReport } from "../../schemas/runner-protocol.ts";
import type { SeatOutcome } from "../fleet/sync.ts";

/**
 * A job's life as pure decisions (design section 6): (job, message, now) -> (job, what follows). Nothing here stores or calls.
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

/** From placement: room for the engine's time, inputs, outputs and repeated reports. */
export const LEASE_SLACK_MS = 15 * 60_000;
/** How long a placement of unknown outcome is posted again. */
export const DISPATCH_REPEAT_MS = 60_000;
/** A placement that nobody could decide in this time counts as refused. */
export const PLACED_LIMIT_MS = 120_000;
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

/** What an ended job needs of a runner. */
const NOTHING: PromptNeeds = { classes: [], models: [] };

const ZERO_TIMES = { download_ms: 0, execution_ms: 0, upload_ms: 0 };

/** A runner's clock has more digits than anybody reads. */
const toMicroseconds = (ms: number): number => Math.round(ms * 1000) / 1000;

const withRunner = (runners: readonly string[], runner: string | undefined): readonly string[] =>
  runner === undefined || runners.includes(runner) ? runners : [...runners, runner];

/** Drops optional fields by name; exact optional properties must not be set to undefined. */
function without<K extends keyof Job>(job: Job, ...fields: K[]): Omit<Job, K> {
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
function again(job: Job, over: "reported" | "unreported"): Job {
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

interface Ending {
  readonly status: EndStatus;
  readonly error?: JobError;
  readonly fence?: number;
  readonly times?: { download_ms: number; execution_ms: number; upload_ms: number };
  /** The latest execution may have stored outputs that nobody will be shown. */
  readonly stored?: boolean;
  /** The class of a job that never had a lease. */
  readonly retention?: RetentionClass;
}

function finish(job: Job, ending: Ending, now: number): Job {
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

/** Who reports: the runner of the lease, and its pool. */
export interface Reporter {
  readonly pool: string;
  readonly runner: string;
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

/** No other runner is enrolled, and the last error asks for one: the job fails with that error. */
export function giveUp(job: Job, fence: number, now: number): Step | undefined {
  if (job.phase !== "ready" || fence !== job.fence + 1 || !job.last_error || job.exclude.length === 0) return undefined;
  return {
    job: finish(job, { status: "failed", error: job.last_error }, now),
    consequences: [{ kind: "ticket_dropped", fence }],
  };
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
