import type { JobError, JobErrorCode, JobStatus } from "../../schemas/job.ts";
import type { Tier, TierLimits } from "../../schemas/limits.ts";
import type { DeliveryFailure } from "../../schemas/webhook.ts";
import type { Delivery } from "./deliveries.ts";
import type { WindowView } from "./keys.ts";
import type { JobView } from "./record.ts";
import type { AttemptLog, DeliveryFilter, PageFilter } from "./store.ts";

/** What an account answers its owner's portal and its operator. Travels over RPC; times are epoch milliseconds. */

/** `open: false`: the session was signed out, or there is no such account. */
export type Owned<T> = { readonly open: true; readonly value: T } | { readonly open: false };

/** Jobs that have not ended, by their public status. */
export interface OpenJobs {
  readonly queued: number;
  readonly running: number;
}

export interface OwnerOverview {
  readonly tier: Tier;
  readonly suspended: boolean;
  readonly pool: string;
  /** Of each key. */
  readonly limits: TierLimits;
  /** `live`: not revoked. `counting`: the live ones and the revoked ones whose jobs go on, of which `allowed` may be. */
  readonly keys: { readonly live: number; readonly counting: number; readonly allowed: number };
  /** Keys made in the last 24 h. */
  readonly new_keys: { readonly made: number; readonly allowed: number };
  /** In use by all keys together. */
  readonly slots: number;
  readonly places: number;
  readonly jobs: OpenJobs;
}

export interface OwnerKey {
  readonly key_hash: string;
  /** The first 12 characters. Two keys may begin alike; their hashes differ. */
  readonly prefix: string;
  readonly name: string;
  readonly created_at: number;
  readonly last_used_at?: number;
  readonly revoked_at?: number;
  /** In use now. */
  readonly slots: number;
  readonly places: number;
  /** `remaining` requests until `reset_at`. */
  readonly window: WindowView;
}

export type OwnerAddKey =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly reason: "too_many_keys" | "too_many_new_keys" | "account_suspended" | "invalid_name";
    };

export type OwnerRevokeKey =
  | { readonly ok: true; readonly revoked_at: number }
  | { readonly ok: false; readonly reason: "unknown" };

export interface OwnerSecret {
  /** 64 hexadecimal characters. */
  readonly secret: string;
  /** Rises with every replacement: `ownerReplaceSecret` wants to know which one was seen. */
  readonly version: number;
  /** When each replaced secret that still signs ceases to, the latest first. */
  readonly retired: readonly { readonly until: number }[];
}

export interface OwnerReplaceSecret {
  /** `stale`: another secret is the current one since the page was shown; nothing has changed. */
  readonly kind: "replaced" | "stale";
  /** Of the secret that is the current one now. */
  readonly version: number;
}

/** `before`: the `seq` of the last job of the page before this one. */
export type OwnerJobFilter = Pick<PageFilter, "status" | "key_hash" | "before">;

export interface OwnerJob extends JobView {
  readonly key_hash: string;
}

export interface OwnerJobPage {
  /** Newest first. */
  readonly jobs: readonly OwnerJob[];
  readonly has_more: boolean;
}

/** Where a job's prompt is. `r2`: below `prompts/<account>/<job>`, until the job ends. */
export type OwnerPrompt =
  | { readonly in: "row"; readonly text: string }
  | { readonly in: "r2" }
  | { readonly in: "gone" };

/** What has happened to a job, and what will at the latest. */
export interface OwnerTimeline {
  readonly created_at: number;
  /** When it was last given to a runner, while one has it. */
  readonly placed_at?: number;
  /** Of the attempt that runs or ended the job. */
  readonly started_at?: number;
  readonly ended_at?: number;
  /** While it is queued: it fails then. */
  readonly queue_until?: number;
  /** While it runs: it has failed by then at the latest, its outputs' storage included. */
  readonly lease_until?: number;
  /** Ended: record and outputs are removed then. */
  readonly expires_at?: number;
  /** How often it was given to a runner. */
  readonly placements: number;
  /** Attempts that were lost or are made again. */
  readonly losses: number;
  /** Attempts that a draining runner gave back unfinished. */
  readonly handbacks: number;
  /** Attempts that are made again, by the code of their error. */
  readonly retries: Partial<Record<JobErrorCode, number>>;
  /** Of the last attempt that did not end the job. */
  readonly last_error?: JobError;
}

