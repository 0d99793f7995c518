import type { Tier } from "../../schemas/limits.ts";
import { assignSeats } from "./assignment.ts";
import { type Caps, capsOf } from "./fairness.ts";
import { faulted, HEALTHY, reached, struck } from "./health.ts";
import { type FleetHistory, record } from "./history.ts";
import { Lanes } from "./lanes.ts";
import { silentAt, type Watch } from "./losses.ts";
import type { RosterEntry, RosterStore } from "./roster.ts";
import type { Runner } from "./runner-state.ts";
import { Runners } from "./runners.ts";
import { type Seated, Seats } from "./seats.ts";
import { type ExecutionRef, executionName, type Placed, type SeatOutcome, type Verdict } from "./sync.ts";

/** What a fleet knows, and the moves that beats, conversations and time share. Memory but for the roster; pure. */

/** A placement that neither its account nor a beat has confirmed by then is void. */
const UNCONFIRMED_MS = 60_000;
/** What its account, and a seat's runner, have not mentioned for this long is void: longer than the longest pause between full syncs. */
export const FORGOTTEN_MS = 180_000;
/** How long an execution that a beat left out may wait for its account's word before it counts as lost. */
export const GONE_GRACE_MS = 2_000;

interface News {
  readonly placed: Placed[];
  readonly verdicts: Verdict[];
}

interface Unwanted {
  readonly runner: string;
  readonly account: string;
  readonly ref: ExecutionRef;
}

export const placedOn = ({ entry }: Runner, { job, fence }: ExecutionRef): Placed => ({
  job,
  fence,
  runner: entry.runner_id,
  boot: entry.boot,
  url: entry.url,
  jkt: entry.jkt,
});

export class PoolState {
  readonly runners: Runners;
  readonly lanes: Lanes;
  readonly seats: Seats;
  readonly watch: Watch;
  /** Executions that were posted and have let go of their seat, and when: a late word of them is old. */
  readonly freed = new Map<string, number>();
  /** Executions to be stopped, until a beat leaves them out. */
  readonly unwanted = new Map<string, Unwanted>();
  readonly news = new Map<string, News>();
  readonly history: FleetHistory;
  catalogueChanged = true;
  /** When time is to be looked at. What makes it earlier says so; what makes it later is seen by the look. */
  nextLook = Number.POSITIVE_INFINITY;
  readonly #store: RosterStore;
  #caps: { readonly of: Record<Tier | "capacity" | "settled", number>; readonly caps: Caps } | undefined;

  constructor(store: RosterStore, watch: Watch, history: FleetHistory) {
    this.#store = store;
    this.watch = watch;
    this.history = history;
    this.seats = new Seats((client) => this.lanes.sort(client));
    this.lanes = new Lanes({
      kinds: () => this.runners.kinds(),
      seats: () => this.seats,
      caps: () => this.caps,
    });
    this.runners = new Runners(() => this.lanes.rebuild());
    for (const entry of store.runners()) this.lookAt(silentAt(this.runners.admit(entry), watch));
  }

  lookAt(time: number): void {
    this.nextLook = Math.min(this.nextLook, time);
  }

  /** What accounts and the Free tier may have while others wait, as things stand. */
  get caps(): Caps {
    const { free, pro, enterprise } = this.seats.waiting;
    const { capacity } = this.runners;
    const { settledSeats } = this.seats;
    const of = this.#caps?.of;
    const same =
      of?.capacity === capacity &&
      of.settled === settledSeats &&
      of.free === free &&
      of.pro === pro &&
      of.enterprise === enterprise;
    if (!this.#caps || !same) {
      const caps = capsOf(capacity, capacity - settledSeats, this.seats.waiting);
      this.#caps = { of: { capacity, settled: settledSeats, free, pro, enterprise }, caps };
    }
    return this.#caps.caps;
  }

  put(runner: Runner, entry: RosterEntry): void {
    runner.entry = entry;
    this.#store.putRunner(entry);
  }

  /** A new runner, which has just proven that it is there. */
  admit(entry: RosterEntry): void {
    this.#store.putRunner(entry);
    const runner = this.runners.admit(entry);
    runner.seen_at = entry.enrolled_at;
    this.lookAt(silentAt(runner, this.watch));
  }

  /** A seat for an execution that is, or is to be, on this runner since `at`. */
  seat(account: string, ref: ExecutionRef, runner: Runner, at: number, now: number): Seated {
    const seat = this.seats.seat(account, ref, runner, at, now);
    this.lookAt(this.voidAt(seat));
    return seat;
  }

