import type { JobStatus, OutputDescription } from "../../schemas/job.ts";
import type { KeyUse } from "./admission.ts";
import type { AttemptResult, Delivery } from "./deliveries.ts";
import type { IdempotencyEntry } from "./idempotency.ts";
import type { Job, Phase } from "./jobs.ts";
import type { Key, RequestWindow, Settings } from "./keys.ts";
import type { UsageCounts } from "./owner-types.ts";

/** A job with its place in the account's own order. */
export interface StoredJob {
  readonly seq: number;
  readonly job: Job;
}

/** Which jobs a page of the list is about. Times are epoch milliseconds, exclusive. */
export interface PageFilter {
  /** Sequence number: only older jobs. */
  readonly before?: number;
  readonly status?: JobStatus;
  /** Only jobs that this key made. */
  readonly key_hash?: string;
  readonly created_after?: number;
  readonly created_before?: number;
}

export type TimerKind =
  /** A job's one deadline; ref = job id. */
  | "job"
  /** The next conversation with the fleet; ref is empty. */
  | "sync"
  /** A delivery's sweep; ref = job id. */
  | "delivery"
  /** Stored objects that must go: ref = what outbox.ts writes. */
  | "removal";

export interface Timer {
  readonly kind: TimerKind;
  readonly ref: string;
  readonly due_at: number;
  /** Failures since it last succeeded. */
  readonly tries: number;
}

/** What is counted for a whole account. */
export type WindowName = "redeliveries";

/** The end of a job, by its number in the account's own order of ends. */
export interface StoredEvent extends StoredJob {
  readonly event: number;
}

/** A page of ends. What can't be read is passed over: `last` and `has_more` count it. */
export interface EventRows {
  readonly events: readonly StoredEvent[];
  /** The number that the next page begins after. */
  readonly last: number;
  readonly has_more: boolean;
}

export interface AttemptLog extends AttemptResult {
  readonly round: number;
  readonly n: number;
  readonly at: number;
  readonly duration_ms: number;
  /** X-Webhook-ID; absent where the attempt never reported. */
  readonly attempt_id?: string;
  /** The first 1 KiB of the answer. */
  readonly answer?: string;
  /** Which rule forbids the target, where it was not called. */
  readonly rule?: string;
}

/** How many jobs of a key are in an open phase. */
export interface OpenCount {
  readonly key_hash: string;
  readonly phase: Exclude<Phase, "ended">;
  readonly jobs: number;
}

/** Which deliveries a page of the list is about. */
export interface DeliveryFilter {
  readonly state?: Delivery["status"];
  /** Event number: only those of jobs that ended before. */
  readonly before?: number;
}

/** A delivery with the end that it tells of. */
export interface StoredDelivery {
  readonly event: number;
  readonly delivery: Delivery;
  readonly job: Job;
}

export interface UsageRow extends UsageCounts {
  /** Days since 1970 began, UTC. */
  readonly day: number;
  readonly key_hash: string;
}

/** What an account's owner looks up beyond what API clients ask. */
export interface OwnerStore {
  /** In no order; what there is none of is left out. */
  openJobs(): OpenCount[];
  /** By the end of their jobs, the latest first. */
  deliveries(filter: DeliveryFilter, limit: number): StoredDelivery[];
  /** Those failed deliveries whose jobs ended first. */
  oldestFailed(limit: number): Delivery[];
  /** How many failed deliveries were last due after `after`; counts no further than `most`. */
  countFailed(after: number, most: number): number;
  /** A job's latest attempt of a delivery that is over. */
  lastAttempt(id: string): AttemptLog | undefined;

  /** Adds to what a key has used on a day. */
  addUsage(day: number, key_hash: string, counts: Partial<UsageCounts>): void;
  /** Of the days from `first` to `last`, both included; by day, then by key. */
  usage(first: number, last: number): UsageRow[];
  /** Forgets at most `limit` rows of days before `day`, the earliest first. */
  forgetUsage(day: number, limit: number): void;
}

