import type { PromptNeeds } from "../../schemas/prompt.ts";
import type { Tier } from "../../schemas/limits.ts";
import type { Beat } from "../../schemas/runner-protocol.ts";

/**
 * The one conversation between an account and a fleet (design section 5). Idempotent: every part may be repeated, and every
 * answer may be lost. Jobs are named by id, executions by (job, fence).
 */

export interface ExecutionRef {
  readonly job: string;
  readonly fence: number;
}

/** A name for maps. Job ids are unique over all accounts. */
export const executionName = ({ job, fence }: ExecutionRef): string => `${job}.${fence}`;

/** A request for a seat. `fence` is the one that the dispatch will carry. */
export interface Ticket extends ExecutionRef {
  readonly needs: PromptNeeds;
  /** Runners to pass over while another qualifies. */
  readonly avoid: readonly string[];
  /** Runners that must not get it: the job's last error asks for another one. */
  readonly exclude: readonly string[];
  /** Names the API key within its account: priorities are compared within a key only. */
  readonly key: string;
  readonly priority: number;
  /** Epoch milliseconds of the job's creation: within a key and priority the oldest goes first. */
  readonly created_at: number;
}

/** How an execution's hold on a seat ended, as far as the account was told by the runner. */
export type SeatOutcome =
  /** The placement came too late and was never posted. */
  | "unused"
  | "ended"
  /** It ended by a fault of the engine, which speaks against the runner when others' jobs end so too. */
  | "engine_fault"
  /** The engine's process went away under it, which speaks against the graph as well. */
  | "engine_killed"
  | "handed_back"
  | "refused_full"
  | "refused_boot"
  | "refused"
  | "strike";

export interface Freed extends ExecutionRef {
  readonly runner: string;
  readonly outcome: SeatOutcome;
}

export type HoldKind =
  /** The dispatch is still being repeated. */
  | "trying"
  /** The repeats are over and no answer came: the beats decide. */
  | "undecided"
  /** The runner said that it has it, after `beat`. */
  | "accepted";

export interface Hold extends ExecutionRef {
  readonly runner: string;
  readonly boot: number;
  readonly kind: HoldKind;
  readonly beat?: Beat;
  readonly placed_at: number;
}

export interface SyncRequest {
  readonly account: string;
  readonly tier: Tier;
  /** Of the fleet's latest answer; absent before the first. */
  readonly epoch?: number;
  /** True: this is everything, and what is absent is withdrawn. */
  readonly full: boolean;
  readonly want: readonly Ticket[];
  /** Tickets and executions that nobody wants any more. An execution's seat is free when its runner says so. */
  readonly drop: readonly ExecutionRef[];
  readonly freed: readonly Freed[];
  readonly hold: readonly Hold[];
}

/** A seat that a ticket got, and all that a dispatch needs to know of the runner. */
export interface Placed extends ExecutionRef {
  readonly runner: string;
  readonly boot: number;
  readonly url: string;
  /** Thumbprint of the runner's key, to which the lease is bound. */
  readonly jkt: string;
}

export interface Impossible extends ExecutionRef {
  /** No enrolled runner of the pool, lost ones included, could serve the ticket with its exclusions. */
  readonly hopeless: boolean;
}

export interface Verdict extends ExecutionRef {
  /**
   * `refused`: two beats after the last repeat did not list it. `revoked`: lost with its runner, whose words do not count any more.
   * `unknown` changes nothing.
   */
  readonly verdict: "held" | "unknown" | "lost" | "revoked" | "refused";
  /** With `held`: the latest beat that lists it. */
  readonly beat?: Beat;
  readonly running_ms?: number;
}

/** What the fleet says of one account's tickets and executions, as an answer or on its own account. */
export interface FleetNews {
  readonly placed: readonly Placed[];
  readonly impossible: readonly Impossible[];
  readonly verdicts: readonly Verdict[];
}

export interface SyncAnswer extends FleetNews {
  readonly again_in_s: number;
  /** Names one life of the fleet object. */
  readonly epoch: number;
  /** The fleet has forgotten what it was told before: say everything. */
  readonly send_full: boolean;
}

/** Tickets of an account that may be at the fleet at once. */
export const MAX_TICKETS = 64;
