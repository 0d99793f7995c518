import { TIER_WEIGHT, type Tier } from "../../schemas/limits.ts";
import { START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Clock } from "../../tests/simulation/clock.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import { MemoryRoster } from "../memory-roster.ts";
import { type Reach, SimAccount } from "./account.ts";
import { stream } from "./chance.ts";
import type { Kind, Member } from "./population.ts";
import { rosterEntry, SimRunner } from "./runner.ts";

/** The real pool between simulated accounts and simulated runners. */

export const START = Date.UTC(2026, 0, 15, 12);
const SAMPLE_MS = 10_000;
/** Between two looks at when the pool wants to be ticked. */
const LOOK_MS = 1_000;

export interface Present {
  readonly kind: Kind;
  readonly account: SimAccount;
}

/** The pool as it stands at one moment. */
export interface Sample {
  readonly at: number;
  /** Accounts with tickets or seats. */
  readonly active: Readonly<Record<Tier, number>>;
  readonly weight: number;
}

/** Seats of the n-th runner: most have one GPU, few have four. */
export const seatsOf = (n: number): number => (n % 20 === 0 ? 4 : n % 20 < 4 ? 2 : 1);

export const seatsOfAll = (runners: number): number =>
  Array.from({ length: runners }, (_, n) => seatsOf(n)).reduce((sum, seats) => sum + seats, 0);

export class Simulation {
  readonly clock = new Clock(START);
  readonly present: Present[] = [];
  readonly samples: Sample[] = [];
  /** Real milliseconds spent in the pool, and calls of it. */
  pool_ms = 0;
  calls = 0;
  readonly #pool: Pool;
  readonly #runners = new Map<string, SimRunner>();
  readonly #accounts = new Map<string, SimAccount>();
  readonly #reach: Reach;
  #armedFor = Number.POSITIVE_INFINITY;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(seed: number, runners: number, members: readonly Member[]) {
    const { clock } = this;
    this.#pool = new Pool(new MemoryRoster(), { started_at: START - START_GRACE_MS, grace_until: START });
    this.#reach = {
      clock,
      sync: (request) => this.#run((pool) => pool.sync(request, clock.now)),
      runner: (id) => this.#runners.get(id),
    };
    for (let n = 0; n < runners; n++) this.#enrol(seed, n);
    for (const member of members) clock.at(START + member.joins_at, () => this.#joins(seed, member));
    const sample = () => {
      this.#sample();
      clock.after(SAMPLE_MS, sample);
    };
    clock.after(SAMPLE_MS, sample);
  }

  #enrol(seed: number, n: number): void {
    const id = `runner-${n}`;
    const seats = seatsOf(n);
    this.#run((pool) => pool.enrol(rosterEntry(id, seats, START)));
    const runner = new SimRunner(id, seats, {
      clock: this.clock,
      chance: stream(seed, id),
      beat: (message) => this.#run((pool) => pool.beat(id, `jkt-${id}`, message, this.clock.now)),
    });
    this.#runners.set(id, runner);
    runner.boots();
  }

  #joins(seed: number, { kind, profile }: Member): void {
    const account = new SimAccount(profile, stream(seed, profile.name), this.#reach);
    this.#accounts.set(profile.name, account);
    this.present.push({ kind, account });
    profile.habit.starts(account);
  }

  /** One message to the pool, as the fleet object handles it: then the news, and the alarm. */
  #run<T>(verb: (pool: Pool) => T): T {
    const started = performance.now();
    const value = verb(this.#pool);
    const news = this.#pool.takeNews();
    this.#arm();
    this.pool_ms += performance.now() - started;
    this.calls++;
    // Told when the message has been answered: the caller applies its own answer first.
    if (news.size > 0)
      this.clock.after(0, () => {
        for (const [account, said] of news) this.#accounts.get(account)?.hears(said);
      });
    return value;
  }

  #arm(): void {
    const { now } = this.clock;
    // The pool's next tick is never sooner than a second from now, and asking costs a look at every seat.
    if (this.#armedFor <= now + LOOK_MS || now < this.#lookedAt + LOOK_MS) return;
    this.#lookedAt = now;
    const next = this.#pool.nextTick(now);
    if (next === undefined || next >= this.#armedFor) return;
    this.#armedFor = next;
    this.clock.at(next, () => {
      if (this.#armedFor !== next) return;
      this.#armedFor = Number.POSITIVE_INFINITY;
      this.#run((pool) => pool.tick(this.clock.now));
    });
  }

  #sample(): void {
    const active: Record<Tier, number> = { free: 0, pro: 0, enterprise: 0 };
    let weight = 0;
    for (const { account } of this.present) {
      if (!account.isActive) continue;
      active[account.profile.tier]++;
      weight += TIER_WEIGHT[account.profile.tier];
    }
    this.samples.push({ at: this.clock.now, active, weight });
  }

  runFor(ms: number): void {
    this.clock.runUntil(START + ms);
  }
}
