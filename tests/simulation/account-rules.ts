import { TIER_LIMITS } from "../../schemas/limits.ts";
import type { Account } from "../../worker/account/account.ts";
import { deadlineOf } from "../../worker/account/jobs.ts";
import { executionName, type FleetNews, MAX_TICKETS, type SyncRequest } from "../../worker/fleet/sync.ts";
import type { AccountDisk } from "./account-disk.ts";
import { holds } from "./violation.ts";

/** An alarm that dies comes back after this long; meanwhile it stands there. */
export const ALARM_RETRY_MS = 30_000;

/** What the rules read of an account's node. */
interface Judged {
  readonly id: string;
  readonly disk: AccountDisk;
  readonly now: number;
  /** Its alarm is being handled. */
  readonly ringing: boolean;
}

/** What holds of an account after each of its transactions (design section 3). Looks at what the transaction touched only. */

export function judgeAccount({ id, disk, now, ringing }: Judged, account: Account, keys: readonly string[]): void {
  const { rows, watch } = disk;
  const { settings } = account;
  if (!settings || watch.touched.size === 0) return;
  const earliest = rows.earliestTimer();
  holds(
    earliest === undefined ||
      (disk.alarm !== undefined && disk.alarm <= (ringing ? now + ALARM_RETRY_MS : Math.max(earliest, now))),
    "an account with timers has an alarm at or before the earliest",
    () => ({ id, earliest, alarm: disk.alarm, now }),
  );
  for (const job_id of watch.touched) {
    const job = rows.job(job_id)?.job;
    if (!job) continue;
    const due_at = rows.timerDueAt("job", job_id);
    holds(due_at === deadlineOf(job), "every job has a timer at its deadline", () => ({ job, due_at }));
    const delivery = rows.delivery(job_id);
    const owed = job.phase === "ended" && job.webhook_url !== undefined;
    holds((delivery !== undefined) === owed, "an ended job owes its webhook, and no other does", () => job_id);
    if (delivery?.status === "pending")
      holds(rows.timerDueAt("delivery", job_id) !== undefined, "a pending delivery has a timer", () => job_id);
    if (job.phase === "ended") holds(rows.prompt(job_id) === undefined, "an ended job keeps no prompt", () => job_id);
  }
  if (rows.inPhases(["ready", "placed", "running"], 1).length > 0)
    holds(rows.timerDueAt("sync", "") !== undefined, "an account with open jobs keeps a sync due", () => id);
  judgeKeys(id, account, keys);
}

/** Slots and places, by key. */
function judgeKeys(id: string, account: Account, keys: readonly string[]): void {
  const { concurrent_jobs, queue_depth } = TIER_LIMITS[account.mustSettings.tier];
  for (const key of keys) {
    const use = account.store.use(key);
    holds(use.slots <= concurrent_jobs, "a key has at most its tier's slots", () => ({ id, key, use }));
    holds(use.places <= queue_depth, "a key has at most its tier's places", () => ({ id, key, use }));
    holds(use.slots === concurrent_jobs || use.places === 0, "no job waits while a slot is free", () => ({
      id,
      key,
      use,
    }));
  }
}

/** A placement is written, or its fleet hears that it came too late. */
export function judgeNews({ id, disk: { rows } }: Judged, account: Account, pool: string, { placed }: FleetNews): void {
  for (const one of placed) {
    const job = rows.job(one.job)?.job;
    const written = job !== undefined && job.fence >= one.fence && (job.placement?.pool ?? pool) === pool;
    holds(written || account.links.of(pool).unsaid, "a placement that came too late is given back", () => ({
      id,
      one,
      job,
    }));
  }
}

/** What an account says to a fleet. */
export function judgeRequest({ full, want, hold, drop }: SyncRequest): void {
  holds(want.length <= (full ? 2 : 1) * MAX_TICKETS, "at most 64 tickets are out", () => want.length);
  const named = new Set([...want, ...hold].map(executionName));
  holds(named.size === want.length + hold.length, "a request names an execution once", () => ({ want, hold }));
  holds(!drop.some((ref) => named.has(executionName(ref))), "nothing is wanted and dropped at once", () => ({
    want,
    drop,
  }));
}
