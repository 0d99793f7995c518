import { type Beat, laterBeat } from "../../schemas/runner-protocol.ts";
import type { Tier } from "../../schemas/limits.ts";
import { charge, joins, PREPAID_MS, type Share } from "./fairness.ts";
import type { Runner } from "./matching.ts";
import { type ExecutionRef, executionName, type Ticket } from "./sync.ts";

/** Who sits where, and what each account has been charged for it. Memory only; pure. */

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

export interface Client {
  share: Share;
  /** False while only beats have told of this account: its tier is unknown, and nothing is charged. */
  spoken: boolean;
  readonly tickets: Map<string, Ticket>;
  /** Seats in use. */
  seated: number;
}

export class Seats {
  readonly clients = new Map<string, Client>();
  readonly seated = new Map<string, Seated>();
  /** The pool's present on the accounts' common scale: where the last ticket served stood. */
  #present = 0;

  client(account: string): Client {
    let client = this.clients.get(account);
    if (!client) {
      client = {
        share: { tier: "free", virtual: this.#present },
        spoken: false,
        tickets: new Map(),
        seated: 0,
      };
      this.clients.set(account, client);
    }
    return client;
  }

  /** An account speaks: one that had nothing at the fleet joins at the pool's present. */
  speaks(account: string, tier: Tier): Client {
    const client = this.client(account);
    const idle = client.tickets.size === 0 && client.seated === 0;
    client.share = { ...(idle ? joins(client.share, this.#present) : client.share), tier };
    client.spoken = true;
    return client;
  }

  /** Its next ticket is served: that is the present. */
  serves(client: Client): void {
    this.#present = Math.max(this.#present, client.share.virtual);
  }

  seat(account: string, ref: ExecutionRef, runner: Runner, at: number, now: number): Seated {
    const seat: Seated = {
      account,
      ref,
      runner: runner.entry.runner_id,
      boot: runner.entry.boot,
      at,
      charged_ms: 0,
    };
    this.client(account).seated++;
    this.seated.set(executionName(ref), seat);
    runner.placed.add(executionName(ref));
    this.#charge(seat, PREPAID_MS);
    this.trueUp(seat, now);
    return seat;
  }

  /** Known to have been held at `beat`. */
  held(seat: Seated, beat: Beat): void {
    if (!seat.beat || laterBeat(beat, seat.beat)) seat.beat = beat;
  }

  /** Charges what has been used beyond what was paid. */
  trueUp(seat: Seated, now: number): void {
    const owed = now - seat.at - seat.charged_ms;
    if (owed > 0) this.#charge(seat, owed);
  }

  #charge(seat: Seated, gpu_ms: number): void {
    const client = this.clients.get(seat.account);
    if (client?.spoken) client.share = charge(client.share, gpu_ms);
    seat.charged_ms += gpu_ms;
  }

  /** The seat is free since `until`; what was prepaid beyond that is given back. */
  unseat(seat: Seated, runner: Runner | undefined, until: number): void {
    this.#charge(seat, until - seat.at - seat.charged_ms);
    const name = executionName(seat.ref);
    this.seated.delete(name);
    runner?.placed.delete(name);
    const client = this.clients.get(seat.account);
    if (client) client.seated--;
  }

  /**
   * Forgets an account that has nothing at the fleet. One that owes for what it used is remembered until the present has caught up
   * with it. Not to be called while a message of that account is being handled.
   */
  forgetIdle(account: string): void {
    const client = this.clients.get(account);
    if (client?.tickets.size === 0 && client.seated === 0 && client.share.virtual <= this.#present)
      this.clients.delete(account);
  }
}
