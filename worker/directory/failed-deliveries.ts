import type { DeliveryFailure } from "../../schemas/webhook.ts";

/**
 * Rounds of webhook deliveries that ended as failed, of all accounts, for operators. Told after the account has stored it, and told
 * once: a word that is lost misses a line here and nothing else, for the account keeps its own deliveries.
 */

export interface FailedDelivery {
  readonly id: number;
  readonly account_id: string;
  readonly job_id: string;
  /** Rises with every redelivery of the job. */
  readonly round: number;
  readonly at: number;
  /** Scheme, host and port. */
  readonly target: string;
  readonly failure: DeliveryFailure | null;
  readonly status: number | null;
}

const KEPT_MS = 30 * 86_400_000;
/** An account whose receiver is gone says so often enough: what it adds in an hour is bounded. */
const LINES_PER_ACCOUNT = 100;
const LINES_WITHIN_MS = 3_600_000;

/** Adds a line; the same round again changes nothing. Old lines leave. */
export async function noteFailedDelivery(db: D1Database, failed: Omit<FailedDelivery, "id">): Promise<void> {
  const { account_id, job_id, round, at, target, failure, status } = failed;
  await db.batch([
    db
      .prepare(
        `INSERT OR IGNORE INTO failed_deliveries (account_id, job_id, round, at, target, failure, status)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 WHERE ?8 > (
           SELECT count(*) FROM (
             SELECT at FROM failed_deliveries WHERE account_id = ?1 ORDER BY id DESC LIMIT ?8
           ) WHERE at > ?4 - ?9
         )`,
      )
      .bind(account_id, job_id, round, at, target, failure, status, LINES_PER_ACCOUNT, LINES_WITHIN_MS),
    db.prepare("DELETE FROM failed_deliveries WHERE at < ?").bind(at - KEPT_MS),
  ]);
}

export interface FailedFilter {
  readonly account_id?: string;
  /** The `id` of the last line of the page before this one. */
  readonly before?: number;
}

/** The latest first. */
export async function listFailedDeliveries(
  db: D1Database,
  { account_id, before = Number.MAX_SAFE_INTEGER }: FailedFilter,
  limit: number,
): Promise<FailedDelivery[]> {
  const all = db.prepare("SELECT * FROM failed_deliveries WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
  const own = db.prepare("SELECT * FROM failed_deliveries WHERE account_id = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2");
  const statement = account_id === undefined ? all.bind(before, limit) : own.bind(before, limit, account_id);
  return (await statement.all<FailedDelivery>()).results;
}
