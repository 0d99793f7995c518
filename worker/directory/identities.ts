import type { Identity } from "../portal/session.ts";

/** Who may sign in, by what invitation, and how often addresses sign up. */

export interface KnownIdentity {
  readonly account_id: string | null;
  readonly name: string;
  /** Raised to end every session of this identity. */
  readonly epoch: number;
}

export const findIdentity = (db: D1Database, { iss, sub }: Identity): Promise<KnownIdentity | null> =>
  db
    .prepare("SELECT account_id, name, epoch FROM identities WHERE iss = ? AND sub = ?")
    .bind(iss, sub)
    .first<KnownIdentity>();

/** Makes it known, or gives a known one without an account this one; an account that it has stays. */
export async function putIdentity(
  db: D1Database,
  { iss, sub }: Identity,
  { account_id, name }: Pick<KnownIdentity, "account_id" | "name">,
  now: number,
): Promise<void> {
  await db
    .prepare(
      `INSERT INTO identities (iss, sub, account_id, name, created_at) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (iss, sub) DO UPDATE SET name = excluded.name, account_id = COALESCE(account_id, excluded.account_id)`,
    )
    .bind(iss, sub, account_id, name, now)
    .run();
}

export interface Owner extends Identity {
  readonly name: string;
}

/** Who signs in to an account. */
export const ownersOf = async (db: D1Database, account_id: string): Promise<Owner[]> =>
  (
    await db
      .prepare("SELECT iss, sub, name FROM identities WHERE account_id = ? ORDER BY created_at LIMIT 20")
      .bind(account_id)
      .all<Owner>()
  ).results;

/** Ends every session of an identity. */
export async function endSessions(db: D1Database, { iss, sub }: Identity): Promise<void> {
  await db.prepare("UPDATE identities SET epoch = epoch + 1 WHERE iss = ? AND sub = ?").bind(iss, sub).run();
}

export interface Invitation {
  readonly token_hash: string;
  /** The account that is claimed; null makes a new one. */
  readonly account_id: string | null;
  readonly tier: string;
  readonly note: string;
  readonly created_at: number;
  readonly expires_at: number;
  readonly used_at: number | null;
}

export async function putInvitation(db: D1Database, invitation: Omit<Invitation, "used_at">): Promise<void> {
  const { token_hash, account_id, tier, note, created_at, expires_at } = invitation;
  await db
    .prepare(
      "INSERT INTO invitations (token_hash, account_id, tier, note, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(token_hash, account_id, tier, note, created_at, expires_at)
    .run();
}

/** An account is claimed once, however many invitations to it there are. */
const IS_GOOD = `used_at IS NULL AND expires_at > ?1
  AND NOT EXISTS (SELECT 1 FROM identities WHERE identities.account_id = invitations.account_id)`;

/** One that is good now. */
export const findInvitation = (db: D1Database, token_hash: string, now: number): Promise<Invitation | null> =>
  db
    .prepare(`SELECT * FROM invitations WHERE token_hash = ?2 AND ${IS_GOOD}`)
    .bind(now, token_hash)
    .first<Invitation>();

/** Whether it was this call that used it: of two at the same time one is told so. */
export async function useInvitation(db: D1Database, token_hash: string, now: number): Promise<boolean> {
  const { meta } = await db
    .prepare(`UPDATE invitations SET used_at = ?1 WHERE token_hash = ?2 AND ${IS_GOOD}`)
    .bind(now, token_hash)
    .run();
  return meta.changes === 1;
}

/** Ends one that nobody has used. False: there is none. */
export async function withdrawInvitation(db: D1Database, token_hash: string, now: number): Promise<boolean> {
  const { meta } = await db
    .prepare("UPDATE invitations SET expires_at = ?1 WHERE token_hash = ?2 AND used_at IS NULL AND expires_at > ?1")
    .bind(now, token_hash)
    .run();
  return meta.changes === 1;
}

/** The newest first. */
export const listInvitations = async (db: D1Database, limit: number): Promise<Invitation[]> =>
  (await db.prepare("SELECT * FROM invitations ORDER BY created_at DESC LIMIT ?").bind(limit).all<Invitation>())
    .results;

/** Counts one sign-up of an address on a day. False, and not counted, where `most` is reached. */
export async function countSignUp(db: D1Database, address: string, day: string, most: number): Promise<boolean> {
  const [counted] = await db.batch([
    db
      .prepare(
        `INSERT INTO sign_ups (address, day, count) VALUES (?1, ?2, 1)
         ON CONFLICT (address, day) DO UPDATE SET count = count + 1 WHERE count < ?3`,
      )
      .bind(address, day, most),
    // Addresses are kept no longer than anybody looks at them.
    db.prepare("DELETE FROM sign_ups WHERE day < date(?1, '-30 days')").bind(day),
  ]);
  return (counted?.meta.changes ?? 0) > 0;
}

export interface SignUps {
  /** UTC, `YYYY-MM-DD`. */
  readonly day: string;
  readonly count: number;
}

/** Open sign-ups a day since that day, the earliest first; a day without one is absent. */
export const signUpsSince = async (db: D1Database, day: string): Promise<SignUps[]> =>
  (
    await db
      .prepare("SELECT day, sum(count) AS count FROM sign_ups WHERE day >= ? GROUP BY day ORDER BY day")
      .bind(day)
      .all<SignUps>()
  ).results;
