import type { PublicJwk, RunnerDescription } from "../../schemas/runner-protocol.ts";

/** Who is enrolled: the only part of a fleet that is stored. */

/** `stopped`: its process ended in order; its next beat makes it active again. */
export type RunnerState = "active" | "draining" | "stopped" | "lost" | "revoked";

export interface RosterEntry {
  readonly runner_id: string;
  readonly name: string;
  readonly url: string;
  readonly public_jwk: PublicJwk;
  /** RFC 7638 thumbprint of the key: what leases are bound to. */
  readonly jkt: string;
  readonly max_seats: number;
  readonly state: RunnerState;
  /** The latest boot number handed out; rises with every process of the runner. */
  readonly boot: number;
  /** The latest processes, the one that the boot number was given to last. */
  readonly processes?: readonly string[];
  /** An operator has taken it out of service, and its process has not ended yet. */
  readonly drain_wanted?: true;
  readonly enrolled_at: number;
  readonly lost_at?: number;
  readonly description?: RunnerDescription;
}

export interface EnrolToken {
  /** SHA-256, base64url. */
  readonly token_hash: string;
  readonly max_seats: number;
  readonly expires_at: number;
  /** Thumbprint of the key that spent it. */
  readonly used_by?: string;
}

/** What the pool decides about and remembers. */
export interface RosterStore {
  runners(): RosterEntry[];
  putRunner(runner: RosterEntry): void;
}

type SqlValue = string | number | null;

/** As much of SQLite as is used: a Durable Object's `SqlStorage` has it. */
interface Sql {
  exec(query: string, ...bindings: SqlValue[]): { toArray(): Record<string, unknown>[] };
}

/** The roster in SQLite; docs/storage.md describes it. Descriptions are kept once each, however many runners say the same. */
export class RosterRows implements RosterStore {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS runners (runner_id TEXT PRIMARY KEY, list_id INTEGER, body TEXT NOT NULL) WITHOUT ROWID",
    );
    sql.exec("CREATE TABLE IF NOT EXISTS lists (id INTEGER PRIMARY KEY, body TEXT NOT NULL UNIQUE)");
    sql.exec(
      "CREATE TABLE IF NOT EXISTS tokens (token_hash TEXT PRIMARY KEY, max_seats INTEGER NOT NULL, expires_at INTEGER NOT NULL, used_by TEXT) WITHOUT ROWID",
    );
  }

  runners(): RosterEntry[] {
    const lists = new Map<unknown, RunnerDescription>();
    for (const { id, body } of this.#sql.exec("SELECT id, body FROM lists").toArray())
      lists.set(id, JSON.parse(String(body)) as RunnerDescription);
    return this.#sql
      .exec("SELECT body, list_id FROM runners ORDER BY runner_id")
      .toArray()
      .map(({ body, list_id }) => {
        const description = lists.get(list_id);
        return { ...(JSON.parse(String(body)) as RosterEntry), ...(description ? { description } : {}) };
      });
  }

  putRunner({ description, ...runner }: RosterEntry): void {
    let list: number | null = null;
    if (description) {
      const body = JSON.stringify(description);
      this.#sql.exec("INSERT OR IGNORE INTO lists (body) VALUES (?)", body);
      list = Number(this.#sql.exec("SELECT id FROM lists WHERE body = ?", body).toArray()[0]?.id);
    }
    this.#sql.exec(
      "INSERT OR REPLACE INTO runners (runner_id, list_id, body) VALUES (?, ?, ?)",
      runner.runner_id,
      list,
      JSON.stringify(runner),
    );
    this.#sql.exec("DELETE FROM lists WHERE id NOT IN (SELECT list_id FROM runners WHERE list_id IS NOT NULL)");
  }

  putToken({ token_hash, max_seats, expires_at, used_by }: EnrolToken): void {
    this.#sql.exec(
      "INSERT OR REPLACE INTO tokens (token_hash, max_seats, expires_at, used_by) VALUES (?, ?, ?, ?)",
      token_hash,
      max_seats,
      expires_at,
      used_by ?? null,
    );
  }

  token(hash: string): EnrolToken | undefined {
    const row = this.#sql.exec("SELECT * FROM tokens WHERE token_hash = ?", hash).toArray()[0];
    if (!row) return undefined;
    return {
      token_hash: String(row.token_hash),
      max_seats: Number(row.max_seats),
      expires_at: Number(row.expires_at),
      ...(row.used_by === null ? {} : { used_by: String(row.used_by) }),
    };
  }

  /** What a key has spent, so that it can't be repeated after a revocation. */
  deleteTokensOf(jkt: string): void {
    this.#sql.exec("DELETE FROM tokens WHERE used_by = ?", jkt);
  }

  deleteExpiredTokens(now: number): void {
    this.#sql.exec("DELETE FROM tokens WHERE expires_at <= ?", now);
  }
}
