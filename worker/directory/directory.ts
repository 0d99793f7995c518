import type { Env } from "../env.ts";

/** What exists: accounts, and which account a key belongs to. Copies of the second may be kept anywhere, for it never changes. */

export interface DirectoryAccount {
  readonly account_id: string;
  readonly email: string;
  readonly pool: string;
  readonly created_at: number;
}

export async function insertAccount(db: D1Database, account: DirectoryAccount): Promise<void> {
  const { account_id, email, pool, created_at } = account;
  await db
    .prepare("INSERT INTO accounts (account_id, email, pool, created_at) VALUES (?, ?, ?, ?)")
    .bind(account_id, email, pool, created_at)
    .run();
}

export async function findAccount(db: D1Database, account_id: string): Promise<DirectoryAccount | null> {
  return db
    .prepare("SELECT account_id, email, pool, created_at FROM accounts WHERE account_id = ?")
    .bind(account_id)
    .first<DirectoryAccount>();
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
