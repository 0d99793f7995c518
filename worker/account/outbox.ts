import type { RetentionClass } from "../../schemas/limits.ts";
import type { Job } from "./jobs.ts";
import type { AccountStore, Timer } from "./store.ts";

/**
 * Stored objects that must go, owed in the transaction that made them useless and swept by a timer until the dispatcher has
 * removed them (design section 4, invariant 4).
 */
export interface Removal {
  /** Everything below this key prefix, or the one object of that key. */
  readonly what: "prefix" | "object";
  readonly key: string;
  /** Once more at this time: an upload under a lease that is still good may slip through. Epoch milliseconds. */
  readonly again_at?: number;
}

/** Where the outputs of one execution lie (design section 6, "Outputs"). */
export const outputPrefix = (retention: RetentionClass, account: string, job: string, fence: number): string =>
  `o/${retention}/${account}/${job}/${fence}/`;

/** Where a prompt too large for a row lies. */
export const promptKey = (account: string, job: string): string => `prompts/${account}/${job}`;

const encode = (removal: Removal): string => JSON.stringify([removal.what, removal.key, removal.again_at ?? 0]);

export function decodeRemoval(timer: Timer): Removal {
  const [what, key, again_at] = JSON.parse(timer.ref) as [Removal["what"], string, number];
  return again_at === 0 ? { what, key } : { what, key, again_at };
}

export function owe(store: AccountStore, removal: Removal, now: number): void {
  store.setTimer("removal", encode(removal), now);
}

/** The dispatcher has removed it: forget it, or owe it again after the lease's end. */
export function paid(store: AccountStore, removal: Removal, now: number): void {
  store.clearTimer("removal", encode(removal));
  const { what, key, again_at } = removal;
  if (again_at !== undefined && again_at > now) store.setTimer("removal", encode({ what, key }), again_at);
}

/** What a job leaves behind when it ends: losing executions' outputs, and its prompt if that lies in R2. */
export function removalsAtEnd(account: string, job: Job): Removal[] {
  const removals: Removal[] = job.stale.map(({ fence, retention }) => ({
    what: "prefix",
    key: outputPrefix(retention, account, job.job_id, fence),
    ...(job.lease_until === undefined ? {} : { again_at: job.lease_until }),
  }));
  if (job.prompt_in === "r2") removals.push({ what: "object", key: promptKey(account, job.job_id) });
  return removals;
}

/** What an expired or deleted job leaves behind: the outputs that were shown. A doubled upload of them may still be on its way. */
export function removalsAtExpiry(account: string, job: Job): Removal[] {
  const { end, lease_until } = job;
  if (end?.status !== "completed" || end.fence === undefined) return [];
  const again = lease_until === undefined ? {} : { again_at: lease_until };
  return [{ what: "prefix", key: outputPrefix(end.retention, account, job.job_id, end.fence), ...again }];
}
