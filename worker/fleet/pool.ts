import { type Heartbeat, type HeartbeatAnswer, laterBeat } from "../../schemas/runner-protocol.ts";
import { assignSeats, impossibleTickets } from "./assignment.ts";
import { lostRunners, silentAt, type Watch } from "./losses.ts";
import { type Runner, saysGone } from "./matching.ts";
import type { RosterEntry, RosterStore } from "./roster.ts";
import { type Client, type Seated, Seats } from "./seats.ts";
import {
  type ExecutionRef,
  executionName,
  type FleetNews,
  type Freed,
  type Hold,
  type Impossible,
  type Placed,
  type SyncAnswer,
  type SyncRequest,
  type Ticket,
  type Verdict,
} from "./sync.ts";

/**
 * One fleet: tickets, seats and who is alive (design section 5). Soft state but for the roster: what memory forgets, beats and
 * full syncs say again. Pure: (state, message, now) -> (state, answer), with news for other accounts in `takeNews`.
 */

export const BEAT_MS = 5_000;
/** A placement that neither its account nor a beat has confirmed by then is void. */
const UNCONFIRMED_MS = 60_000;
/** A seat that its account and its runner have not mentioned for this long is void: longer than the longest pause between full syncs. */
const FORGOTTEN_MS = 150_000;
/** A beat taken before an end report was acknowledged may still list what was freed. */
const FREED_MEMORY_MS = 30_000;
/** How long an execution that a beat left out may wait for its account's word before it counts as lost. */
const GONE_GRACE_MS = 2_000;
/** An undecided dispatch that this many beats in a row leave out was never accepted. */
const UNLISTED_BEATS = 2;
const STRIKES = 3;
const SUSPENSION_MS = 5_000;
const MAX_SUSPENSION_MS = 300_000;
/** Syncs a second that a fleet invites from accounts with nothing new to say. */
const PERIODIC_SYNCS_PER_S = 100;
const SYNC_AGAIN_S = { least: 5, most: 120 };

interface News {
  readonly placed: Placed[];
  readonly verdicts: Verdict[];
}

export class Pool {
  readonly runners = new Map<string, Runner>();
  readonly seats = new Seats();
  readonly #store: RosterStore;
  readonly #watch: Watch;
  /** Executions whose end was reported, and when: a late beat's word of them is old. */
  readonly #freed = new Map<string, number>();
  /** Executions to be stopped, until a beat leaves them out. */
  readonly #unwanted = new Map<
    string,
    { readonly runner: string; readonly account: string; readonly ref: ExecutionRef }
  >();
  readonly #news = new Map<string, News>();
  #catalogueChanged = true;

  constructor(store: RosterStore, watch: Watch) {
    this.#store = store;
    this.#watch = watch;
    for (const entry of store.runners()) this.#admit(entry);
  }

