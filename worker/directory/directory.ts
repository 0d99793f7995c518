import type { Env } from "../env.ts";

/** What exists: accounts, and which account a key belongs to. Copies of the second may be kept anywhere, for it never changes. */

export interface DirectoryAccount {
  readonly account_id: string;
  readonly email: string;
  readonly pool: string;
  readonly created_at: number;
  /** A copy for searches, as the next one; the account's own object decides. Null for an account of before there was one. */
  readonly tier: string | null;
  readonly suspended: 0 | 1;
}

const COLUMNS = "account_id, email, pool, created_at, tier, suspended";

export async function insertAccount(db: D1Database, account: Omit<DirectoryAccount, "suspended">): Promise<void> {
  const { account_id, email, pool, created_at, tier } = account;
  await db
    .prepare("INSERT INTO accounts (account_id, email, pool, created_at, tier) VALUES (?, ?, ?, ?, ?)")
    .bind(account_id, email, pool, created_at, tier)
    .run();
}

/** The copies follow what the account's object has taken. */
export async function noteAccount(
  db: D1Database,
  account_id: string,
  { tier, suspended }: { readonly tier?: string; readonly suspended?: boolean },
): Promise<void> {
  await db
    .prepare("UPDATE accounts SET tier = COALESCE(?, tier), suspended = COALESCE(?, suspended) WHERE account_id = ?")
    .bind(tier ?? null, suspended === undefined ? null : Number(suspended), account_id)
    .run();
}

export interface AccountSearch {
  /** Stands in the address or the id. Empty: all. */
  readonly text: string;
  /** The last account of the page before this one. */
  readonly before?: Pick<DirectoryAccount, "created_at" | "account_id">;
}

/** The newest first. */
export async function searchAccounts(
  db: D1Database,
  { text, before }: AccountSearch,
  limit: number,
): Promise<DirectoryAccount[]> {
  const pattern = `%${text.replace(/[\\%_]/g, "\\$&")}%`;
  const { results } = await db
    .prepare(
      `SELECT ${COLUMNS} FROM accounts
       WHERE (created_at, account_id) < (?1, ?2) AND (email LIKE ?3 ESCAPE '\\' OR account_id LIKE ?3 ESCAPE '\\')
       ORDER BY created_at DESC, account_id DESC LIMIT ?4`,
    )
    .bind(before?.created_at ?? Number.MAX_SAFE_INTEGER, before?.account_id ?? "", pattern, limit)
    .all<DirectoryAccount>();
  return results;
}

/** The pools that accounts live in, by name. One step in the index for each, however many accounts there are. */
export async function listPools(db: D1Database): Promise<string[]> {
  const { results } = await db
    .prepare(
      `WITH RECURSIVE found (pool) AS (
         SELECT min(pool) FROM accounts
         UNION ALL SELECT (SELECT min(pool) FROM accounts WHERE pool > found.pool) FROM found WHERE found.pool IS NOT NULL
       ) SELECT pool FROM found WHERE pool IS NOT NULL`,
    )
    .all<{ pool: string }>();
  return results.map(({ pool }) => pool);
}

export async function findAccount(db: D1Database, account_id: string): Promise<DirectoryAccount | null> {
  return db.prepare(`SELECT ${COLUMNS} FROM accounts WHERE account_id = ?`).bind(account_id).first<DirectoryAccount>();
}

/** Repeating it is harmless. */
export async function insertKey(db: D1Database, key_hash: string, account_id: string, now: number): Promise<void> {
  await db
    .prepare("INSERT OR IGNORE INTO keys (key_hash, account_id, created_at) VALUES (?, ?, ?)")
    .bind(key_hash, account_id, now)
    .run();
}

/** Keys remembered an isolate; about 200 bytes each. */
const REMEMBERED_KEYS = 10_000;
const remembered = new Map<string, string>();

function remember(key_hash: string, account_id: string): string {
  if (remembered.size >= REMEMBERED_KEYS) {
    const [oldest] = remembered.keys();
    if (oldest !== undefined) remembered.delete(oldest);
  }
  remembered.delete(key_hash);
  remembered.set(key_hash, account_id);
  return account_id;
}

/** The account of a key: isolate, then KV, then the directory. A miss is remembered nowhere: the key may be made any moment. */
export async function accountOfKey(
  { KEY_CACHE, DIRECTORY }: Pick<Env, "KEY_CACHE" | "DIRECTORY">,
  key_hash: string,
): Promise<string | undefined> {
  const known = remembered.get(key_hash);
  if (known !== undefined) return remember(key_hash, known);
  const cached = await KEY_CACHE.get(`key:${key_hash}`, { cacheTtl: 3600 });
  if (cached !== null) return remember(key_hash, cached);
  const row = await DIRECTORY.prepare("SELECT account_id FROM keys WHERE key_hash = ?")
    .bind(key_hash)
    .first<{ account_id: string }>();
  if (!row) return undefined;
  await KEY_CACHE.put(`key:${key_hash}`, row.account_id);
  return remember(key_hash, row.account_id);
}
