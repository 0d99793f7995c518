/** What an `Idempotency-Key` is remembered by (contract section 2): 24 h, or until its job has ended, whichever is later. */
export interface IdempotencyEntry {
  readonly idempotency_key: string;
  /** Of the body's exact bytes, base64url. */
  readonly body_sha256: string;
  readonly job_id: string;
  /** With which the first answer went out. */
  readonly status: 200 | 202;
  readonly created_at: number;
}

export const IDEMPOTENCY_MS = 86_400_000;

export type IdempotencyClaim = Pick<IdempotencyEntry, "idempotency_key" | "body_sha256">;

export type IdempotencyJudgement =
  /** Nobody has claimed it, or the claim is over. */
  | { readonly kind: "free" }
  | { readonly kind: "replay"; readonly job_id: string; readonly status: 200 | 202 }
  /** Claimed with another body. */
  | { readonly kind: "reused" };

/** `open` says whether the entry's job exists and has not ended. */
export function judgeClaim(
  entry: IdempotencyEntry | undefined,
  claim: IdempotencyClaim,
  open: boolean,
  now: number,
): IdempotencyJudgement {
  if (!entry || (now >= entry.created_at + IDEMPOTENCY_MS && !open)) return { kind: "free" };
  if (entry.body_sha256 !== claim.body_sha256) return { kind: "reused" };
  return { kind: "replay", job_id: entry.job_id, status: entry.status };
}
