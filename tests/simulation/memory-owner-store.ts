import type { Delivery } from "../../worker/account/deliveries.ts";
import type { UsageCounts } from "../../worker/account/owner-types.ts";
import type {
  AttemptLog,
  DeliveryFilter,
  OpenCount,
  OwnerStore,
  StoredDelivery,
  StoredJob,
  UsageRow,
} from "../../worker/account/store.ts";
import { type Journal, Table } from "./undo.ts";

/** Of the account's tables, those that its owner looks into. */
interface Tables {
  readonly jobs: Table<string, StoredJob>;
  readonly open: Table<string, StoredJob>;
  readonly deliveries: Table<string, Delivery>;
  readonly endOf: Table<string, number | undefined>;
  readonly attempts: Table<string, readonly AttemptLog[]>;
}

/** The owner's view of the account's rows without a database. */
export class MemoryOwnerStore implements OwnerStore {
  readonly #tables: Tables;
  readonly #usage: Table<string, UsageRow>;

  constructor(journal: Journal, tables: Tables) {
    this.#tables = tables;
    this.#usage = new Table(journal);
  }

  openJobs(): OpenCount[] {
    const counts = new Map<string, OpenCount>();
    for (const { job } of this.#tables.open.values()) {
      const { key_hash, phase } = job;
      const name = `${phase} ${key_hash}`;
      if (phase !== "ended") counts.set(name, { key_hash, phase, jobs: (counts.get(name)?.jobs ?? 0) + 1 });
    }
    return [...counts.values()];
  }

  /** Deliveries of ends that are known, the latest first. */
  #ends(state?: Delivery["status"]): { readonly event: number; readonly delivery: Delivery }[] {
    const found: { event: number; delivery: Delivery }[] = [];
    for (const delivery of this.#tables.deliveries.values()) {
      const event = this.#tables.endOf.get(delivery.job_id);
      if (event !== undefined && (state ?? delivery.status) === delivery.status) found.push({ event, delivery });
    }
    return found.sort((a, b) => b.event - a.event);
  }

  deliveries({ state, before = Number.POSITIVE_INFINITY }: DeliveryFilter, limit: number): StoredDelivery[] {
    return this.#ends(state)
      .flatMap((end) => {
        const job = this.#tables.jobs.get(end.delivery.job_id)?.job;
        return job && end.event < before ? [{ ...end, job }] : [];
      })
      .slice(0, limit);
  }

  oldestFailed(limit: number): Delivery[] {
    return this.#ends("failed")
      .reverse()
      .slice(0, limit)
      .map(({ delivery }) => delivery);
  }

  countFailed(after: number, most: number): number {
    const failed = [...this.#tables.deliveries.values()].filter(
      ({ status, due_at }) => status === "failed" && due_at > after,
    );
    return Math.min(failed.length, most);
  }

  lastAttempt = (id: string): AttemptLog | undefined => this.#tables.attempts.get(id)?.at(-1);

  addUsage(day: number, key_hash: string, { requests = 0, jobs = 0, gpu_ms = 0 }: Partial<UsageCounts>): void {
    const name = `${day} ${key_hash}`;
    const before = this.#usage.get(name) ?? { requests: 0, jobs: 0, gpu_ms: 0 };
    this.#usage.set(name, {
      day,
      key_hash,
      requests: before.requests + requests,
      jobs: before.jobs + jobs,
      gpu_ms: before.gpu_ms + gpu_ms,
    });
  }

  #inOrder(): UsageRow[] {
    return [...this.#usage.values()].sort((a, b) => a.day - b.day || (a.key_hash < b.key_hash ? -1 : 1));
  }

  usage = (first: number, last: number): UsageRow[] => this.#inOrder().filter(({ day }) => day >= first && day <= last);

  forgetUsage(day: number, limit: number): void {
    const old = this.#inOrder().filter((row) => row.day < day);
    for (const row of old.slice(0, limit)) this.#usage.delete(`${row.day} ${row.key_hash}`);
  }
}