/** A job's notification without the path of its URL, which may be secret. */
export interface OwnerWebhook {
  /** Scheme, host and port. */
  readonly target: string;
  /** Absent until the job has ended. */
  readonly delivery?: Delivery;
  /** Of the last 10 rounds, oldest first. */
  readonly attempts: readonly AttemptLog[];
}

export interface OwnerJobDetail extends OwnerJob {
  /** Absent where the account does not know the key any more. */
  readonly key?: { readonly prefix: string; readonly name: string; readonly revoked_at?: number };
  readonly prompt: OwnerPrompt;
  readonly options: { readonly timeout_s: number; readonly queue_timeout_s: number; readonly priority: number };
  readonly timeline: OwnerTimeline;
  readonly webhook?: OwnerWebhook;
}

/** `before`: the `event` of the last delivery of the page before this one. */
export type OwnerDeliveryFilter = DeliveryFilter;

export interface OwnerDelivery {
  /** The number of the job's end in the account's own order of ends. */
  readonly event: number;
  readonly job_id: string;
  readonly job_status: JobStatus;
  /** Scheme, host and port of the webhook URL. */
  readonly target: string;
  readonly state: Delivery["status"];
  /** Rises with every redelivery, from 1 on. */
  readonly round: number;
  /** Made in this round. */
  readonly attempts: number;
  readonly last_status?: number;
  readonly last_failure?: DeliveryFailure;
  /** When the latest attempt was made, of whichever round. */
  readonly last_attempt_at?: number;
  /** While it is pending and none is in flight: when the next attempt is due. */
  readonly next_attempt_at?: number;
}

export interface OwnerDeliveryPage {
  /** The job that ended last first. */
  readonly deliveries: readonly OwnerDelivery[];
  readonly has_more: boolean;
}

export type OwnerRedeliver =
  | { readonly kind: "reopened" }
  | { readonly kind: "not_found" }
  /** Not ended, no webhook, or a round is under way. */
  | { readonly kind: "not_redeliverable" }
  /** Ten were asked for in this minute. */
  | { readonly kind: "too_many"; readonly reset_at: number }
  | { readonly kind: "account_suspended" };

export type OwnerRedeliverFailed =
  /** `left`: failed deliveries that are left now, counted up to 10,000. */
  | { readonly kind: "begun"; readonly begun: number; readonly left: number }
  | { readonly kind: "too_many"; readonly reset_at: number }
  | { readonly kind: "account_suspended" };

export interface UsageCounts {
  /** Counted ones: neither refused by the rate limit nor made by the portal. */
  readonly requests: number;
  /** Accepted submissions. */
  readonly jobs: number;
  /** The engine's time of the executions that ended on this day with a result or an error, whole milliseconds. */
  readonly gpu_ms: number;
}

export interface OwnerUsageRow extends UsageCounts {
  /** UTC, `YYYY-MM-DD`. */
  readonly day: string;
  readonly key_hash: string;
}

export interface OwnerUsage {
  /** The first and the last day that was asked for. */
  readonly from: string;
  readonly to: string;
  /** By day, the earliest first, then by key. A day or a key without use has none. */
  readonly rows: readonly OwnerUsageRow[];
  /** The keys that `rows` name. */
  readonly keys: readonly { readonly key_hash: string; readonly prefix: string; readonly name: string }[];
}

/** What an operator sees of an account: nothing that its owner made. */
export interface OperatorView {
  readonly tier: Tier;
  readonly suspended: boolean;
  readonly pool: string;
  /** Newest first. */
  readonly keys: readonly { readonly prefix: string; readonly name: string; readonly status: "active" | "revoked" }[];
  readonly jobs: OpenJobs;
  /** Deliveries that stand as failed since at most 24 h, counted up to 10,000. */
  readonly failed_deliveries: number;
}