  #admit(entry: RosterEntry): void {
    this.runners.set(entry.runner_id, {
      entry,
      classes: new Set(entry.description?.classes),
      seen_at: 0,
      seats: entry.max_seats,
      draining: false,
      listed: new Map(),
      placed: new Set(),
      refusing: false,
      strikes: 0,
      suspended_until: 0,
      warm: new Set(),
    });
  }

  #put(runner: Runner, entry: RosterEntry): void {
    runner.entry = entry;
    this.#store.putRunner(entry);
  }

  /** News for accounts since the last call; lost ones are healed by the account's next full sync. */
  takeNews(): Map<string, FleetNews> {
    const news = new Map<string, FleetNews>();
    for (const [account, { placed, verdicts }] of this.#news) news.set(account, { placed, verdicts, impossible: [] });
    this.#news.clear();
    return news;
  }

  #newsFor(account: string): News {
    const news = this.#news.get(account) ?? { placed: [], verdicts: [] };
    this.#news.set(account, news);
    return news;
  }

  /** The classes of all enrolled runners, lost ones included; undefined where that has not changed since the last call. */
  takeCatalogue(): readonly string[] | undefined {
    if (!this.#catalogueChanged) return undefined;
    this.#catalogueChanged = false;
    const classes = new Set<string>();
    for (const runner of this.runners.values()) {
      if (runner.entry.state === "revoked") continue;
      for (const name of runner.classes) classes.add(name);
    }
    return [...classes].sort();
  }

  /** It could not be published: it is to be taken again. */
  keepCatalogue(): void {
    this.#catalogueChanged = true;
  }

  /** A new runner, proven to answer at its URL; or a known key again, which keeps its identity. */
  enrol(entry: RosterEntry): RosterEntry {
    const known = [...this.runners.values()].find(
      (runner) => runner.entry.jkt === entry.jkt && runner.entry.state !== "revoked",
    );
    if (!known) {
      this.#store.putRunner(entry);
      this.#admit(entry);
      return entry;
    }
    const { url, name, max_seats, enrolled_at } = entry;
    // It has just proven that it is there.
    known.seen_at = enrolled_at;
    this.#put(known, { ...known.entry, url, name, max_seats, enrolled_at, state: "active" });
    return known.entry;
  }

  /** A numbered heartbeat. Undefined: the runner is not enrolled here, or revoked. */
  beat(runner_id: string, jkt: string, message: Heartbeat, now: number): HeartbeatAnswer | undefined {
    const runner = this.runners.get(runner_id);
    if (!runner || runner.entry.state === "revoked" || runner.entry.jkt !== jkt) return undefined;
    const { beat, describe } = message;
    if (beat && beat.boot < runner.entry.boot) return this.#answer(runner);
    if (beat && runner.beat && !laterBeat(beat, runner.beat)) return this.#answer(runner);
    let { entry } = runner;
    if (!beat || beat.boot > entry.boot) {
      entry = { ...entry, boot: Math.max(entry.boot + 1, beat?.boot ?? 0) };
      this.#boots(runner, entry.boot);
    }
    runner.beat = beat ?? { boot: entry.boot, n: 0 };
    runner.seen_at = now;
    runner.seats = message.seats;
    runner.draining = message.draining;
    runner.refusing = false;
    if (describe) {
      entry = { ...entry, description: describe };
      runner.classes = new Set(describe.classes);
      this.#catalogueChanged = true;
    }
    if (entry.state === "lost") {
      const { lost_at: _, ...rest } = entry;
      entry = { ...rest, state: "active" };
    }
    if (entry !== runner.entry) this.#put(runner, entry);
    if (beat) this.#list(runner, message, now);
    this.#assign(now);
    return this.#answer(runner);
  }

  /** The first beat of a process: whatever an earlier one held is gone. */
  #boots(runner: Runner, boot: number): void {
    runner.listed = new Map();
    runner.strikes = 0;
    runner.suspended_until = 0;
    this.#loseSeats(runner, (seat) => seat.boot < boot);
  }

  #answer(runner: Runner): HeartbeatAnswer {
    const stop: HeartbeatAnswer["stop"] = [];
    for (const [name, { runner: id, account, ref }] of this.#unwanted) {
      if (id !== runner.entry.runner_id) continue;
      if (runner.listed.has(name)) stop.push({ account, job: ref.job, fence: ref.fence });
      else if (!this.seats.seated.has(name)) this.#unwanted.delete(name);
    }
    return {
      boot: runner.entry.boot,
      stop,
      describe: runner.entry.description === undefined,
      next_in_ms: BEAT_MS,
    };
  }

  /** What a beat lists is held; what it leaves out after it was held is gone, and its seat free. */
  #list(runner: Runner, message: Heartbeat, now: number): void {
    const listed: Runner["listed"] = new Map();
    for (const { account, job, fence, running_ms } of message.held) {
      const name = executionName({ job, fence });
      if (this.#freed.has(name)) continue;
      listed.set(name, { execution: { account, job, fence }, running_ms });
      const seat =
        this.seats.seated.get(name) ?? this.seats.seat(account, { job, fence }, runner, now - running_ms, now);
      seat.confirmed_at = now;
      // It took what it was given.
      runner.strikes = 0;
      if (seat.dropped) seat.unlisted = 0;
      else delete seat.unlisted;
      delete seat.gone_at;
      runner.placed.add(name);
      if (runner.beat) this.seats.held(seat, runner.beat);
    }
    runner.listed = listed;
    for (const name of [...runner.placed]) {
      const seat = this.seats.seated.get(name);
      if (!seat) runner.placed.delete(name);
      if (!seat || listed.has(name)) continue;
      const gone = seat.beat !== undefined && saysGone(runner, seat.ref, seat.beat);
      const absent = !gone && seat.unlisted !== undefined && ++seat.unlisted >= UNLISTED_BEATS;
      if (seat.dropped) {
        if (gone || absent) this.#unseat(seat, now);
      } else if (gone) {
        seat.gone_at = now;
        runner.placed.delete(name);
      } else if (absent) {
        this.#strike(runner, now);
        this.#judged(seat, "refused", seat.at);
      }
    }
  }

  /** Ends a seat by a verdict of the fleet's own, which its account gets as news. */
  #judged(seat: Seated, verdict: "lost" | "refused", until: number): void {
    this.#newsFor(seat.account).verdicts.push({ ...seat.ref, verdict });
    this.#unseat(seat, until);
  }

  #unseat(seat: Seated, until: number): void {
    this.seats.unseat(seat, this.runners.get(seat.runner), until);
  }

  /** An account pays nothing for what a lost runner did. */
  #loseSeats(runner: Runner, which: (seat: Seated) => boolean): void {
    for (const seat of [...this.seats.seated.values()]) {
      if (seat.runner === runner.entry.runner_id && which(seat)) this.#judged(seat, "lost", seat.at);
    }
  }

  /** The conversation with one account. */
  sync(request: SyncRequest, now: number): SyncAnswer {
    const { account } = request;
    const client = this.seats.speaks(account, request.tier);
    for (const freed of request.freed) this.#free(account, freed, now);
    for (const ref of request.drop) this.#drop(account, ref);
    if (request.full) this.#withdrawAbsent(account, client, request, now);
    const verdicts = request.hold.map((hold) => this.#judge(account, hold, now));
    const repeated: Placed[] = [];
    for (const ticket of request.want) {
      const seat = this.seats.seated.get(executionName(ticket));
      const runner = seat && this.runners.get(seat.runner);
      if (seat && runner) repeated.push(this.#placedOn(runner, ticket));
      else client.tickets.set(executionName(ticket), ticket);
      this.#wanted(executionName(ticket));
    }
    this.#assign(now);
    const news = this.#news.get(account);
    this.#news.delete(account);
    this.seats.forgetIdle(account);
    const again_in_s = this.seats.clients.size / PERIODIC_SYNCS_PER_S;
    return {
      placed: [...repeated, ...(news?.placed ?? [])],
      impossible: this.#impossible(client, request.want, now),
      verdicts: [...verdicts, ...(news?.verdicts ?? [])],
      again_in_s: Math.min(SYNC_AGAIN_S.most, Math.max(SYNC_AGAIN_S.least, again_in_s)),
      epoch: this.#watch.started_at,
      send_full: !request.full && request.epoch !== this.#watch.started_at,
    };
  }

  /** Its account asks for it after all: what it dropped before is wanted again. */
  #wanted(name: string): void {
    this.#unwanted.delete(name);
    const seat = this.seats.seated.get(name);
    if (!seat?.dropped) return;
    delete seat.dropped;
    delete seat.unlisted;
  }

  #free(account: string, freed: Freed, now: number): void {
    const name = executionName(freed);
    const runner = this.runners.get(freed.runner);
    const seat = this.seats.seated.get(name);
    if (seat && seat.account !== account) return;
    this.seats.clients.get(account)?.tickets.delete(name);
    this.#freed.set(name, now);
    this.#unwanted.delete(name);
    runner?.listed.delete(name);
    const used = freed.outcome === "ended" || freed.outcome === "handed_back";
    if (seat) this.#unseat(seat, used ? now : seat.at);
    if (!runner) return;
    if (used) runner.strikes = 0;
    if (used || freed.outcome === "unused") return;
    runner.refusing = true;
    if (freed.outcome === "strike") this.#strike(runner, now);
  }

  /** Three in a row suspend a runner, with growing pauses; the next placement after a pause is the probe. */
  #strike(runner: Runner, now: number): void {
    runner.strikes++;
    const over = runner.strikes - STRIKES;
    if (over >= 0) runner.suspended_until = now + Math.min(SUSPENSION_MS * 2 ** over, MAX_SUSPENSION_MS);
  }

  #drop(account: string, ref: ExecutionRef): void {
    const name = executionName(ref);
    this.seats.clients.get(account)?.tickets.delete(name);
    const seat = this.seats.seated.get(name);
    if (!seat || seat.account !== account) return;
    this.#unwanted.set(name, { runner: seat.runner, account, ref });
    seat.dropped = true;
    seat.unlisted ??= 0;
  }

  #withdrawAbsent(account: string, client: Client, request: SyncRequest, now: number): void {
    const named = new Set([...request.want, ...request.hold].map(executionName));
    for (const name of [...client.tickets.keys()]) if (!named.has(name)) client.tickets.delete(name);
    for (const [name, seat] of [...this.seats.seated]) {
      if (seat.account !== account || named.has(name) || seat.dropped) continue;
      // What a runner lists may still bring a result that counts; the answer to its progress says whether.
      if (!this.runners.get(seat.runner)?.listed.has(name)) this.#unseat(seat, now);
    }
  }

  /** What the fleet knows of an execution that its account believes to be on a runner. */
  #judge(account: string, hold: Hold, now: number): Verdict {
    const ref = { job: hold.job, fence: hold.fence };
    const name = executionName(ref);
    const runner = this.runners.get(hold.runner);
    const known = this.seats.seated.get(name);
    // The account's word of where it is outranks the fleet's memory.
    if (known && known.runner !== hold.runner) this.#unseat(known, known.at);
    const before = known?.runner === hold.runner ? known : undefined;
    const over = !runner || runner.entry.state === "revoked" || runner.entry.state === "lost";
    if (over || hold.boot < runner.entry.boot) {
      if (before) this.#unseat(before, before.at);
      return { ...ref, verdict: "lost" };
    }
    this.seats.clients.get(account)?.tickets.delete(name);
    const seat = before ?? this.seats.seat(account, ref, runner, hold.placed_at, now);
    seat.confirmed_at = now;
    this.#wanted(name);
    if (hold.beat) this.seats.held(seat, hold.beat);
    const listed = runner.listed.get(name);
    if (listed && runner.beat) return { ...ref, verdict: "held", beat: runner.beat, running_ms: listed.running_ms };
    if (hold.kind === "undecided") seat.unlisted ??= 0;
    if (seat.beat && saysGone(runner, ref, seat.beat)) {
      seat.gone_at ??= now;
      runner.placed.delete(name);
    }
    return { ...ref, verdict: "unknown" };
  }

  #placedOn({ entry }: Runner, { job, fence }: ExecutionRef): Placed {
    return { job, fence, runner: entry.runner_id, boot: entry.boot, url: entry.url, jkt: entry.jkt };
  }

  #assign(now: number): void {
    assignSeats(this.seats, this.runners.values(), now, (account, ticket, runner) => {
      this.#newsFor(account).placed.push(this.#placedOn(runner, ticket));
    });
  }

  /** Nobody is told so before the fleet has heard its runners. The tickets stay, in case a runner comes. */
  #impossible(client: Client, asked: readonly Ticket[], now: number): Impossible[] {
    return now < this.#watch.grace_until ? [] : impossibleTickets(client, asked, this.runners.values());
  }

  /** Time passes: silent runners, unconfirmed placements, executions that vanished, charges. */
  tick(now: number): void {
    for (const runner of lostRunners(this.runners.values(), this.#watch, now)) {
      this.#put(runner, { ...runner.entry, state: "lost", lost_at: now });
      runner.listed = new Map();
      this.#loseSeats(runner, () => true);
    }
    for (const seat of [...this.seats.seated.values()]) {
      if (seat.gone_at !== undefined && now >= seat.gone_at + GONE_GRACE_MS) this.#judged(seat, "lost", seat.gone_at);
      else if (now >= this.#voidAt(seat)) this.#unseat(seat, seat.confirmed_at ?? seat.at);
      else this.seats.trueUp(seat, now);
    }
    for (const account of [...this.seats.clients.keys()]) this.seats.forgetIdle(account);
    for (const [name, at] of this.#freed) if (now >= at + FREED_MEMORY_MS) this.#freed.delete(name);
    this.#assign(now);
  }

  /** When a seat is void that nobody speaks of any more. One that its runner lists never is. */
  #voidAt({ ref, runner, at, confirmed_at }: Seated): number {
    if (this.runners.get(runner)?.listed.has(executionName(ref))) return Number.POSITIVE_INFINITY;
    return confirmed_at === undefined ? at + UNCONFIRMED_MS : confirmed_at + FORGOTTEN_MS;
  }

  /** When `tick` has something to look at; undefined while nobody is enrolled and nothing is held. */
  nextTick(now: number): number | undefined {
    const times: number[] = [];
    for (const runner of this.runners.values()) {
      const { state } = runner.entry;
      if (state === "active" || state === "draining") times.push(silentAt(runner, this.#watch));
      if (runner.suspended_until > now) times.push(runner.suspended_until);
    }
    for (const seat of this.seats.seated.values()) {
      times.push(seat.gone_at === undefined ? this.#voidAt(seat) : seat.gone_at + GONE_GRACE_MS);
    }
    const next = times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);
    return Number.isFinite(next) ? Math.max(next, now + 1_000) : undefined;
  }

  /** Revokes a runner: what it held is lost, and nothing that it says counts any more. False: there is no such runner. */
  revoke(runner_id: string, now: number): boolean {
    const runner = this.runners.get(runner_id);
    if (!runner) return false;
    this.#put(runner, { ...runner.entry, state: "revoked" });
    this.#catalogueChanged = true;
    runner.listed = new Map();
    this.#loseSeats(runner, () => true);
    this.#assign(now);
    return true;
  }
}
