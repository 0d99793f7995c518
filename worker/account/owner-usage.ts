import type { Account } from "./account.ts";
import type { OwnerUsage, OwnerUsageRow, UsageCounts } from "./owner-types.ts";
import { dateOf, dayOf, USAGE_DAYS } from "./usage.ts";

const NOTHING: UsageCounts = { requests: 0, jobs: 0, gpu_ms: 0 };

/**
 * What each key has used on each of the last `days` days (1..90), today included; UTC. A window of requests belongs to the day on
 * which it opened.
 */
export function usageOf(account: Account, days: number, now: number): OwnerUsage {
  if (account.unwritten) account.writeBehind();
  const last = dayOf(now);
  const first = last + 1 - Math.min(Math.max(Math.trunc(days) || 1, 1), USAGE_DAYS);
  const rows = new Map<string, OwnerUsageRow>();
  const add = (day: number, key_hash: string, counts: UsageCounts) => {
    const name = `${day} ${key_hash}`;
    const { requests, jobs, gpu_ms } = rows.get(name) ?? NOTHING;
    rows.set(name, {
      day: dateOf(day),
      key_hash,
      requests: requests + counts.requests,
      jobs: jobs + counts.jobs,
      gpu_ms: gpu_ms + counts.gpu_ms,
    });
  };
  for (const { day, key_hash, ...counts } of account.store.owner.usage(first, last)) add(day, key_hash, counts);
  const keys = account.keys();
  // A key's latest window is charged when the next one opens.
  for (const { key_hash, window } of keys) {
    const day = dayOf(window.opened_at);
    if (window.used > 0 && day >= first && day <= last) add(day, key_hash, { ...NOTHING, requests: window.used });
  }
  const used = new Set([...rows.values()].map(({ key_hash }) => key_hash));
  return {
    from: dateOf(first),
    to: dateOf(last),
    rows: [...rows.values()].sort((a, b) => (a.day + a.key_hash < b.day + b.key_hash ? -1 : 1)),
    keys: keys
      .filter(({ key_hash }) => used.has(key_hash))
      .map(({ key_hash, prefix, name }) => ({ key_hash, prefix, name })),
  };
}
