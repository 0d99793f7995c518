import type { JobStatus, OutputDescription } from "../../schemas/job.ts";
import type { KeyUse } from "./admission.ts";
import type { Delivery } from "./deliveries.ts";
import type { IdempotencyEntry } from "./idempotency.ts";
import { type Job, type Phase, statusOf } from "./jobs.ts";
import type { Key, RequestWindow, Settings } from "./keys.ts";
import { OwnerRows } from "./owner-rows.ts";
import { orNull, parseBody, type Row, RowReader, type Sql } from "./sql.ts";
import type {
  AccountStore,
  AttemptLog,
  OwnerStore,
  PageFilter,
  EventRows,
  StoredJob,
  Timer,
  TimerKind,
  WindowName,
} from "./store.ts";

/** Where the jobs of one key with one status are found: the open ones are few, the ended ones have an index of their own. */
const OF_KEY: Readonly<Record<JobStatus, string>> = {
  queued: "INDEXED BY jobs_open WHERE phase <> 'ended' AND phase IN ('waiting', 'ready', 'placed') AND key_hash = ?",
  running: "INDEXED BY jobs_open WHERE phase <> 'ended' AND phase = 'running' AND key_hash = ?",
  completed: "INDEXED BY jobs_ended WHERE phase = 'ended' AND status = 'completed' AND key_hash = ?",
  failed: "INDEXED BY jobs_ended WHERE phase = 'ended' AND status = 'failed' AND key_hash = ?",
  cancelled: "INDEXED BY jobs_ended WHERE phase = 'ended' AND status = 'cancelled' AND key_hash = ?",
};

/** Where a page's jobs are found, in each part by their sequence; `which` is what the parts ask for. */
function partsOf({ key_hash, status }: PageFilter): { parts: readonly string[]; which: readonly string[] } {
  if (key_hash !== undefined) {
    return { parts: status === undefined ? Object.values(OF_KEY) : [OF_KEY[status]], which: [key_hash] };
  }
  return status === undefined ? { parts: ["WHERE TRUE"], which: [] } : { parts: ["WHERE status = ?"], which: [status] };
}

/** The account's rows in SQLite; docs/storage.md describes them. */
export class Rows implements AccountStore {
  readonly owner: OwnerStore;
  readonly #sql: Sql;
  readonly #rows: RowReader;

  /** @param onPoisoned hears of a row that can't be read; lists pass it over, so that it stops nobody but itself */
  constructor(sql: Sql, onPoisoned: (row: Row) => void = () => {}) {
    this.#sql = sql;
    this.#rows = new RowReader(sql, onPoisoned);
    this.owner = new OwnerRows(sql, this.#rows);
  }

  settings(): Settings | undefined {
    const row = this.#rows.one("SELECT body FROM settings WHERE id = 1");
    return row && parseBody<Settings>(row);
  }

  putSettings(settings: Settings): void {
    this.#sql.exec("INSERT OR REPLACE INTO settings (id, body) VALUES (1, ?)", JSON.stringify(settings));
  }

  #toKey(row: Row): Key {
    return {
      key_hash: String(row.key_hash),
      prefix: String(row.prefix),
      name: String(row.name),
      created_at: Number(row.created_at),
      ...(row.revoked_at === null ? {} : { revoked_at: Number(row.revoked_at) }),
      ...(row.last_used_at === null ? {} : { last_used_at: Number(row.last_used_at) }),
      window: { opened_at: Number(row.window_opened_at), used: Number(row.window_used) },
    };
  }

  key(hash: string): Key | undefined {
    const row = this.#rows.one("SELECT * FROM keys WHERE key_hash = ?", hash);
    return row && this.#toKey(row);
  }