  /** When a seat is void that nobody speaks of any more. One that its runner lists never is. */
  voidAt(seat: Seated): number {
    if (this.isListed(seat)) return Number.POSITIVE_INFINITY;
    return seat.confirmed_at === undefined ? seat.at + UNCONFIRMED_MS : seat.confirmed_at + FORGOTTEN_MS;
  }

  /** Whether its runner lists a seat's execution. */
  isListed({ runner, ref }: Seated): boolean {
    return this.runners.get(runner)?.listed.has(executionName(ref)) ?? false;
  }

  /** A beat leaves out an execution that was held: its account has a moment to say how it ended. */
  goes(seat: Seated, now: number): void {
    seat.gone_at ??= now;
    this.lookAt(seat.gone_at + GONE_GRACE_MS);
    this.runners.get(seat.runner)?.placed.delete(executionName(seat.ref));
  }

  newsFor(account: string): News {
    const news = this.news.get(account) ?? { placed: [], verdicts: [] };
    this.news.set(account, news);
    return news;
  }

  /** Ends a seat by a verdict of the fleet's own, which its account gets as news. */
  judged(seat: Seated, verdict: "lost" | "revoked" | "refused", until: number, now: number): void {
    this.newsFor(seat.account).verdicts.push({ ...seat.ref, verdict });
    this.unseat(seat, until, now);
    if (verdict !== "refused") record(this.history, { kind: "failed" }, now);
  }

  /** The seat is free, and its account pays until `until`. */
  unseat(seat: Seated, until: number, now: number): void {
    const runner = this.runners.get(seat.runner);
    this.seats.unseat(seat, runner, until);
    if (runner) this.runners.changed(runner, now);
  }

  /** All that a runner held is gone. An account pays nothing for what a lost runner did. */
  loseSeats(runner: Runner, now: number, which: (seat: Seated) => boolean = () => true): void {
    const verdict = runner.entry.state === "revoked" ? "revoked" : "lost";
    for (const seat of [...this.seats.seated.values()]) {
      if (seat.runner !== runner.entry.runner_id || !which(seat)) continue;
      this.judged(seat, verdict, seat.at, now);
    }
  }

  strike(runner: Runner, now: number): void {
    runner.health = struck(runner.health, now);
    this.#changed(runner, now);
  }

  #changed(runner: Runner, now: number): void {
    if (runner.health.suspended_until > now) this.lookAt(runner.health.suspended_until);
    this.runners.changed(runner, now);
  }

  /** What the end of a hold says of the runner, and of the account's graphs. */
  learns(runner: Runner, account: string, outcome: SeatOutcome, now: number): void {
    switch (outcome) {
      case "ended":
        runner.health = HEALTHY;
        this.seats.ended(account, "succeeded", now);
        break;
      case "engine_killed":
        this.seats.ended(account, "killed", now);
        runner.health = faulted(runner.health, account, now);
        break;
      case "engine_fault":
        runner.health = faulted(runner.health, account, now);
        break;
      case "strike":
        runner.health = struck(runner.health, now);
        runner.refusing = true;
        break;
      case "refused":
      case "refused_boot":
      case "refused_full":
        runner.refusing = true;
        break;
      case "handed_back":
        runner.health = reached(runner.health);
        break;
      case "unused":
        break;
    }
    this.#changed(runner, now);
  }

  /** Its account asks for it after all: what it dropped before is wanted again. */
  wanted(name: string): void {
    this.unwanted.delete(name);
    const seat = this.seats.seated.get(name);
    if (!seat?.dropped) return;
    delete seat.dropped;
    delete seat.unlisted;
  }

  /** Gives free seats to those who wait. */
  assign(now: number): void {
    const { lanes, runners, seats } = this;
    assignSeats({ lanes, runners, seats, freeTierCap: () => this.caps.freeTier }, now, ({ client, ticket, runner }) => {
      const since = client.tickets.get(executionName(ticket))?.since ?? now;
      record(this.history, { kind: "started", wait_ms: now - since }, now);
      lanes.remove(client, ticket);
      runners.warms(runner, ticket.needs.models);
      this.seat(client.account, { job: ticket.job, fence: ticket.fence }, runner, now, now);
      runners.changed(runner, now);
      this.newsFor(client.account).placed.push(placedOn(runner, ticket));
    });
  }
}
