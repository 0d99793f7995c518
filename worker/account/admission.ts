import type { TierLimits } from "../../schemas/limits.ts";
import type { Job } from "./jobs.ts";

/** Slots and queue places of one key (contract section 3), as pure decisions. */

export interface KeyUse {
  /** Jobs in phase ready, placed or running. */
  readonly slots: number;
  /** Jobs in phase waiting. */
  readonly places: number;
}

export type Admission = "slot" | "place" | "full";

/** Where a new submission goes. A slot is taken only when nobody of its key waits. */
export function admit(use: KeyUse, limits: TierLimits): Admission {
  if (use.slots < limits.concurrent_jobs && use.places === 0) return "slot";
  return use.places < limits.queue_depth ? "place" : "full";
}

export type Settlement =
  | { readonly kind: "promote"; readonly job: Job }
  /** `up` takes the slot of `down`, which never started. */
  | { readonly kind: "swap"; readonly up: Job; readonly down: Job };

/**
 * The next move after slots were freed or jobs were added; to be repeated until there is none.
 * @param first the waiting job that goes next: highest priority, then oldest
 * @param weakest the ready job that would yield first: lowest priority, then newest, never started
 */
export function settle(
  use: KeyUse,
  limits: TierLimits,
  first: Job | undefined,
  weakest: Job | undefined,
): Settlement | undefined {
  if (!first) return undefined;
  if (use.slots < limits.concurrent_jobs) return { kind: "promote", job: first };
  if (weakest && first.priority > weakest.priority) return { kind: "swap", up: first, down: weakest };
  return undefined;
}
