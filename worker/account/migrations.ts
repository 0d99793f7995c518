import type { Sql } from "./sql.ts";

/**
 * Append-only. Each text runs once, in order, and is remembered with its digest: changing an applied one is an error, a
 * database that is ahead of this list (a rollback) is accepted because migrations add, and remove indexes at most.
 */
export const MIGRATIONS: readonly { readonly name: string; readonly sql: readonly string[] }[] = [
  {
    name: "0001_account",
    sql: [
      "CREATE TABLE settings (id INTEGER PRIMARY KEY CHECK (id = 1), body TEXT NOT NULL)",
      `CREATE TABLE keys (
        key_hash TEXT PRIMARY KEY, prefix TEXT NOT NULL, name TEXT NOT NULL, created_at INTEGER NOT NULL,
        revoked_at INTEGER, last_used_at INTEGER, window_opened_at INTEGER NOT NULL, window_used INTEGER NOT NULL
      ) WITHOUT ROWID`,
      `CREATE TABLE jobs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE, key_hash TEXT NOT NULL, phase TEXT NOT NULL,
        status TEXT NOT NULL, created_at INTEGER NOT NULL, priority INTEGER NOT NULL, fresh INTEGER NOT NULL, body TEXT NOT NULL
      )`,
      "CREATE INDEX jobs_status ON jobs (status, seq)",
      "CREATE INDEX jobs_created ON jobs (created_at, seq)",
      `CREATE TABLE idempotency (
        idempotency_key TEXT PRIMARY KEY, body_sha256 TEXT NOT NULL, job_id TEXT NOT NULL, status INTEGER NOT NULL,
        created_at INTEGER NOT NULL
      ) WITHOUT ROWID`,
      "CREATE INDEX idempotency_created ON idempotency (created_at)",
      "CREATE INDEX idempotency_job ON idempotency (job_id)",
      "CREATE INDEX jobs_open ON jobs (phase, key_hash, priority DESC, seq) WHERE phase <> 'ended'",
      "CREATE TABLE prompts (job_id TEXT PRIMARY KEY, body TEXT NOT NULL)",
      `CREATE TABLE files (
        job_id TEXT NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job_id, n)
      ) WITHOUT ROWID`,
      `CREATE TABLE deliveries (
        job_id TEXT PRIMARY KEY, status TEXT NOT NULL, due_at INTEGER NOT NULL, claimed_until INTEGER, body TEXT NOT NULL
      ) WITHOUT ROWID`,
      "CREATE INDEX deliveries_pending ON deliveries (due_at) WHERE status = 'pending'",
      `CREATE TABLE attempts (
        job_id TEXT NOT NULL, round INTEGER NOT NULL, n INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job_id, round, n)
      ) WITHOUT ROWID`,
      `CREATE TABLE timers (
        kind TEXT NOT NULL, ref TEXT NOT NULL, due_at INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, ref)
      ) WITHOUT ROWID`,
      "CREATE INDEX timers_due ON timers (due_at)",
    ],
  },
  {
    name: "0002_webhooks",
    sql: [
      // The order in which jobs ended. A number is never given twice, whatever is removed.
      "CREATE TABLE events (event INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL UNIQUE)",
      "INSERT INTO events (job_id) SELECT job_id FROM jobs WHERE phase = 'ended' ORDER BY seq",
      "CREATE TABLE windows (name TEXT PRIMARY KEY, opened_at INTEGER NOT NULL, used INTEGER NOT NULL) WITHOUT ROWID",
      "ALTER TABLE deliveries ADD COLUMN deferred INTEGER",
      "CREATE INDEX deliveries_claimed ON deliveries (claimed_until) WHERE claimed_until IS NOT NULL",
      "CREATE INDEX deliveries_deferred ON deliveries (deferred, due_at) WHERE deferred = 1",
      "DROP INDEX deliveries_pending",
    ],
  },
  {
    name: "0003_portal",
    sql: [
      "CREATE INDEX jobs_ended ON jobs (key_hash, status, seq) WHERE phase = 'ended'",
      // The end that the delivery tells of, so that lists of deliveries are found by an index.
      "ALTER TABLE deliveries ADD COLUMN event INTEGER",
      "UPDATE deliveries SET event = (SELECT event FROM events WHERE events.job_id = deliveries.job_id)",
      "CREATE INDEX deliveries_status ON deliveries (status, event)",
      "CREATE INDEX deliveries_failed ON deliveries (due_at) WHERE status = 'failed'",
      `CREATE TABLE usage (
        day INTEGER NOT NULL, key_hash TEXT NOT NULL, requests INTEGER NOT NULL, jobs INTEGER NOT NULL, gpu_ms INTEGER NOT NULL,
        PRIMARY KEY (day, key_hash)
      ) WITHOUT ROWID`,
    ],
  },
];

/** A short digest of a migration's text; enough to notice an edit. */
function fingerprint(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, "0");
}

/** Brings a database up to this code. Throws when an applied migration's text has changed. Call it inside a transaction. */
export function migrate(sql: Sql, migrations = MIGRATIONS): void {
  sql.exec("CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, fingerprint TEXT NOT NULL) WITHOUT ROWID");
  const applied = new Map<string, string>();
  for (const row of sql.exec("SELECT name, fingerprint FROM migrations").toArray()) {
    applied.set(String(row.name), String(row.fingerprint));
  }
  for (const { name, sql: statements } of migrations) {
    const print = fingerprint(statements.join(";"));
    const known = applied.get(name);
    if (known === print) continue;
    if (known !== undefined) throw new Error(`Migration ${name} was applied with another text.`);
    for (const statement of statements) sql.exec(statement);
    sql.exec("INSERT INTO migrations (name, fingerprint) VALUES (?, ?)", name, print);
  }
}
