import { type DeliveryFailure, MAX_DELIVERY_ATTEMPTS, RETRY_DELAYS_S } from "../../schemas/webhook.ts";

/**
 * When a webhook is tried (spec section 6.5): the account is the only scheduler, messages are nudges (design section 6, step 6).
 * Pure: (delivery, message, now) -> (delivery, answer).
 */

export interface Delivery {
  readonly job_id: string;
  /** Rises with every redelivery; messages name it. */
  readonly round: number;
  readonly status: "pending" | "delivered" | "failed";
  /** Attempts granted in this round. */
  readonly n: number;
  readonly due_at: number;
  /** An attempt is in flight until then. */
  readonly claimed_until?: number;
  readonly last_status?: number;
  readonly last_failure?: DeliveryFailure;
  /** The request that began this round, where one did: repeating it begins no other. */
  readonly request?: string;
  /** Its message came while too many of the account were in flight: it waits until it is called. */
  readonly deferred?: true;
  /** It has been called: a place among those in flight is kept for it until then. */
  readonly called_until?: number;
}

/** An attempt's answer must be in by then: the receiver's 10 s and the way there and back. */
export const CLAIM_MS = 15_000;
/** A message that did not come this long after it was due is taken to be lost. */
export const SWEEP_MS = 20_000;
/** After a claim's end, before the sweep looks: the courier's report may be on its way. */
const CLAIM_GRACE_MS = 5_000;
/** A queue's timer may fire this much before its time by the account's clock; the attempt is made then, not a second later. */
const EARLY_MS = 20;
/** Attempts of one account that may be in flight at once, places kept included (contract section 5). */
export const MAX_IN_FLIGHT = 50;
/** What waits is called when a place is free; its own timer is there in case that all who could call it are gone. */
const DEFERRED_LOOK_MS = 300_000;
/** The longest pause between two attempts. */
const LONGEST_DELAY_S = 30;

export const openDelivery = (job_id: string, round: number, now: number): Delivery => ({
  job_id,
  round,
  status: "pending",
  n: 0,
  due_at: now,
});

/** When the sweep looks at a pending delivery; undefined once it is over. */
export function sweepAt(delivery: Delivery, now: number): number | undefined {
  if (delivery.status !== "pending") return undefined;
  if (delivery.claimed_until !== undefined) return delivery.claimed_until + CLAIM_GRACE_MS;
  if (delivery.deferred) return now + DEFERRED_LOOK_MS;
  return Math.max(delivery.due_at + SWEEP_MS, delivery.called_until ?? 0);
}

function unclaimed(delivery: Delivery): Omit<Delivery, "claimed_until"> {
  const { claimed_until: _, ...rest } = delivery;
  return rest;
}

function unwaiting(delivery: Delivery): Omit<Delivery, "deferred" | "called_until"> {
  const { deferred: _d, called_until: _c, ...rest } = delivery;
  return rest;
}

/** Its turn has come: a place is kept for it until its message must have come. */
export const call = (delivery: Delivery, now: number): Delivery => ({
  ...unwaiting(delivery),
  called_until: now + SWEEP_MS,
});

function failed(delivery: Delivery, at: number): Delivery {
  if (delivery.n >= MAX_DELIVERY_ATTEMPTS) return { ...delivery, status: "failed" };
  return { ...delivery, due_at: at + (RETRY_DELAYS_S[delivery.n - 1] ?? 0) * 1000 };
}

/**
 * The delivery without a claim that ran out: its attempt is used up, for nobody can say what the receiver saw. Undefined where
 * no claim did. The other moves below take a delivery that has none.
 */
export function expireClaim(delivery: Delivery, now: number): Delivery | undefined {
  const { claimed_until } = delivery;
  if (claimed_until === undefined || claimed_until > now) return undefined;
  const { last_status: _, ...rest } = unclaimed(delivery);
  return failed({ ...rest, last_failure: "claim_expired" }, claimed_until);
}

/** A fresh round of attempts for an event whose round is over; undefined while one is under way. */
export function reopen(delivery: Delivery, request: string, now: number): Delivery | undefined {
  if (delivery.status === "pending") return undefined;
  return { ...openDelivery(delivery.job_id, delivery.round + 1, now), request };
}

export type Begin =
  | { readonly kind: "granted"; readonly delivery: Delivery; readonly n: number }
  /** Not yet: hold the message back for that long. */
  | { readonly kind: "early"; readonly retry_in_s: number }
  /** Too many of the account are in flight, or others wait longer. */
  | { readonly kind: "deferred"; readonly delivery: Delivery }
  /** Nothing for this message to do: over, in flight, or another round. */
  | { readonly kind: "done" };

/** What else of the account is to be tried. */
export interface Crowd {
  /** Places taken or kept among those in flight, this delivery's own not counted. */
  readonly taken: number;
  /** Since when the one that waits longest is due. */
  readonly waiting_since?: number;
}

/** A message for `round` has come: whether the next attempt may be made. Granted once, for CLAIM_MS. */
export function begin(delivery: Delivery, round: number, { taken, waiting_since }: Crowd, now: number): Begin {
  if (delivery.status !== "pending" || delivery.round !== round || delivery.claimed_until !== undefined)
    return { kind: "done" };
  if (now < delivery.due_at - EARLY_MS) return { kind: "early", retry_in_s: secondsUntil(delivery.due_at, now) };
  const called = delivery.called_until !== undefined && delivery.called_until > now;
  const overtakes = waiting_since !== undefined && waiting_since < delivery.due_at;
  if (!called && (taken >= MAX_IN_FLIGHT || overtakes))
    return { kind: "deferred", delivery: { ...unwaiting(delivery), deferred: true } };
  const n = delivery.n + 1;
  return { kind: "granted", delivery: { ...unwaiting(delivery), n, claimed_until: now + CLAIM_MS }, n };
}

export interface AttemptResult {
  readonly ok: boolean;
  readonly status?: number;
  readonly failure?: DeliveryFailure;
}

/**
 * What became of attempt `n`. Undefined where that can't change anything any more: the round is over, or a later attempt was
 * granted. A report that comes after its claim ran out still tells the truth, but does not put the next attempt off.
 * A returned pending delivery says with `due_at` when that is.
 */
export function finishAttempt(
  delivery: Delivery,
  round: number,
  n: number,
  result: AttemptResult,
  now: number,
): Delivery | undefined {
  if (delivery.round !== round || delivery.n !== n || n === 0 || delivery.status !== "pending") return undefined;
  const { last_status: _s, last_failure: _f, ...rest } = unclaimed(delivery);
  const seen: Delivery = {
    ...rest,
    ...(result.status === undefined ? {} : { last_status: result.status }),
    ...(result.failure === undefined ? {} : { last_failure: result.failure }),
  };
  if (result.ok) return { ...seen, status: "delivered" };
  return delivery.claimed_until === undefined ? seen : failed(seen, now);
}

/** The sweep's timer is due. `send`: its message is taken to be lost, a fresh one goes out. */
export const sweep = ({ status, claimed_until, deferred }: Delivery): { send: boolean } => ({
  send: status === "pending" && claimed_until === undefined && !deferred,
});

/** Whole seconds to hold a message back, as queues count; 0: at once. Whatever the clock does, no more than a pause is long. */
export const secondsUntil = (due_at: number, now: number): number =>
  Math.min(LONGEST_DELAY_S, Math.max(0, Math.ceil((due_at - now) / 1000)));
