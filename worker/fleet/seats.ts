import type { Tier } from "../../schemas/limits.ts";
import { type Beat, laterBeat } from "../../schemas/runner-protocol.ts";
import { charge, PREPAID_MS, type Share } from "./fairness.ts";
import type { Lane } from "./lanes.ts";
import type { Runner } from "./runner-state.ts";
import { type ExecutionRef, executionName, type Ticket } from "./sync.ts";

/** Who sits where, what each account has been charged for it, and what stands against it. Memory only; pure. */

export interface Seated {
  readonly account: string;
  readonly ref: ExecutionRef;
  readonly runner: string;
  readonly boot: number;
  readonly at: number;
  /** GPU time that its account has been charged for it, in milliseconds. */
  charged_ms: number;
  /** When its account or a beat last said that it exists; absent while neither has. */
  confirmed_at?: number;
  /** The latest moment at which it is known to have been held. */
  beat?: Beat;
  /** Its account gave up repeating the dispatch: beats since then that did not list it. */
  unlisted?: number;
  /** Nobody wants it any more; it takes its seat until the runner says that it is gone. */
  dropped?: true;
  /** When a beat first left it out. */
  gone_at?: number;
}

/** An account as the fleet knows it. */
export interface Client {
  readonly account: string;
  share: Share;
  /** When it last spoke; absent while only beats have told of it: its tier is unknown, and nothing is charged. */
  spoke_at?: number;
  /** When it last had a ticket or a seat. */
  active_at: number;
  /** Its tickets, by name, with the lane in which each waits, and since when. */
  readonly tickets: Map<string, { readonly ticket: Ticket; readonly lane: Lane; readonly since: number }>;
  /** Where they wait. */
  readonly lanes: Set<Lane>;
  /** Seats in use. */
  readonly seats: Map<string, Seated>;
  /** When its graphs killed engines. */
  kills: readonly number[];
  /** One seat at a time, until an execution succeeds. */
  limited: boolean;
}

/** An account whose graphs killed this many engines within the time gets one seat at a time. */
const KILLS = 2;
const KILLS_WITHIN_MS = 600_000;
/** A past without tickets or seats is remembered this long, as far as it is owed for, and never longer than the second. */
const REMEMBER_MS = 600_000;
const REMEMBER_MOST_MS = 3_600_000;

export class Seats {
  readonly clients = new Map<string, Client>();
  readonly seated = new Map<string, Seated>();
  /** Accounts with tickets or seats, by tier, and those of them whose tickets wait. */
  readonly active: Record<Tier, number> = { free: 0, pro: 0, enterprise: 0 };
  readonly waiting: Record<Tier, number> = { free: 0, pro: 0, enterprise: 0 };
  /** Seats of accounts that have all that they asked for. */
  settledSeats = 0;
  /** Seats that accounts of the Free tier have. */
  freeTier = 0;
  readonly #changed: (client: Client) => void;

  /** @param changed told when what a client has used, holds or may hold has changed */
  constructor(changed: (client: Client) => void = () => {}) {
    this.#changed = changed;
  }

  client(account: string, now: number): Client {
    let client = this.clients.get(account);
    if (!client) {
      client = {
        account,
        share: { tier: "free", virtual: 0 },
        active_at: now,
        tickets: new Map(),
        lanes: new Set(),
        seats: new Map(),
        kills: [],
        limited: false,
      };
      this.clients.set(account, client);
    }
    return client;
  }

  /** The account's own word of its tier. */
  speaks(client: Client, tier: Tier, now: number): void {
    client.spoke_at = now;
    client.active_at = now;
    if (client.share.tier === tier) return;
    this.change(client, () => {
      client.share = { ...client.share, tier };
    });
  }

  #counts({ share: { tier }, tickets, seats }: Client, by: 1 | -1): void {
    if (tickets.size > 0 || seats.size > 0) this.active[tier] += by;
    if (tickets.size > 0) this.waiting[tier] += by;
    else this.settledSeats += by * seats.size;
    if (tier === "free") this.freeTier += by * seats.size;
  }

  /** Changes what a client has or is, and counts it by the outcome. */
  change(client: Client, work: () => void): void {
    this.#counts(client, -1);
    work();
    this.#counts(client, 1);
  }

  seat(account: string, ref: ExecutionRef, runner: Runner, at: number, now: number): Seated {
    const name = executionName(ref);
    const client = this.client(account, now);
    const seat: Seated = { account, ref, runner: runner.entry.runner_id, boot: runner.entry.boot, at, charged_ms: 0 };
    this.change(client, () => {
      this.seated.set(name, seat);
      client.seats.set(name, seat);
      runner.placed.add(name);
      this.#charge(client, seat, Math.max(PREPAID_MS, now - at));
    });
    this.#changed(client);
    return seat;
  }

  /** Known to have been held at `beat`. */
  held(seat: Seated, beat: Beat): void {
    if (!seat.beat || laterBeat(beat, seat.beat)) seat.beat = beat;
  }

  /** Charges what has been used beyond what was paid. */
  trueUp(seat: Seated, now: number): void {
    const owed = now - seat.at - seat.charged_ms;
    const client = this.clients.get(seat.account);
    if (owed <= 0 || !client) return;
    this.#charge(client, seat, owed);
    this.#changed(client);
  }

  #charge(client: Client, seat: Seated, gpu_ms: number): void {
    if (client.spoke_at !== undefined) client.share = charge(client.share, gpu_ms);
    seat.charged_ms += gpu_ms;
  }

  /** The seat is free since `until`; what was prepaid beyond that is given back. */
  unseat(seat: Seated, runner: Runner | undefined, until: number): void {
    const name = executionName(seat.ref);
    this.seated.delete(name);
    runner?.placed.delete(name);
    const client = this.clients.get(seat.account);
    if (!client) return;
    this.change(client, () => {
      this.#charge(client, seat, until - seat.at - seat.charged_ms);
      client.seats.delete(name);
      client.active_at = Math.max(client.active_at, until);
    });
    this.#changed(client);
  }

  /** How an execution ended, where that says something of the account's graphs. */
  ended(account: string, outcome: "killed" | "succeeded", now: number): void {
    const client = this.clients.get(account);
    if (!client || (outcome === "succeeded" && client.kills.length === 0)) return;
    client.kills =
      outcome === "killed" ? [...client.kills.filter((at) => at > now - KILLS_WITHIN_MS), now].slice(-KILLS) : [];
    client.limited = outcome === "killed" && (client.limited || client.kills.length >= KILLS);
    this.#changed(client);
  }

  /** Forgets accounts that have had nothing here for long: soon those that owe nothing, later all. */
  forgetIdle(isOwing: (client: Client) => boolean, now: number): void {
    for (const client of this.clients.values()) {
      if (isBusy(client)) continue;
      const idle_ms = now - client.active_at;
      const owes = client.kills.length > 0 || isOwing(client);
      if (idle_ms >= (owes ? REMEMBER_MOST_MS : REMEMBER_MS)) this.clients.delete(client.account);
    }
  }
}

/** What an account has used for its weight, without what it has paid in advance. */
export function settled({ share, seats }: Client, now: number): number {
  let ahead = 0;
  for (const { at, charged_ms } of seats.values()) ahead += Math.max(0, charged_ms - Math.max(0, now - at));
  return charge(share, -ahead).virtual;
}

export const isBusy = ({ tickets, seats }: Client): boolean => tickets.size > 0 || seats.size > 0;
