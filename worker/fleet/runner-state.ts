import { type Beat, laterBeat } from "../../schemas/runner-protocol.ts";
import type { Health } from "./health.ts";
import type { RosterEntry } from "./roster.ts";
import { executionName, type ExecutionRef, type Ticket } from "./sync.ts";

/** A runner as the fleet sees it now: its roster entry and what its beats said. */
export interface Runner {
  entry: RosterEntry;
  /** Runners with the same classes are of one kind. */
  kind: Kind;
  /** The latest beat of the current boot; absent until the first one since this fleet object started. */
  beat?: Beat;
  /** When it was last heard, by the fleet's clock; 0 before. */
  seen_at: number;
  /** As its latest beat says; 0 while it takes nothing. */
  seats: number;
  draining: boolean;
  /** Executions in the latest beat, by name, with how long each has been running. */
  listed: Map<string, { readonly execution: ExecutionRef & { readonly account: string }; readonly running_ms: number }>;
  /** Executions that were placed here and that no later beat has left out, by name. */
  readonly placed: Set<string>;
  /** It refused a dispatch: nothing new until its next beat. */
  refusing: boolean;
  health: Health;
  /** Model files of its latest placements, the newest last; as many placements as it has seats. */
  warm: readonly (readonly string[])[];
}

/** All runners that have exactly these classes. */
export interface Kind {
  readonly id: number;
  readonly classes: ReadonlySet<string>;
}

/** Seats in use: what the runner lists and what is on its way there. */
export function seatsTaken(runner: Runner): number {
  let taken = runner.listed.size;
  for (const name of runner.placed) if (!runner.listed.has(name)) taken++;
  return taken;
}

/** Seats that it offers, and that its enrolment allows. */
export const seatsOf = (runner: Runner): number => Math.min(runner.seats, runner.entry.max_seats);

/** Whether it belongs to the pool's capacity: enrolled, heard, and not on its way out. */
export const isActive = (runner: Runner): boolean =>
  runner.entry.state === "active" && runner.beat !== undefined && !runner.draining;

/** Whether a runner takes new work at all. One on probation takes one execution at a time. */
export function isOpen(runner: Runner, now: number): boolean {
  if (!isActive(runner) || runner.refusing || now < runner.health.suspended_until) return false;
  const taken = seatsTaken(runner);
  return taken < seatsOf(runner) && (taken === 0 || !runner.health.probation);
}

export const isExcluded = (runner: Runner, ticket: Ticket): boolean => ticket.exclude.includes(runner.entry.runner_id);

/** Whether a runner could serve a ticket, were it free. */
export const qualifies = (runner: Runner, ticket: Ticket): boolean =>
  ticket.needs.classes.every((name) => runner.kind.classes.has(name)) && !isExcluded(runner, ticket);

/** Whether a runner's latest beat speaks of an execution that was held at `after`: it must then list it. */
export function saysGone(runner: Runner, execution: ExecutionRef, after: Beat): boolean {
  return runner.beat !== undefined && laterBeat(runner.beat, after) && !runner.listed.has(executionName(execution));
}
