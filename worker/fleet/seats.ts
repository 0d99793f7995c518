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
  /** Its account or a beat has said that it exists. */
  confirmed: boolean;
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
      client = { share: { tier: "free", virtual: this.#present }, tickets: new Map(), seated: 0 };
      this.clients.set(account, client);
    }
    return client;
  }

  /** An account speaks: one that had nothing at the fleet joins at the pool's present. */
  speaks(account: string, tier: Tier): Client {
    const client = this.client(account);
    const idle = client.tickets.size === 0 && client.seated === 0;
    client.share = { ...(idle ? joins(client.share, this.#present) : client.share), tier };
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
      charged_ms: PREPAID_MS,
      confirmed: false,
    };
    const client = this.client(account);
    client.seated++;
    client.share = charge(client.share, PREPAID_MS);
    this.seated.set(executionName(ref), seat);
    runner.placed.add(executionName(ref));
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
    if (client) client.share = charge(client.share, gpu_ms);
    seat.charged_ms += gpu_ms;
  }

  /** The seat is free since `until`; what was prepaid beyond that is given back. */
  unseat(seat: Seated, runner: Runner | undefined, until: number): void {
    this.#charge(seat, until - seat.at - seat.charged_ms);
    const name = executionName(seat.ref);
    this.seated.delete(name);
    runner?.placed.delete(name);
    const client = this.clients.get(seat.account);
    if (!client) return;
    client.seated--;
    this.forgetIdle(seat.account);
  }

  /** An account that owes for what it used is remembered until the present has caught up with it. */
  forgetIdle(account: string): void {
    const client = this.clients.get(account);
    if (client?.tickets.size === 0 && client.seated === 0 && client.share.virtual <= this.#present)
      this.clients.delete(account);
  }
}
