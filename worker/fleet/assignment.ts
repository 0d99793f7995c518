import { chooseRunner, firstTicket, isOpen, qualifies, type Runner } from "./matching.ts";
import type { Client, Seats } from "./seats.ts";
import { executionName, type Impossible, type Ticket } from "./sync.ts";

/** Who gets a free seat next, and who can't get any. Pure but for what it writes into `Seats`. */

/**
 * Gives free seats to tickets until one of them has run out: the account with the least use per weight first.
 * @param placed told of each ticket that got a seat
 */
export function assignSeats(
  seats: Seats,
  runners: Iterable<Runner>,
  now: number,
  placed: (account: string, ticket: Ticket, runner: Runner) => void,
): void {
  const open = new Set([...runners].filter((runner) => isOpen(runner, now)));
  if (open.size === 0) return;
  const waiting = new Map([...seats.clients].filter(([, client]) => client.tickets.size > 0));
  while (open.size > 0 && waiting.size > 0) {
    let next: [string, Client] | undefined;
    for (const entry of waiting) if (!next || entry[1].share.virtual < next[1].share.virtual) next = entry;
    if (!next) return;
    const [account, client] = next;
    const choice = [...open];
    const ticket = firstTicket(client.tickets.values(), (one) => choice.some((runner) => qualifies(runner, one)));
    const runner = ticket && chooseRunner(choice, ticket);
    if (!ticket || !runner) {
      waiting.delete(account);
      continue;
    }
    client.tickets.delete(executionName(ticket));
    if (client.tickets.size === 0) waiting.delete(account);
    seats.serves(client);
    seats.seat(account, { job: ticket.job, fence: ticket.fence }, runner, now, now);
    if (ticket.needs.models.length > 0) runner.warm = new Set(ticket.needs.models);
    placed(account, ticket, runner);
    if (!isOpen(runner, now)) open.delete(runner);
  }
}

/** Those of the tickets that wait and that no active runner could serve. */
export function impossibleTickets(
  { tickets }: Client,
  asked: readonly Ticket[],
  runners: Iterable<Runner>,
): Impossible[] {
  const enrolled = [...runners].filter(({ entry }) => entry.state !== "revoked");
  const active = enrolled.filter(({ entry }) => entry.state === "active");
  return asked
    .filter((ticket) => tickets.has(executionName(ticket)))
    .filter((ticket) => !active.some((runner) => qualifies(runner, ticket)))
    .map((ticket) => {
      const others = enrolled.some((runner) => qualifies(runner, ticket));
      const excluded = !others && enrolled.some((runner) => qualifies(runner, { ...ticket, exclude: [] }));
      return { job: ticket.job, fence: ticket.fence, excluded };
    });
}
