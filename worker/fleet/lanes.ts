import { type Caps, joins, type Line, LINES, lineOf } from "./fairness.ts";
import { RankedHeap } from "./ranked-heap.ts";
import type { Kind } from "./runner-state.ts";
import { type Client, type Seats, settled } from "./seats.ts";
import { executionName, type ExecutionRef, type Ticket } from "./sync.ts";

/**
 * Who waits for a seat. A lane holds the tickets that the same kinds of runner can serve, so that nobody stands behind one who waits
 * for something else; in it, paid and Free accounts queue apart, by what they have used for their weight. Memory only; pure.
 */

interface Queue {
  /** Accounts that may have another seat, whoever waits. */
  readonly entitled: RankedHeap<Client>;
  /** Accounts that have as many seats as they may have while others wait. */
  readonly capped: RankedHeap<Client>;
  /** What the last account had used that was served in its turn, for its weight: newcomers join there. */
  present: number;
}

export interface Lane {
  /** Those that can serve it: enrolled now or once since the fleet started. */
  readonly kinds: ReadonlySet<Kind>;
  readonly lines: Readonly<Record<Line, Queue>>;
  readonly tickets: Map<Client, Map<string, Ticket>>;
  /** In which queue each account stands; in none while it may have no seat at all. */
  readonly stands: Map<Client, RankedHeap<Client>>;
}

/** An account that could be served next, and how it stands: lower ranks go first, then lower virtual times. */
export interface Candidate {
  readonly client: Client;
  readonly lane: Lane;
  readonly line: Line;
  readonly rank: number;
}

/** Needs that are remembered with their lane: more than there are workflows in use at a time. */
const MAX_NEEDS = 10_000;

const byUse = (a: Client, b: Client): boolean => a.share.virtual < b.share.virtual;
const newQueue = (present: number): Queue => ({
  entitled: new RankedHeap(byUse),
  capped: new RankedHeap(byUse),
  present,
});

export class Lanes {
  readonly #kinds: () => Iterable<Kind>;
  readonly #seats: () => Seats;
  readonly #caps: () => Caps;
  readonly #lanes = new Map<string, Lane>();
  readonly #byNeeds = new Map<string, Lane>();
  /** The furthest present of any lane: a new one begins there, so that what was used elsewhere weighs as much as ever. */
  readonly #latest: Record<Line, number> = { paid: 0, free: 0 };

  constructor(parts: { kinds: () => Iterable<Kind>; seats: () => Seats; caps: () => Caps }) {
    this.#kinds = parts.kinds;
    this.#seats = parts.seats;
    this.#caps = parts.caps;
  }

  [Symbol.iterator](): Iterator<Lane> {
    return this.#lanes.values();
  }

