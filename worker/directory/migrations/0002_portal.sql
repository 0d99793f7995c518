-- Who may sign in. An identity is what its provider says it is (iss, sub), never an address.
CREATE TABLE identities (
  iss TEXT NOT NULL,
  sub TEXT NOT NULL,
  account_id TEXT REFERENCES accounts (account_id),
  name TEXT NOT NULL,
  -- Raised to end every session of this identity.
  epoch INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (iss, sub)
) WITHOUT ROWID;
CREATE INDEX identities_account ON identities (account_id);
-- token_hash: SHA-256 of the token in the link, base64url. account_id: the account that is claimed; NULL makes a new one of that tier.
CREATE TABLE invitations (
  token_hash TEXT PRIMARY KEY,
  account_id TEXT REFERENCES accounts (account_id),
  tier TEXT NOT NULL,
  note TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at INTEGER
) WITHOUT ROWID;
CREATE INDEX invitations_created ON invitations (created_at);
-- Open sign-up, counted by client address and day.
CREATE TABLE sign_ups (
  address TEXT NOT NULL,
  day TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (address, day)
) WITHOUT ROWID;
CREATE INDEX sign_ups_day ON sign_ups (day);
-- What operators did. form: what makes a form of the console that is sent twice one action; NULL for the script.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  failed INTEGER NOT NULL DEFAULT 0,
  form TEXT UNIQUE
);
-- Rounds of webhook deliveries that ended as failed, of all accounts: a list for operators. The account's own object decides.
CREATE TABLE failed_deliveries (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  account_id TEXT NOT NULL,
  job_id TEXT NOT NULL,
  round INTEGER NOT NULL,
  at INTEGER NOT NULL,
  -- Scheme, host and port: the rest of a webhook URL may be secret.
  target TEXT NOT NULL,
  failure TEXT,
  status INTEGER,
  UNIQUE (job_id, round)
);
CREATE INDEX failed_deliveries_account ON failed_deliveries (account_id, id);
CREATE INDEX failed_deliveries_at ON failed_deliveries (at);
-- Copies for the operator's search; the account's own object decides.
ALTER TABLE accounts ADD COLUMN tier TEXT;
ALTER TABLE accounts ADD COLUMN suspended INTEGER NOT NULL DEFAULT 0;
CREATE INDEX accounts_created ON accounts (created_at, account_id);
CREATE INDEX accounts_pool ON accounts (pool);
