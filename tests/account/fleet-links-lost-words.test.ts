import { expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { applyNews, endExecution, syncAnswered } from "../../worker/account/executions.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import { fire } from "../../worker/account/timers.ts";
import {
  type ExecutionRef,
  executionName,
  type FleetNews,
  type Placed,
  type SyncAnswer,
  type SyncRequest,
} from "../../worker/fleet/sync.ts";
import { completed, failed, HOME, KEY, NOW, news, OTHER_KEY, openAccount, seatOn, send } from "./fixture.ts";

/**
 * Several pools, each of which may lose a request, an answer, a callback or its memory, and an account that may be started anew:
 * once nothing is lost any more, every pool has what the account wants of it, and nothing else.
 */

const POOLS = [HOME, "west", "east"];
/** A runner that was told to stop says that it has by then. */
const STOPPED_MS = 12_000;
/** One in so many requests, and one in so many answers, is lost. */
const LOSS = 6;

/** Whole numbers below `n`; the same for the same seed. */
type Dice = (n: number) => number;

function diceOf(seed: number): Dice {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

interface Seat extends ExecutionRef {
  readonly runner: string;
  readonly at: number;
  dropped: boolean;
}

/** As much of a fleet as the conversation needs. Who gets a seat is decided by the test. */
class PlayedFleet {
  readonly tickets = new Map<string, ExecutionRef>();
  readonly seats = new Map<string, Seat>();
  readonly pool: string;
  readonly epoch: number;

  constructor(pool: string, epoch: number) {
    this.pool = pool;
    this.epoch = epoch;
  }

  sync(request: SyncRequest, now: number): SyncAnswer {
    const placed: Placed[] = [];
    for (const freed of request.freed) {
      this.tickets.delete(executionName(freed));
      this.seats.delete(executionName(freed));
    }
    for (const dropped of request.drop) {
      this.tickets.delete(executionName(dropped));
      const seat = this.seats.get(executionName(dropped));
      if (seat) seat.dropped = true;
    }
    if (request.full) this.#withdrawAbsent(request);
    for (const { job, fence, runner } of request.hold) {
      const name = executionName({ job, fence });
      this.tickets.delete(name);
      this.seats.set(name, { job, fence, runner, at: this.seats.get(name)?.at ?? now, dropped: false });
    }
    for (const { job, fence } of request.want) {
      const seat = this.seats.get(executionName({ job, fence }));
      if (!seat) this.tickets.set(executionName({ job, fence }), { job, fence });
      else {
        seat.dropped = false;
        placed.push({ ...seatOn(0, fence, seat.runner), job });
      }
    }
    const send_full = !request.full && request.epoch !== this.epoch;
    return { ...news({ placed }), epoch: this.epoch, again_in_s: 5, send_full };
  }

  #withdrawAbsent({ want, hold }: SyncRequest): void {
    const named = new Set([...want, ...hold].map(executionName));
    for (const name of [...this.tickets.keys()]) if (!named.has(name)) this.tickets.delete(name);
    for (const [name, seat] of [...this.seats]) if (!named.has(name) && !seat.dropped) this.seats.delete(name);
  }

  /** Gives a ticket a seat; the account hears of it if the news arrives. */
  place(ticket: ExecutionRef, runner: string, now: number): FleetNews {
    this.tickets.delete(executionName(ticket));
    this.seats.set(executionName(ticket), { ...ticket, runner, at: now, dropped: false });
    return news({ placed: [{ ...seatOn(0, ticket.fence, runner), job: ticket.job }] });
  }

  passes(now: number): void {
    for (const [name, { dropped, at }] of [...this.seats]) {
      if (dropped && now > at + STOPPED_MS) this.seats.delete(name);
    }
  }
}

class World {
  readonly opened = openAccount("enterprise", POOLS);
  readonly fleets = new Map<string, PlayedFleet>();
  readonly dice: Dice;
  account: Account = this.opened.account;
  now = NOW;
  lossy = true;
  #jobs = 0;
  #epochs = 0;

  constructor(seed: number) {
    this.dice = diceOf(seed);
    for (const pool of POOLS) this.#starts(pool);
  }

  #starts(pool: string): void {
    this.fleets.set(pool, new PlayedFleet(pool, ++this.#epochs));
  }

  get open() {
    return this.account.store.inPhases(["ready", "placed", "running"], 1_000);
  }

  /** What the object does about a `sync` effect. */
  talk(): void {
    const { account, now } = this;
    const { store, mustSettings: settings, links } = account;
    for (const pool of links.pools(settings, store)) {
      for (let again = true; again; ) {
        const request = links.request(pool, store, settings, now);
        const lost = this.lossy && this.dice(LOSS) === 0;
        const answer = request && !lost ? this.fleets.get(pool)?.sync(request, now) : undefined;
        again = answer?.send_full ?? false;
        if (answer && !(this.lossy && this.dice(LOSS) === 0)) syncAnswered(account, pool, answer, now);
        else if (request) {
          links.of(pool).unanswered(request);
          account.keepSyncing(now, 2_000);
          again = false;
        }
      }
    }
  }

  passes(ms: number): void {
    this.now += ms;
    for (const timer of this.account.store.dueTimers(this.now, 999)) {
      if (timer.kind === "sync") fire(this.account, timer, this.now);
    }
    if (this.account.takeEffects().some(({ kind }) => kind === "sync")) this.talk();
    for (const fleet of this.fleets.values()) fleet.passes(this.now);
  }

  #any<T>(from: readonly T[]): T | undefined {
    return from[this.dice(Math.max(1, from.length))];
  }

  submit(): void {
    const { account, dice, now } = this;
    if (this.open.length < 90) send(account, ++this.#jobs, { now, key: dice(2) ? KEY : OTHER_KEY, priority: dice(3) });
  }

  place(): void {
    const fleet = this.#any([...this.fleets.values()]);
    const ticket = fleet && this.#any([...fleet.tickets.values()]);
    if (!fleet || !ticket) return;
    const placed = fleet.place(ticket, `rnr_${fleet.pool}_${this.dice(4)}`, this.now);
    if (this.dice(LOSS) > 0) applyNews(this.account, fleet.pool, placed, this.now);
  }

  end(): void {
    const job = this.#any(this.open);
    const report = this.dice(3) ? completed() : failed("stalled");
    if (job?.placement) endExecution(this.account, job.job_id, job.fence, job.placement, report, this.now);
  }

  lose(): void {
    const job = this.#any(this.open);
    if (!job?.placement) return;
    const { pool } = job.placement;
    const ref = { job: job.job_id, fence: job.fence };
    this.fleets.get(pool)?.seats.delete(executionName(ref));
    applyNews(this.account, pool, news({ verdicts: [{ ...ref, verdict: "lost" }] }), this.now);
  }

  cancel(job_id = this.#any(this.open)?.job_id): void {
    if (job_id !== undefined) cancelJob(this.account, KEY, job_id, this.now);
  }

  restart(): void {
    this.account = this.opened.restart();
    this.talk();
  }

  forget(): void {
    this.#starts(this.#any(POOLS) ?? HOME);
  }

  act(): void {
    const draw = this.dice(40);
    if (draw < 14) this.submit();
    else if (draw < 26) this.place();
    else if (draw < 31) this.end();
    else if (draw < 34) this.lose();
    else if (draw < 38) this.cancel();
    else if (draw < 39) this.restart();
    else this.forget();
  }

  /** What every pool should have, and what it has. */
  compare(): { readonly want: Record<string, unknown>; readonly have: Record<string, unknown> } {
    const { store } = this.account;
    const tickets = store.nextReady(64).map(({ job_id, fence }) => executionName({ job: job_id, fence: fence + 1 }));
    const want: Record<string, unknown> = {};
    const have: Record<string, unknown> = {};
    for (const [pool, fleet] of this.fleets) {
      const seats = this.open.filter(({ placement }) => placement?.pool === pool);
      want[pool] = [tickets.sort(), seats.map(({ job_id, fence }) => executionName({ job: job_id, fence })).sort()];
      have[pool] = [[...fleet.tickets.keys()].sort(), [...fleet.seats.keys()].sort()];
    }
    return { want, have };
  }
}

test.each(Array.from({ length: 30 }, (_, i) => i + 1))("words that were lost are made up for (seed %i)", (seed) => {
  const world = new World(seed);
  for (let i = 0; i < 120; i++) {
    world.act();
    if (world.dice(3)) world.passes([50, 200, 1_000, 3_000][world.dice(4)] ?? 0);
  }
  // Every other time, whether anything is left of a job that nobody wants any more.
  if (seed % 2) for (const { job_id } of world.open) world.cancel(job_id);
  world.lossy = false;
  for (let s = 0; s < 60; s++) world.passes(1_000);
  const { want, have } = world.compare();
  expect(have).toEqual(want);
});