/**
 * What the account remembers. Synchronous: a verb reads and writes in one transaction of its caller's. Every implementation
 * returns what was last put.
 */
export interface AccountStore {
  readonly owner: OwnerStore;

  settings(): Settings | undefined;
  putSettings(settings: Settings): void;

  key(hash: string): Key | undefined;
  keys(): Key[];
  putKey(key: Key): void;
  putWindow(hash: string, window: RequestWindow, last_used_at: number): void;

  job(id: string): StoredJob | undefined;
  /** Gives the job the account's next sequence number. */
  insertJob(job: Job, prompt: string | undefined): StoredJob;
  putJob(job: Job): void;
  /** Removes the job and every row that belongs to it. */
  deleteJob(id: string): void;
  /** The prompt's JSON text, while it lies in a row. */
  prompt(id: string): string | undefined;
  deletePrompt(id: string): void;
  files(id: string): OutputDescription[];
  putFiles(id: string, files: readonly OutputDescription[]): void;

  use(keyHash: string): KeyUse;
  /** The waiting job of the key that is promoted next: highest priority, then oldest. */
  firstWaiting(keyHash: string): Job | undefined;
  /** The ready job of the key that would yield its slot first: lowest priority, then newest; never one that was started. */
  weakestReady(keyHash: string): Job | undefined;
  /** Open jobs of the account in these phases, oldest first, at most `limit`. */
  inPhases(phases: readonly Phase[], limit: number): Job[];
  /**
   * Jobs that wait for a seat, the most urgent first: each key's by priority, then age, and the keys in turn, so that no key's
   * priorities hold up another key.
   */
  nextReady(limit: number): Job[];
  /** How many waiting jobs of the same key go before this one. */
  waitingBefore(stored: StoredJob): number;
  /** Newest first. */
  page(filter: PageFilter, limit: number): StoredJob[];
  /** The latest creation time of a stored job; 0 without one. */
  lastCreatedAt(): number;
  /** How far the oldest and the newest job are apart in sequence: at least as many as there are. */
  span(): number;
  oldestEnded(limit: number): Job[];
  /** The size of everything stored. */
  bytes(): number;

  idempotency(key: string): IdempotencyEntry | undefined;
  putIdempotency(entry: IdempotencyEntry): void;
  /** The submission of this job was answered with its end: 200 instead of 202. */
  answeredAtOnce(job_id: string): void;
  /** Forgets at most `limit` entries made at or before `before` whose job is not open. */
  forgetIdempotency(before: number, limit: number): void;

  delivery(id: string): Delivery | undefined;
  putDelivery(delivery: Delivery): void;
  deliveriesInFlight(now: number): number;
  /** The deferred delivery that is due longest. */
  firstDeferred(): Delivery | undefined;
  /** Writes an attempt, or writes it anew. */
  logAttempt(id: string, attempt: AttemptLog): void;
  /** A job's attempts, oldest first. */
  attempts(id: string): AttemptLog[];
  /** Forgets a job's attempts of this round and earlier ones. */
  forgetAttempts(id: string, round: number): void;

  /** Gives the end of a job the account's next event number; a job has one end. */
  addEvent(job_id: string): void;
  /** The number of a job's end. */
  eventOf(job_id: string): number | undefined;
  /** Ends after event number `after`, oldest first. */
  events(after: number, limit: number): EventRows;

  /** A window that counts for the whole account. */
  window(name: WindowName): RequestWindow | undefined;
  putAccountWindow(name: WindowName, window: RequestWindow): void;

  timerDueAt(kind: TimerKind, ref: string): number | undefined;
  setTimer(kind: TimerKind, ref: string, due_at: number): void;
  clearTimer(kind: TimerKind, ref: string): void;
  postponeTimer(timer: Timer, due_at: number): void;
  dueTimers(now: number, limit: number): Timer[];
  earliestTimer(): number | undefined;
}
