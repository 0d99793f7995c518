import type { OutputDescription } from "../../schemas/job.ts";
import type { KeyUse } from "./admission.ts";
import type { AttemptResult, Delivery } from "./deliveries.ts";
import type { Job, Phase } from "./jobs.ts";
import type { Key, RequestWindow, Settings } from "./keys.ts";

/** A job with its place in the account's own order. */
export interface StoredJob {
  readonly seq: number;
  readonly job: Job;
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

export interface AttemptLog extends AttemptResult {
  readonly round: number;
  readonly n: number;
  readonly at: number;
  readonly duration_ms: number;
  /** The first 1 KiB of the answer. */
  readonly answer?: string;
}

/**
 * What the account remembers. Synchronous: a verb reads and writes in one transaction of its caller's. Every implementation
 * returns what was last put.
 */
export interface AccountStore {
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
  /** The ready job of the key that would yield its slot first: lowest priority, then newest; never one that was started or placed. */
  weakestReady(keyHash: string): Job | undefined;
  /** Open jobs of the account in these phases, oldest first, at most `limit`. */
  inPhases(phases: readonly Phase[], limit: number): Job[];
  /** How many waiting jobs of the same key go before this one. */
  waitingBefore(stored: StoredJob): number;
  /** Newest first; `before` is a sequence number. */
  page(before: number | undefined, limit: number): StoredJob[];

  delivery(id: string): Delivery | undefined;
  putDelivery(delivery: Delivery): void;
  deliveriesInFlight(now: number): number;
  /** The pending, unclaimed delivery that is due longest. */
  overdueDelivery(now: number): Delivery | undefined;
  logAttempt(id: string, attempt: AttemptLog): void;

  setTimer(kind: TimerKind, ref: string, due_at: number): void;
  clearTimer(kind: TimerKind, ref: string): void;
  postponeTimer(timer: Timer, due_at: number): void;
  dueTimers(now: number, limit: number): Timer[];
  earliestTimer(): number | undefined;
}
