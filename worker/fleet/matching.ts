import { laterBeat } from "../../schemas/runner-protocol.ts";
import type { Beat } from "../../schemas/runner-protocol.ts";
import type { RosterEntry } from "./roster.ts";
import { executionName, type ExecutionRef, type Ticket } from "./sync.ts";

/** Which runner may take which ticket, and which one should (design section 5, "Choice of runner"). Pure. */

/** A runner as the fleet sees it now: its roster entry and what its beats said. */
export interface Runner {
  entry: RosterEntry;
  classes: ReadonlySet<string>;
  /** The latest beat of the current boot; absent until the first one since this fleet object started. */
  beat?: Beat;
  /** When it was last heard, by the fleet's clock; 0 before. */
  seen_at: number;
  seats: number;
  draining: boolean;
  /** Executions in the latest beat, by name, with how long each has been running. */
  listed: Map<string, { readonly execution: ExecutionRef & { readonly account: string }; readonly running_ms: number }>;
  /** Executions that were placed here and that no later beat has left out, by name. */
  readonly placed: Set<string>;
  /** It refused a dispatch: nothing new until its next beat. */
  refusing: boolean;
  strikes: number;
  suspended_until: number;
  /** Model files of what it ran last. */
  warm: ReadonlySet<string>;
}

/** Seats in use: what the runner lists and what is on its way there. */
export function seatsTaken(runner: Runner): number {
  let taken = runner.listed.size;
  for (const name of runner.placed) if (!runner.listed.has(name)) taken++;
  return taken;
}

/** Whether a runner takes new work at all. */
export function isOpen(runner: Runner, now: number): boolean {
  return (
    runner.entry.state === "active" &&
    runner.beat !== undefined &&
    !runner.draining &&
    !runner.refusing &&
    now >= runner.suspended_until &&
    seatsTaken(runner) < Math.min(runner.seats, runner.entry.max_seats)
  );
}

/** Whether a runner could serve a ticket, were it free. */
export const qualifies = (runner: Runner, ticket: Ticket): boolean =>
  ticket.needs.classes.every((name) => runner.classes.has(name)) && !ticket.exclude.includes(runner.entry.runner_id);

/** The best of the open runners for a ticket: not avoided while another qualifies, then warm, then least loaded. */
export function chooseRunner(open: readonly Runner[], ticket: Ticket): Runner | undefined {
  let best: Runner | undefined;
  let bestRank: readonly number[] = [];
  for (const runner of open) {
    if (!qualifies(runner, ticket)) continue;
    const cold = ticket.needs.models.filter((model) => !runner.warm.has(model)).length;
    const rank = [ticket.avoid.includes(runner.entry.runner_id) ? 1 : 0, cold, seatsTaken(runner) / runner.seats];
    const difference = rank.map((value, i) => value - (bestRank[i] ?? 0)).find((value) => value !== 0) ?? 0;
    if (!best || difference < 0) {
      best = runner;
      bestRank = rank;
    }
  }
  return best;
}

/** Which of an account's tickets goes first: priority, then age. */
export function firstTicket(tickets: Iterable<Ticket>, servable: (ticket: Ticket) => boolean): Ticket | undefined {
  let first: Ticket | undefined;
  for (const ticket of tickets) {
    if (!servable(ticket)) continue;
    const before =
      !first ||
      ticket.priority > first.priority ||
      (ticket.priority === first.priority && ticket.created_at < first.created_at);
    if (before) first = ticket;
  }
  return first;
}

/** Whether a runner's latest beat speaks of an execution that was held at `after`: it must then list it. */
export function saysGone(runner: Runner, execution: ExecutionRef, after: Beat): boolean {
  return runner.beat !== undefined && laterBeat(runner.beat, after) && !runner.listed.has(executionName(execution));
}