  keys(): Key[] {
    return this.#sql
      .exec("SELECT * FROM keys ORDER BY created_at, key_hash")
      .toArray()
      .map((row) => this.#toKey(row));
  }

  putKey(key: Key): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      key.key_hash,
      key.prefix,
      key.name,
      key.created_at,
      orNull(key.revoked_at),
      orNull(key.last_used_at),
      key.window.opened_at,
      key.window.used,
    );
  }

  putWindow(hash: string, window: RequestWindow, last_used_at: number): void {
    this.#sql.exec(
      "UPDATE keys SET window_opened_at = ?, window_used = ?, last_used_at = ? WHERE key_hash = ?",
      window.opened_at,
      window.used,
      last_used_at,
      hash,
    );
  }

  job(id: string): StoredJob | undefined {
    const row = this.#rows.one("SELECT seq, body FROM jobs WHERE job_id = ?", id);
    return row && { seq: Number(row.seq), job: parseBody<Job>(row) };
  }

  insertJob(job: Job, prompt: string | undefined): StoredJob {
    const row = this.#rows.one(
      `INSERT INTO jobs (job_id, key_hash, phase, status, created_at, priority, fresh, body)
       VALUES (?, ?, ?, ?, ?, ?, 1, ?) RETURNING seq`,
      job.job_id,
      job.key_hash,
      job.phase,
      statusOf(job),
      job.created_at,
      job.priority,
      JSON.stringify(job),
    );
    if (prompt !== undefined) this.#sql.exec("INSERT INTO prompts (job_id, body) VALUES (?, ?)", job.job_id, prompt);
    return { seq: Number(row?.seq), job };
  }

  putJob(job: Job): void {
    this.#sql.exec(
      "UPDATE jobs SET phase = ?, status = ?, fresh = ?, body = ? WHERE job_id = ?",
      job.phase,
      statusOf(job),
      job.ever_started ? 0 : 1,
      JSON.stringify(job),
      job.job_id,
    );
  }

  deleteJob(id: string): void {
    for (const table of ["events", "attempts", "deliveries", "files", "prompts", "jobs"]) {
      this.#sql.exec(`DELETE FROM ${table} WHERE job_id = ?`, id);
    }
    this.#sql.exec("DELETE FROM timers WHERE ref = ? AND kind IN ('job', 'delivery')", id);
  }

  prompt(id: string): string | undefined {
    const row = this.#rows.one("SELECT body FROM prompts WHERE job_id = ?", id);
    return row && String(row.body);
  }

  deletePrompt(id: string): void {
    this.#sql.exec("DELETE FROM prompts WHERE job_id = ?", id);
  }

  files(id: string): OutputDescription[] {
    return this.#sql
      .exec("SELECT body FROM files WHERE job_id = ? ORDER BY n", id)
      .toArray()
      .map((row) => parseBody<OutputDescription>(row));
  }

  putFiles(id: string, files: readonly OutputDescription[]): void {
    for (const [n, file] of files.entries()) {
      this.#sql.exec("INSERT INTO files (job_id, n, body) VALUES (?, ?, ?)", id, n, JSON.stringify(file));
    }
  }

  use(keyHash: string): KeyUse {
    const rows = this.#sql
      .exec(
        "SELECT phase, COUNT(*) AS n FROM jobs WHERE phase <> 'ended' AND phase IN ('waiting', 'ready', 'placed', 'running') AND key_hash = ? GROUP BY phase",
        keyHash,
      )
      .toArray();
    let slots = 0;
    let places = 0;
    for (const row of rows) {
      if (row.phase === "waiting") places += Number(row.n);
      else slots += Number(row.n);
    }
    return { slots, places };
  }

  firstWaiting(keyHash: string): Job | undefined {
    const row = this.#rows.one(
      "SELECT body FROM jobs WHERE phase <> 'ended' AND phase = 'waiting' AND key_hash = ? ORDER BY priority DESC, seq LIMIT 1",
      keyHash,
    );
    return row && parseBody<Job>(row);
  }

  weakestReady(keyHash: string): Job | undefined {
    const row = this.#rows.one(
      "SELECT body FROM jobs WHERE phase <> 'ended' AND phase = 'ready' AND key_hash = ? AND fresh = 1 ORDER BY priority, seq DESC LIMIT 1",
      keyHash,
    );
    return row && parseBody<Job>(row);
  }

  inPhases(phases: readonly Phase[], limit: number): Job[] {
    const marks = phases.map(() => "?").join(", ");
    const rows = this.#sql
      .exec(
        `SELECT job_id, body FROM jobs WHERE phase <> 'ended' AND phase IN (${marks}) ORDER BY seq LIMIT ?`,
        ...phases,
        limit,
      )
      .toArray();
    return this.#rows.readable(rows, (row) => parseBody<Job>(row));
  }

  nextReady(limit: number): Job[] {
    const rows = this.#sql
      .exec(
        `SELECT jobs.job_id, body FROM (
           SELECT seq, ROW_NUMBER() OVER (PARTITION BY key_hash ORDER BY priority DESC, seq) AS turn
           FROM jobs WHERE phase <> 'ended' AND phase = 'ready' ORDER BY turn, seq LIMIT ?
         ) AS next JOIN jobs ON jobs.seq = next.seq ORDER BY next.turn, next.seq`,
        limit,
      )
      .toArray();
    return this.#rows.readable(rows, (row) => parseBody<Job>(row));
  }

  waitingBefore({ seq, job }: StoredJob): number {
    const row = this.#rows.one(
      `SELECT COUNT(*) AS n FROM jobs WHERE phase <> 'ended' AND phase = 'waiting' AND key_hash = ?
       AND (priority > ? OR (priority = ? AND seq < ?))`,
      job.key_hash,
      job.priority,
      job.priority,
      seq,
    );
    return Number(row?.n ?? 0);
  }

  /** Sequence numbers rise with creation times, so both bounds of time are bounds of `seq`, each one look into an index. */
  #bound(query: string, at: number | undefined): number | undefined {
    if (at === undefined) return undefined;
    const row = this.#rows.one(query, at);
    return row === undefined ? undefined : Number(row.seq);
  }

  page(filter: PageFilter, limit: number): StoredJob[] {
    const { before, created_after, created_before } = filter;
    const first = this.#bound(
      "SELECT seq FROM jobs WHERE created_at > ? ORDER BY created_at, seq LIMIT 1",
      created_after,
    );
    const last = this.#bound(
      "SELECT seq FROM jobs WHERE created_at < ? ORDER BY created_at DESC, seq DESC LIMIT 1",
      created_before,
    );
    if ((created_after !== undefined && first === undefined) || (created_before !== undefined && last === undefined))
      return [];
    const most = Math.min(before === undefined ? Number.MAX_SAFE_INTEGER : before - 1, last ?? Number.MAX_SAFE_INTEGER);
    const { parts, which } = partsOf(filter);
    const rows = parts.flatMap((part) =>
      this.#sql
        .exec(
          `SELECT seq, job_id, body FROM jobs ${part} AND seq BETWEEN ? AND ? ORDER BY seq DESC LIMIT ?`,
          ...which,
          first ?? 0,
          most,
          limit,
        )
        .toArray(),
    );
    const newest = parts.length > 1 ? rows.sort((a, b) => Number(b.seq) - Number(a.seq)).slice(0, limit) : rows;
    return this.#rows.readable(newest, (row) => ({ seq: Number(row.seq), job: parseBody<Job>(row) }));
  }

  lastCreatedAt(): number {
    return Number(this.#rows.one("SELECT MAX(created_at) AS at FROM jobs")?.at ?? 0);
  }

  span(): number {
    const row = this.#rows.one("SELECT (SELECT MIN(seq) FROM jobs) AS first, (SELECT MAX(seq) FROM jobs) AS last");
    return row === undefined || row.first === null ? 0 : Number(row.last) - Number(row.first) + 1;
  }

  oldestEnded(limit: number): Job[] {
    const rows = this.#sql
      .exec("SELECT job_id, body FROM jobs WHERE phase = 'ended' ORDER BY seq LIMIT ?", limit)
      .toArray();
    return this.#rows.readable(rows, (row) => parseBody<Job>(row));
  }

  bytes(): number {
    return this.#sql.databaseSize;
  }

  idempotency(key: string): IdempotencyEntry | undefined {
    const row = this.#rows.one("SELECT * FROM idempotency WHERE idempotency_key = ?", key);
    if (!row) return undefined;
    return {
      idempotency_key: String(row.idempotency_key),
      body_sha256: String(row.body_sha256),
      job_id: String(row.job_id),
      status: row.status === 200 ? 200 : 202,
      created_at: Number(row.created_at),
    };
  }

  putIdempotency(entry: IdempotencyEntry): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO idempotency (idempotency_key, body_sha256, job_id, status, created_at) VALUES (?, ?, ?, ?, ?)",
      entry.idempotency_key,
      entry.body_sha256,
      entry.job_id,
      entry.status,
      entry.created_at,
    );
  }

  answeredAtOnce(job_id: string): void {
    this.#sql.exec("UPDATE idempotency SET status = 200 WHERE job_id = ? AND status <> 200", job_id);
  }

  forgetIdempotency(before: number, limit: number): void {
    this.#sql.exec(
      `DELETE FROM idempotency WHERE idempotency_key IN (
         SELECT idempotency_key FROM idempotency WHERE created_at <= ?
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.job_id = idempotency.job_id AND jobs.phase <> 'ended') LIMIT ?
       )`,
      before,
      limit,
    );
  }

  delivery(id: string): Delivery | undefined {
    const row = this.#rows.one("SELECT body FROM deliveries WHERE job_id = ?", id);
    return row && parseBody<Delivery>(row);
  }

  putDelivery(delivery: Delivery): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO deliveries (job_id, event, status, due_at, claimed_until, deferred, body)
       VALUES (?, (SELECT event FROM events WHERE job_id = ?), ?, ?, ?, ?, ?)`,
      delivery.job_id,
      delivery.job_id,
      delivery.status,
      delivery.due_at,
      orNull(delivery.claimed_until ?? delivery.called_until),
      delivery.deferred ? 1 : null,
      JSON.stringify(delivery),
    );
  }

  deliveriesInFlight(now: number): number {
    const row = this.#rows.one("SELECT COUNT(*) AS n FROM deliveries WHERE claimed_until > ?", now);
    return Number(row?.n ?? 0);
  }

  firstDeferred(): Delivery | undefined {
    for (;;) {
      const row = this.#rows.one("SELECT job_id, body FROM deliveries WHERE deferred = 1 ORDER BY due_at LIMIT 1");
      const [delivery] = row ? this.#rows.readable([row], (one) => parseBody<Delivery>(one)) : [];
      if (!row || delivery) return delivery;
      // One that can't be read waits for nothing, and holds up nobody.
      this.#sql.exec("UPDATE deliveries SET deferred = NULL WHERE job_id = ?", String(row.job_id));
    }
  }

  logAttempt(id: string, attempt: AttemptLog): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO attempts (job_id, round, n, body) VALUES (?, ?, ?, ?)",
      id,
      attempt.round,
      attempt.n,
      JSON.stringify(attempt),
    );
  }

  attempts(id: string): AttemptLog[] {
    const rows = this.#sql.exec("SELECT job_id, body FROM attempts WHERE job_id = ? ORDER BY round, n", id).toArray();
    return this.#rows.readable(rows, (row) => parseBody<AttemptLog>(row));
  }

  forgetAttempts(id: string, round: number): void {
    this.#sql.exec("DELETE FROM attempts WHERE job_id = ? AND round <= ?", id, round);
  }

  addEvent(job_id: string): void {
    if (this.eventOf(job_id) === undefined) this.#sql.exec("INSERT INTO events (job_id) VALUES (?)", job_id);
  }

  eventOf(job_id: string): number | undefined {
    const row = this.#rows.one("SELECT event FROM events WHERE job_id = ?", job_id);
    return row && Number(row.event);
  }

  events(after: number, limit: number): EventRows {
    const rows = this.#sql
      .exec(
        `SELECT event, seq, jobs.job_id, body FROM events JOIN jobs ON jobs.job_id = events.job_id
         WHERE event > ? ORDER BY event LIMIT ?`,
        after,
        limit + 1,
      )
      .toArray();
    const page = rows.slice(0, limit);
    return {
      events: this.#rows.readable(page, (row) => ({
        event: Number(row.event),
        seq: Number(row.seq),
        job: parseBody<Job>(row),
      })),
      last: Number(page.at(-1)?.event ?? after),
      has_more: rows.length > limit,
    };
  }

  window(name: WindowName): RequestWindow | undefined {
    const row = this.#rows.one("SELECT opened_at, used FROM windows WHERE name = ?", name);
    return row && { opened_at: Number(row.opened_at), used: Number(row.used) };
  }

  putAccountWindow(name: WindowName, { opened_at, used }: RequestWindow): void {
    this.#sql.exec("INSERT OR REPLACE INTO windows (name, opened_at, used) VALUES (?, ?, ?)", name, opened_at, used);
  }

  timerDueAt(kind: TimerKind, ref: string): number | undefined {
    const row = this.#rows.one("SELECT due_at FROM timers WHERE kind = ? AND ref = ?", kind, ref);
    return row && Number(row.due_at);
  }

  setTimer(kind: TimerKind, ref: string, due_at: number): void {
    this.#sql.exec("INSERT OR REPLACE INTO timers (kind, ref, due_at, tries) VALUES (?, ?, ?, 0)", kind, ref, due_at);
  }

  clearTimer(kind: TimerKind, ref: string): void {
    this.#sql.exec("DELETE FROM timers WHERE kind = ? AND ref = ?", kind, ref);
  }

  postponeTimer(timer: Timer, due_at: number): void {
    this.#sql.exec(
      "UPDATE timers SET due_at = ?, tries = ? WHERE kind = ? AND ref = ?",
      due_at,
      timer.tries + 1,
      timer.kind,
      timer.ref,
    );
  }

  dueTimers(now: number, limit: number): Timer[] {
    return this.#sql
      .exec("SELECT kind, ref, due_at, tries FROM timers WHERE due_at <= ? ORDER BY due_at LIMIT ?", now, limit)
      .toArray()
      .map((row) => ({
        kind: String(row.kind) as TimerKind,
        ref: String(row.ref),
        due_at: Number(row.due_at),
        tries: Number(row.tries),
      }));
  }

  earliestTimer(): number | undefined {
    const row = this.#rows.one("SELECT MIN(due_at) AS due_at FROM timers");
    return row === undefined || row.due_at === null ? undefined : Number(row.due_at);
  }
}
