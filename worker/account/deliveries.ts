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
}

/** An attempt's answer must be in by then: the receiver's 10 s and the way there and back. */
export const CLAIM_MS = 15_000;
/** A message that did not come this long after it was due is taken to be lost. */
export const SWEEP_MS = 20_000;
/** After a claim's end, before the sweep looks: the consumer's answer may be on its way. */
const CLAIM_GRACE_MS = 5_000;
/** Queues count delays in whole seconds and may round; a message this early is on time. */
const EARLY_MS = 250;
/** Attempts of one account that may be in flight at once (contract section 5). */
export const MAX_IN_FLIGHT = 50;

export const openDelivery = (job_id: string, round: number, now: number): Delivery => ({
  job_id,
  round,
  status: "pending",
  n: 0,
  due_at: now,
});

/** When the sweep looks at a pending delivery; undefined once it is over. */
export function sweepAt(delivery: Delivery): number | undefined {
  if (delivery.status !== "pending") return undefined;
  return delivery.claimed_until === undefined ? delivery.due_at + SWEEP_MS : delivery.claimed_until + CLAIM_GRACE_MS;
}

function unclaimed(delivery: Delivery): Omit<Delivery, "claimed_until"> {
  const { claimed_until: _, ...rest } = delivery;
  return rest;
}

/** A claim that ran out used up its attempt: nobody can say what the receiver saw. */
function expireClaim(delivery: Delivery, now: number): Delivery {
  if (delivery.claimed_until === undefined || delivery.claimed_until > now) return delivery;
  return failed({ ...unclaimed(delivery), last_failure: "claim_expired" }, now);
}

function failed(delivery: Delivery, now: number): Delivery {
  if (delivery.n >= MAX_DELIVERY_ATTEMPTS) return { ...delivery, status: "failed" };
  return { ...delivery, due_at: now + (RETRY_DELAYS_S[delivery.n - 1] ?? 0) * 1000 };
}

export type Begin =
  | { readonly kind: "granted"; readonly delivery: Delivery; readonly n: number }
  /** Not yet: hold the message back for that long. */
  | { readonly kind: "early"; readonly delivery: Delivery; readonly retry_in_s: number }
  /** Nothing for this message to do: over, in flight, another round, or too many in flight. */
  | { readonly kind: "done"; readonly delivery: Delivery };

/** A consumer holds a message for `round` and asks whether it may make the next attempt. Granted once, for CLAIM_MS. */
export function begin(before: Delivery, round: number, inFlight: number, now: number): Begin {
  const delivery = expireClaim(before, now);
  if (delivery.status !== "pending" || delivery.round !== round || delivery.claimed_until !== undefined)
    return { kind: "done", delivery };
  if (now < delivery.due_at - EARLY_MS)
    return { kind: "early", delivery, retry_in_s: Math.ceil((delivery.due_at - now) / 1000) };
  if (inFlight >= MAX_IN_FLIGHT) return { kind: "done", delivery };
  const n = delivery.n + 1;
  return { kind: "granted", delivery: { ...delivery, n, claimed_until: now + CLAIM_MS }, n };
}

export interface AttemptResult {
  readonly ok: boolean;
  readonly status?: number;
  readonly failure?: DeliveryFailure;
}

/**
 * What became of attempt `n`. Undefined where it is no longer the attempt in flight: its claim has expired.
 * A returned pending delivery says with `due_at` when the next attempt is.
 */
export function finishAttempt(
  delivery: Delivery,
  round: number,
  n: number,
  result: AttemptResult,
  now: number,
): Delivery | undefined {
  if (delivery.round !== round || delivery.n !== n || delivery.claimed_until === undefined) return undefined;
  const { last_status: _s, last_failure: _f, ...rest } = unclaimed(delivery);
  const seen: Delivery = {
    ...rest,
    ...(result.status === undefined ? {} : { last_status: result.status }),
    ...(result.failure === undefined ? {} : { last_failure: result.failure }),
  };
  return result.ok ? { ...seen, status: "delivered" } : failed(seen, now);
}

/** The sweep's timer is due. `send`: the message is taken to be lost, a fresh one goes out. */
export function sweep(
  before: Delivery,
  now: number,
): { delivery: Delivery; send: boolean; next_at: number | undefined } {
  const delivery = expireClaim(before, now);
  const send = delivery.status === "pending" && delivery.claimed_until === undefined;
  const next_at = send ? Math.max(now, delivery.due_at) + SWEEP_MS : sweepAt(delivery);
  return { delivery, send, next_at };
}
