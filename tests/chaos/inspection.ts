/** What the Worker of the chaos suite (tests/worker/chaos-entry.ts) tells of what it has stored. */

/** An account object's tables, as far as the checks after a run ask for them. */
export interface AccountState {
  /** Jobs by phase. */
  readonly phases: Record<string, number>;
  /** Deliveries by status. */
  readonly deliveries: Record<string, number>;
  /** All timers but those of jobs. */
  readonly timers: { kind: string; ref: string; due_at: number; tries: number }[];
  /** How many jobs have a timer. */
  readonly job_timers: number;
  /** Prompts that lie in rows. */
  readonly prompts: number;
}

/** One object in R2. */
export interface StoredObject {
  readonly key: string;
  readonly sha256: string | null;
}

/** What the reference of a poisoned timer begins with: no JSON, so it can't be read. */
export const POISONED = "poisoned";
