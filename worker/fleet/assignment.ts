import { type Candidate, type Lane, Lanes } from "./lanes.ts";
import { qualifies, type Runner } from "./runner-state.ts";
import { coldModels, type Runners } from "./runners.ts";
import type { Client, Seats } from "./seats.ts";
import { executionName, type Impossible, type Ticket } from "./sync.ts";

/** Who gets a free seat next, and who can't get any (design section 5). */

/**
 * Somebody who has used at most this much more GPU time for its weight may go first where its models are loaded already: a choice,
 * not a measurement. Whoever is passed over is never further behind than that.
 */
const WARM_BOUND_MS = 10_000;
/** How many are asked whether they would find their models. */
const WARM_CANDIDATES = 16;

/**
 * Which of an account's tickets goes first: of each key the one of the highest priority, then the oldest; of those the oldest, so
 * that no key's priorities hold up another key.
 */
export function firstTicket(tickets: Iterable<Ticket>, isServable: (ticket: Ticket) => boolean): Ticket | undefined {
  const firsts = new Map<string, Ticket>();
  for (const ticket of tickets) {
    const first = firsts.get(ticket.key);
    const before =
      !first ||
      ticket.priority > first.priority ||
      (ticket.priority === first.priority && ticket.created_at < first.created_at);
    if (before && isServable(ticket)) firsts.set(ticket.key, ticket);
  }
  let oldest: Ticket | undefined;
  for (const ticket of firsts.values()) if (!oldest || ticket.created_at < oldest.created_at) oldest = ticket;
  return oldest;
}

export interface Match {
  readonly client: Client;
  readonly ticket: Ticket;
  readonly runner: Runner;
}

/** The account's first ticket in a lane that an open runner may have, and the best runner for it. */
function matchOf(runners: Runners, { kinds, tickets }: Lane, client: Client): Match | undefined {
  const mayGo = (ticket: Ticket) => ticket.exclude.length === 0 || runners.choose(kinds, ticket) !== undefined;
  const ticket = firstTicket(tickets.get(client)?.values() ?? [], mayGo);
  const runner = ticket && runners.choose(kinds, ticket);
  return ticket && runner && { client, ticket, runner };
}

const isCold = ({ ticket, runner }: Match): boolean => ticket.needs.models.length > 0 && coldModels(runner, ticket) > 0;

/** Where the first in turn would have to load its models: another of the same standing that would find its own, within the bound. */
function warmer(runners: Runners, lanes: Lanes, candidate: Candidate): Match | undefined {
  for (const client of lanes.near(candidate, WARM_BOUND_MS, WARM_CANDIDATES)) {
    const match = matchOf(runners, candidate.lane, client);
    if (match && match.ticket.needs.models.length > 0 && !isCold(match)) return match;
  }
  return undefined;
}

/** Gives free seats to tickets until one of them has run out. `place` must take the ticket out of its lane and seat it. */
export function assignSeats(
  { lanes, runners, seats, freeTierCap }: { lanes: Lanes; runners: Runners; seats: Seats; freeTierCap: () => number },
  now: number,
  place: (match: Match) => void,
): void {
  const passedOver: [Lane, Client][] = [];
  for (;;) {
    const open = [...lanes].filter((lane) => lane.tickets.size > 0 && runners.isOpen(lane.kinds));
    const freeIsOver = seats.freeTier >= freeTierCap() && Lanes.paidWaits(open);
    const next = lanes.first(open, freeIsOver);
    if (!next) break;
    const match = matchOf(runners, next.lane, next.client);
    if (match) {
      lanes.serves(next, now);
      place((isCold(match) ? warmer(runners, lanes, next) : undefined) ?? match);
    } else {
      // Its tickets exclude every runner that is open. It stands where it stood when others have been looked at.
      lanes.leave(next.lane, next.client);
      passedOver.push([next.lane, next.client]);
    }
  }
  for (const [lane, client] of passedOver) if (lane.tickets.has(client)) lanes.enter(lane, client);
}

/** Those of the tickets asked for that wait and that no active runner could serve, be it free or not. */
export function impossibleTickets(runners: Runners, { tickets }: Client, asked: readonly Ticket[]): Impossible[] {
  return asked.flatMap((ticket) => {
    const lane = tickets.get(executionName(ticket))?.lane;
    if (!lane || runners.isServable(lane.kinds, ticket)) return [];
    const enrolled = [...runners.values()].filter(({ entry }) => entry.state !== "revoked");
    return { job: ticket.job, fence: ticket.fence, hopeless: !enrolled.some((runner) => qualifies(runner, ticket)) };
  });
}
