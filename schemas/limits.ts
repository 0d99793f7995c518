import * as v from "valibot";

/** What an account pays for; decides every number below (spec section 8.1). */
export const Tier = v.picklist(["free", "pro", "enterprise"]);
export type Tier = v.InferOutput<typeof Tier>;

export interface TierLimits {
  /** Requests in one fixed window of WINDOW_MS, for each key. */
  readonly requests_per_minute: number;
  /** Slots of each key: jobs admitted and not ended. */
  readonly concurrent_jobs: number;
  /** Queue places of each key beyond its slots. */
  readonly queue_depth: number;
}

export const TIER_LIMITS: Readonly<Record<Tier, TierLimits>> = {
  free: { requests_per_minute: 60, concurrent_jobs: 2, queue_depth: 5 },
  pro: { requests_per_minute: 300, concurrent_jobs: 10, queue_depth: 50 },
  enterprise: { requests_per_minute: 1000, concurrent_jobs: 50, queue_depth: 500 },
};

/** The length of a request window; it opens with its first request (contract section 3). */
export const WINDOW_MS = 60_000;

/** Requests without a usable key, for each client address and window (contract section 3). */
export const ADDRESS_REQUESTS_PER_WINDOW = 60;

/** Keys that an account may have, a revoked one counting until its last job has ended; and new ones in a day (contract section 3). */
export const MAX_KEYS = 20;
export const MAX_NEW_KEYS_PER_DAY = 20;

/** Redeliveries that an account may ask for in one window (contract section 2). */
export const MAX_REDELIVERIES_PER_WINDOW = 10;

/** Share of GPU time relative to the other tiers (design: fairness). */
export const TIER_WEIGHT: Readonly<Record<Tier, number>> = { free: 1, pro: 4, enterprise: 16 };

/** How long records and outputs stay after the end of a job (contract section 6). Names are path segments of output keys. */
export const RETENTION_MS = { d1: 86_400_000, d7: 7 * 86_400_000, d30: 30 * 86_400_000 } as const;
export const RetentionClass = v.picklist(["d1", "d7", "d30"]);
export type RetentionClass = v.InferOutput<typeof RetentionClass>;
export const TIER_RETENTION: Readonly<Record<Tier, RetentionClass>> = { free: "d1", pro: "d7", enterprise: "d30" };

/** Bounds of a submission's body (contract section 2, "Sizes"). */
export const MAX_BODY_BYTES = 10 * 1024 * 1024;
export const MAX_JSON_VALUES = 200_000;
export const MAX_JSON_DEPTH = 100;
export const MAX_NODES = 5_000;
export const MAX_CLASS_NAME = 200;
export const MAX_METADATA_BYTES = 1024;

/** Bounds of a job's outputs (contract section 1, `outputs.files`). */
export const MAX_OUTPUT_FILES = 256;
export const MAX_OUTPUT_BYTES = 2 * 1024 ** 3;

/** One output in one request: a request body at the edge may not exceed 100 MB. A larger output can't be stored. */
export const MAX_UPLOAD_BYTES = 64 * 1024 * 1024;

/** Accepted executions that a job may lose or have tried again before it fails (contract section 1). */
export const MAX_ATTEMPTS = 3;

/** What `GET /v1/limits` answers (contract section 2). */
export const KeyLimits = v.object({
  tier: Tier,
  limits: v.object({
    requests_per_minute: v.pipe(v.number(), v.integer(), v.description("Requests of this key in a window of 60 s.")),
    concurrent_jobs: v.pipe(v.number(), v.integer(), v.description("Slots of this key: jobs admitted and not ended.")),
    queue_depth: v.pipe(v.number(), v.integer(), v.description("Queue places of this key beyond its slots.")),
  }),
  running: v.pipe(
    v.number(),
    v.integer(),
    v.minValue(0),
    v.description("Slots that this key's jobs hold, those that wait for a runner included."),
  ),
  queued: v.pipe(v.number(), v.integer(), v.minValue(0), v.description("Queue places that this key's jobs hold.")),
});
export type KeyLimits = v.InferOutput<typeof KeyLimits>;