  /** The lane of what a ticket needs. */
  laneOf(classes: readonly string[]): Lane {
    const needs = classes.join("\n");
    const known = this.#byNeeds.get(needs);
    if (known) return known;
    const kinds = [...this.#kinds()].filter((kind) => classes.every((name) => kind.classes.has(name)));
    const key = kinds.map(({ id }) => id).join(",");
    const lane = this.#lanes.get(key) ?? {
      kinds: new Set(kinds),
      lines: { paid: newQueue(this.#latest.paid), free: newQueue(this.#latest.free) },
      tickets: new Map<Client, Map<string, Ticket>>(),
      stands: new Map<Client, RankedHeap<Client>>(),
    };
    this.#lanes.set(key, lane);
    if (this.#byNeeds.size >= MAX_NEEDS) this.#byNeeds.clear();
    this.#byNeeds.set(needs, lane);
    return lane;
  }

  /** A ticket that is asked for again waits since it came first. */
  add(client: Client, ticket: Ticket, now: number): void {
    const name = executionName(ticket);
    const lane = this.laneOf(ticket.needs.classes);
    const known = client.tickets.get(name);
    const since = known?.since ?? now;
    if (known?.lane === lane) {
      lane.tickets.get(client)?.set(name, ticket);
      client.tickets.set(name, { ticket, lane, since });
      return;
    }
    if (known) this.remove(client, ticket);
    this.#seats().change(client, () => {
      client.tickets.set(name, { ticket, lane, since });
    });
    const waiting = lane.tickets.get(client);
    if (waiting) {
      waiting.set(name, ticket);
      return;
    }
    lane.tickets.set(client, new Map([[name, ticket]]));
    client.lanes.add(lane);
    client.share = joins(client.share, presentOf(lane, lineOf(client.share.tier)));
    this.sort(client);
  }

  remove(client: Client, ref: ExecutionRef): void {
    const name = executionName(ref);
    const known = client.tickets.get(name);
    if (!known) return;
    const { lane } = known;
    const waiting = lane.tickets.get(client);
    waiting?.delete(name);
    if (waiting?.size === 0) {
      lane.tickets.delete(client);
      client.lanes.delete(lane);
      this.leave(lane, client);
    }
    this.#seats().change(client, () => {
      client.tickets.delete(name);
    });
  }

  /** A client's use, seats or rights have changed: it stands where it belongs now in each of its lanes. */
  sort = (client: Client): void => {
    for (const lane of client.lanes) this.enter(lane, client);
  };

  enter(lane: Lane, client: Client): void {
    if (client.limited && client.seats.size > 0) {
      this.leave(lane, client);
      return;
    }
    const { tier } = client.share;
    const { entitled, capped } = lane.lines[lineOf(tier)];
    const queue = client.seats.size < this.#caps().account[tier] ? entitled : capped;
    if (lane.stands.get(client) !== queue) {
      this.leave(lane, client);
      lane.stands.set(client, queue);
    }
    queue.put(client);
  }

  /** Takes a client out of a lane's queues; its tickets stay. */
  leave(lane: Lane, client: Client): void {
    lane.stands.get(client)?.delete(client);
    lane.stands.delete(client);
  }

  /** Caps have changed with who is there: everybody stands where he belongs now. */
  sortAll(): void {
    for (const lane of this.#lanes.values()) for (const client of lane.tickets.keys()) this.enter(lane, client);
  }

  /** Whether paid work waits in one of these lanes. */
  static paidWaits(lanes: Iterable<Lane>): boolean {
    for (const { lines } of lanes) if (lines.paid.entitled.size + lines.paid.capped.size > 0) return true;
    return false;
  }

  /** The account that goes first in these lanes. */
  first(lanes: Iterable<Lane>, freeIsOver: boolean): Candidate | undefined {
    let best: Candidate | undefined;
    for (const lane of lanes) {
      const candidate = this.#firstOf(lane, freeIsOver);
      if (candidate && (!best || isBefore(candidate, best))) best = candidate;
    }
    return best;
  }

  /**
   * The account of a lane that goes first: of those within their caps the one that has used least; only then those beyond, for a
   * seat is never left empty for a cap's sake.
   * @param freeIsOver the Free tier has all that it may have while paid work waits
   */
  #firstOf(lane: Lane, freeIsOver: boolean): Candidate | undefined {
    let best: Candidate | undefined;
    for (const line of LINES) {
      const { entitled, capped } = lane.lines[line];
      const client = this.#entitled(lane, line) ?? capped.peek();
      if (!client) continue;
      const over = line === "free" && freeIsOver ? 2 : 0;
      const candidate = { client, lane, line, rank: over + (entitled.has(client) ? 0 : 1) };
      if (!best || isBefore(candidate, best)) best = candidate;
    }
    return best;
  }

  /** The first entitled account; those whose cap has shrunk meanwhile are put where they belong. */
  #entitled(lane: Lane, line: Line): Client | undefined {
    const { entitled } = lane.lines[line];
    for (let client = entitled.peek(); client; client = entitled.peek()) {
      if (client.seats.size < this.#caps().account[client.share.tier]) return client;
      this.enter(lane, client);
    }
    return undefined;
  }

  /** Others that stand as the candidate does and have used at most `more_ms` more for their weight. */
  near({ client, lane, line }: Candidate, more_ms: number, count: number): Client[] {
    const { entitled, capped } = lane.lines[line];
    const queue = entitled.has(client) ? entitled : capped;
    return queue.near((other) => other.share.virtual <= client.share.virtual + more_ms, count);
  }

  /** A client is served in its turn: that is the present of its line. What it has only prepaid is not yet past. */
  serves({ client, lane, line, rank }: Candidate, now: number): void {
    const queue = lane.lines[line];
    if (rank % 2 === 0) queue.present = Math.max(queue.present, settled(client, now));
    this.#latest[line] = Math.max(this.#latest[line], queue.present);
  }

  /** Whether a client owes: it has used more than anybody who was served in his turn. */
  isAhead = ({ share }: Client): boolean => share.virtual > this.#latest[lineOf(share.tier)];

  /** Kinds of runner have come: every ticket finds its lane anew. */
  rebuild(): void {
    const before = [...this.#lanes.values()];
    this.#lanes.clear();
    this.#byNeeds.clear();
    for (const old of before) {
      for (const [client, tickets] of old.tickets) {
        client.lanes.delete(old);
        for (const [name, ticket] of tickets) {
          const lane = this.laneOf(ticket.needs.classes);
          const waiting = lane.tickets.get(client) ?? new Map<string, Ticket>();
          waiting.set(name, ticket);
          lane.tickets.set(client, waiting);
          client.lanes.add(lane);
          client.tickets.set(name, { ticket, lane, since: client.tickets.get(name)?.since ?? 0 });
        }
      }
    }
    for (const lane of this.#lanes.values()) {
      for (const client of lane.tickets.keys()) {
        // Who comes now stands with the first of those who have waited, not behind them all.
        const { lines } = lane;
        const line = lineOf(client.share.tier);
        lines[line].present = Math.min(lines[line].present, client.share.virtual);
        this.enter(lane, client);
      }
    }
  }
}

/** A line in which nobody waits has stood still: who comes into it stands with those of the other. */
function presentOf({ lines }: Lane, line: Line): number {
  const queue = lines[line];
  const isEmpty = queue.entitled.size + queue.capped.size === 0;
  const other = lines[line === "free" ? "paid" : "free"];
  if (isEmpty) queue.present = Math.max(queue.present, other.present);
  return queue.present;
}

const isBefore = (a: Candidate, b: Candidate): boolean =>
  a.rank < b.rank || (a.rank === b.rank && a.client.share.virtual < b.client.share.virtual);
