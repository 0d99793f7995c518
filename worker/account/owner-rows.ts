import type { Delivery } from "./deliveries.ts";
import type { Job } from "./jobs.ts";
import type { UsageCounts } from "./owner-types.ts";
import { parseBody, type RowReader, type Sql } from "./sql.ts";
import type { AttemptLog, DeliveryFilter, OpenCount, OwnerStore, StoredDelivery, UsageRow } from "./store.ts";

const STATES = ["pending", "delivered", "failed"] as const satisfies readonly Delivery["status"][];

/** The owner's view of the account's rows in SQLite. */
export class OwnerRows implements OwnerStore {
  readonly #sql: Sql;
  readonly #rows: RowReader;

  constructor(sql: Sql, rows: RowReader) {
    this.#sql = sql;
    this.#rows = rows;
  }

  openJobs(): OpenCount[] {
    return this.#sql
      .exec(
        `SELECT phase, key_hash, COUNT(*) AS jobs FROM jobs
         WHERE phase <> 'ended' AND phase IN ('waiting', 'ready', 'placed', 'running') GROUP BY phase, key_hash`,
      )
      .toArray()
      .map((row) => ({
        key_hash: String(row.key_hash),
        phase: String(row.phase) as OpenCount["phase"],
        jobs: Number(row.jobs),
      }));
  }

  deliveries({ state, before = Number.MAX_SAFE_INTEGER }: DeliveryFilter, limit: number): StoredDelivery[] {
    const rows = (state === undefined ? STATES : [state]).flatMap((status) =>
      this.#sql
        .exec(
          `SELECT deliveries.event, deliveries.job_id, deliveries.body, jobs.body AS job
           FROM deliveries INDEXED BY deliveries_status JOIN jobs ON jobs.job_id = deliveries.job_id
           WHERE deliveries.status = ? AND deliveries.event < ? ORDER BY deliveries.event DESC LIMIT ?`,
          status,
          before,
          limit,
        )
        .toArray(),
    );
    const latest = rows.sort((a, b) => Number(b.event) - Number(a.event)).slice(0, limit);
    return this.#rows.readable(latest, (row) => ({
      event: Number(row.event),
      delivery: parseBody<Delivery>(row),
      job: JSON.parse(String(row.job)) as Job,
    }));
  }

  oldestFailed(limit: number): Delivery[] {
    const rows = this.#sql
      .exec(
        `SELECT job_id, body FROM deliveries INDEXED BY deliveries_status
         WHERE status = 'failed' AND event > 0 ORDER BY event LIMIT ?`,
        limit,
      )
      .toArray();
    return this.#rows.readable(rows, (row) => parseBody<Delivery>(row));
  }

  countFailed(after: number, most: number): number {
    const row = this.#rows.one(
      `SELECT COUNT(*) AS n FROM (
         SELECT 1 FROM deliveries INDEXED BY deliveries_failed WHERE status = 'failed' AND due_at > ? LIMIT ?
       )`,
      after,
      most,
    );
    return Number(row?.n ?? 0);
  }

  lastAttempt(id: string): AttemptLog | undefined {
    const rows = this.#sql
      .exec("SELECT job_id, body FROM attempts WHERE job_id = ? ORDER BY round DESC, n DESC LIMIT 1", id)
      .toArray();
    return this.#rows.readable(rows, (row) => parseBody<AttemptLog>(row))[0];
  }

  addUsage(day: number, key_hash: string, { requests = 0, jobs = 0, gpu_ms = 0 }: Partial<UsageCounts>): void {
    this.#sql.exec(
      `INSERT INTO usage (day, key_hash, requests, jobs, gpu_ms) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (day, key_hash) DO UPDATE SET
         requests = requests + excluded.requests, jobs = jobs + excluded.jobs, gpu_ms = gpu_ms + excluded.gpu_ms`,
      day,
      key_hash,
      requests,
      jobs,
      gpu_ms,
    );
  }

  usage(first: number, last: number): UsageRow[] {
    return this.#sql
      .exec("SELECT * FROM usage WHERE day BETWEEN ? AND ? ORDER BY day, key_hash", first, last)
      .toArray()
      .map((row) => ({
        day: Number(row.day),
        key_hash: String(row.key_hash),
        requests: Number(row.requests),
        jobs: Number(row.jobs),
        gpu_ms: Number(row.gpu_ms),
      }));
  }

  forgetUsage(day: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM usage WHERE (day, key_hash) IN (
         SELECT day, key_hash FROM usage WHERE day < ? ORDER BY day, key_hash LIMIT ?
       )`,
      day,
      limit,
    );
  }
}
