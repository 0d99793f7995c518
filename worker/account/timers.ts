import type { Account } from "./account.ts";
import { deadlineOf, pastDeadline } from "./jobs.ts";
import { sweepDelivery } from "./notifications.ts";
import { decodeRemoval } from "./outbox.ts";
import type { Timer } from "./store.ts";

/** What happens when a named timer is due (design section 4, "Timers"). Each runs in a transaction of its own. */

/** An alarm takes this many rows and comes back for the rest. */
export const TIMERS_PER_ALARM = 200;
/** Removals that nobody confirmed are tried again after this long, doubling. */
const REMOVAL_RETRY_MS = 30_000;
const BACKOFF_MS = 5_000;
const MAX_BACKOFF_MS = 3_600_000;

/** How long a timer that failed is left alone. */
export const backoff = (tries: number, base_ms = BACKOFF_MS): number =>
  Math.min(base_ms * 2 ** Math.min(tries, 20), MAX_BACKOFF_MS);

export function fire(account: Account, timer: Timer, now: number): void {
  switch (timer.kind) {
    case "job":
      fireJob(account, timer.ref, now);
      break;
    case "sync":
      fireSync(account, now);
      break;
    case "delivery":
      sweepDelivery(account, timer.ref, now);
      break;
    case "removal":
      account.store.postponeTimer(timer, now + backoff(timer.tries, REMOVAL_RETRY_MS));
      account.owes({ kind: "remove", removal: decodeRemoval(timer) });
      break;
  }
}

function fireJob(account: Account, job_id: string, now: number): void {
  const { store } = account;
  const job = account.load(job_id)?.job;
  if (!job) {
    store.clearTimer("job", job_id);
  } else if (job.phase === "ended" && now >= deadlineOf(job)) {
    account.remove(job, now);
  } else {
    const step = pastDeadline(job, account.retention, now);
    if (step) account.apply(step, now);
    else store.setTimer("job", job_id, deadlineOf(job));
  }
}

/** Keeps the conversation with the fleet going while any job of the account is open to it. */
function fireSync(account: Account, now: number): void {
  const { store, links, mustSettings: settings } = account;
  store.clearTimer("sync", "");
  if (store.inPhases(["ready", "placed", "running"], 1).length === 0 && !links.unsaid) return;
  links.forgetDue(settings, now);
  account.keepSyncing(now, links.nextLookIn(settings, now));
  account.owes({ kind: "sync" });
}
