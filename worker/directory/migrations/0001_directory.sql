-- Which accounts exist, and which account a key belongs to. Status and limits live in the account's own object.
CREATE TABLE accounts (
  account_id TEXT PRIMARY KEY,
  email TEXT NOT NULL,
  pool TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX accounts_email ON accounts (email);
-- key_hash: SHA-256 of the key, base64url. The mapping never changes.
CREATE TABLE keys (
  key_hash TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES accounts (account_id),
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
