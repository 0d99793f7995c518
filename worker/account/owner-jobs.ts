import type { Account } from "./account.ts";
import type { Job } from "./jobs.ts";
import { granted } from "./owner.ts";
import { webhookOf } from "./owner-deliveries.ts";
import type { OwnerJobDetail, OwnerJobFilter, OwnerJobPage, OwnerPrompt, OwnerTimeline } from "./owner-types.ts";
import { viewJob } from "./record.ts";

/** What an owner sees of the account's jobs. */

/** The account's jobs, of all keys or one, the newest first. */
export function pageOfJobs(account: Account, filter: OwnerJobFilter, limit: number): OwnerJobPage {
  if (account.unwritten) account.writeBehind();
  const most = granted(limit);
  const rows = account.store.page(filter, most + 1);
  return {
    jobs: rows.slice(0, most).map((stored) => ({ ...viewJob(account, stored), key_hash: stored.job.key_hash })),
    has_more: rows.length > most,
  };
}

/** All that the account knows of a job; null where there is none. */
export function detailOfJob(account: Account, job_id: string, now: number): OwnerJobDetail | null {
  const stored = account.load(job_id);
  if (!stored) return null;
  const { job } = stored;
  const { key_hash, timeout_s, queue_timeout_s, priority } = job;
  const key = account.store.key(key_hash);
  const webhook = webhookOf(account, job, now);
  return {
    ...viewJob(account, stored),
    key_hash,
    ...(key ? { key: nameOf(key) } : {}),
    prompt: promptOf(account, job),
    options: { timeout_s, queue_timeout_s, priority },
    timeline: timelineOf(job),
    ...(webhook ? { webhook } : {}),
  };
}

const nameOf = ({
  prefix,
  name,
  revoked_at,
}: NonNullable<OwnerJobDetail["key"]>): NonNullable<OwnerJobDetail["key"]> => ({
  prefix,
  name,
  ...(revoked_at === undefined ? {} : { revoked_at }),
});

function promptOf(account: Account, { job_id, phase, prompt_in }: Job): OwnerPrompt {
  if (phase === "ended") return { in: "gone" };
  if (prompt_in === "r2") return { in: "r2" };
  const text = account.store.prompt(job_id);
  return text === undefined ? { in: "gone" } : { in: "row", text };
}

function timelineOf(job: Job): OwnerTimeline {
  const { phase, placement, started_at, end, lease_until, last_error } = job;
  const queued = phase === "waiting" || phase === "ready" || phase === "placed";
  return {
    created_at: job.created_at,
    ...(placement === undefined ? {} : { placed_at: placement.at }),
    ...(started_at === undefined ? {} : { started_at }),
    ...(end === undefined ? {} : { ended_at: end.at, expires_at: end.expires_at }),
    ...(queued ? { queue_until: job.queue_until } : {}),
    ...(phase === "running" && lease_until !== undefined ? { lease_until } : {}),
    placements: job.fence,
    losses: job.losses,
    handbacks: job.handbacks,
    retries: job.retries,
    ...(last_error === undefined ? {} : { last_error }),
  };
}
