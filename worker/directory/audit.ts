/** What operators did, through the console or the script. Kept for good. */

/** What is about to be done. */
export interface Deed {
  /** Who: a name and subject, or the operator's script. */
  readonly actor: string;
  readonly action: string;
  /** What it is done to: an account, a runner, a pool. Never a secret. */
  readonly subject: string;
  /** Names the form that asks for it: one that is sent twice is one deed. */
  readonly form?: string;
}

export interface AuditEntry extends Omit<Deed, "form"> {
  readonly id: number;
  readonly at: number;
  /** It was asked for, and refused or broken off. */
  readonly failed: 0 | 1;
}

/** Long enough for what we say, and too short for what a stranger may put into a path. */
const MAX_TEXT = 300;

/** The form has been sent before, and what it asks for was done then. */
export class RepeatedForm extends Error {
  override readonly name = "RepeatedForm";
}

/** @throws RepeatedForm, and writes nothing */
export async function writeAudit(db: D1Database, deed: Deed, now: number): Promise<number> {
  const { actor, action, subject, form } = deed;
  const row = await db
    .prepare(
      `INSERT INTO audit (at, actor, action, subject, form) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (form) DO NOTHING RETURNING id`,
    )
    .bind(now, actor.slice(0, MAX_TEXT), action, subject.slice(0, MAX_TEXT), form ?? null)
    .first<{ id: number }>();
  if (!row) throw new RepeatedForm();
  return row.id;
}

/**
 * Writes down what is about to be done, then does it: what can't be written is not done. A deed that is refused or throws stays in
 * the list as failed, and its form may be sent again.
 * @throws RepeatedForm where the same form has done it before
 */
export async function audited<T extends { readonly ok: boolean }>(
  db: D1Database,
  deed: Deed,
  work: () => Promise<T>,
): Promise<T> {
  const id = await writeAudit(db, deed, Date.now());
  let ok = false;
  try {
    const outcome = await work();
    ok = outcome.ok;
    return outcome;
  } finally {
    if (!ok) await db.prepare("UPDATE audit SET failed = 1, form = NULL WHERE id = ?").bind(id).run();
  }
}

/** The latest first; `before` is the id that an earlier page ended with. */
export async function listAudit(db: D1Database, before: number | undefined, limit: number): Promise<AuditEntry[]> {
  const { results } = await db
    .prepare("SELECT id, at, actor, action, subject, failed FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?")
    .bind(before ?? Number.MAX_SAFE_INTEGER, limit)
    .all<AuditEntry>();
  return results;
}
