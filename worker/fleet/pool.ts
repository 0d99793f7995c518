import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import { hearBeat } from "./beats.ts";
import { converse } from "./conversation.ts";
import type { Caps } from "./fairness.ts";
import { emptyHistory, type FleetHistory } from "./history.ts";
import { isJudged, lostRunners, silentAt, type Watch } from "./losses.ts";
import { FORGOTTEN_MS, GONE_GRACE_MS, PoolState } from "./pool-state.ts";
import type { RosterEntry, RosterStore } from "./roster.ts";
import type { Runners } from "./runners.ts";
import type { Seats } from "./seats.ts";
import type { FleetNews, SyncAnswer, SyncRequest } from "./sync.ts";

/**
 * One fleet: tickets, seats and who is alive (design section 5). Soft state but for the roster: what memory forgets, beats and
 * full syncs say again. Pure: (state, message, now) -> (state, answer), with news for other accounts in `takeNews`.
 */

/** A beat taken before an end report was acknowledged may still list what was freed. */
const FREED_MEMORY_MS = 30_000;
/** Between two looks at what time has done. */
export const LEAST_TICK_MS = 1_000;

export class Pool {
  readonly state: PoolState;
  #sortedBy: Caps | undefined;

  /** @param history of the pool's earlier lives */
  constructor(store: RosterStore, watch: Watch, history: FleetHistory = emptyHistory()) {
    this.state = new PoolState(store, watch, history);
  }

  get runners(): Runners {
    return this.state.runners;
  }

  get seats(): Seats {
    return this.state.seats;
  }

  /** News for accounts since the last call; lost ones are healed by the account's next full sync. */
  takeNews(): Map<string, FleetNews> {
    const { news } = this.state;
    const taken = new Map<string, FleetNews>();
    for (const [account, { placed, verdicts }] of news) taken.set(account, { placed, verdicts, impossible: [] });
    news.clear();
    return taken;
  }

  /** The classes of all enrolled runners, lost ones included; undefined where that has not changed since the last call. */
  takeCatalogue(): readonly string[] | undefined {
    if (!this.state.catalogueChanged) return undefined;
    this.state.catalogueChanged = false;
    const enrolled = [...this.state.runners.values()].filter(({ entry }) => entry.state !== "revoked");
    return [...new Set(enrolled.flatMap(({ kind }) => [...kind.classes]))].sort();
  }

  /** It could not be published: it is to be taken again. */
  keepCatalogue(): void {
    this.state.catalogueChanged = true;
  }

  /** A new runner, proven to answer at its URL; or a known key again, which keeps its identity. */
  enrol(entry: RosterEntry): RosterEntry {
    const { url, jkt, name, max_seats, enrolled_at } = entry;
    const runners = [...this.state.runners.values()];
    const known = runners.find((runner) => runner.entry.jkt === jkt && runner.entry.state !== "revoked");
    if (!known) {
      // A dispatch to an earlier runner at this address may still be on its way: its boot must not be this one's too.
      const here = runners.filter((other) => other.entry.url === url || other.entry.jkt === jkt);
      const boot = Math.max(entry.boot, ...here.map((other) => other.entry.boot));
      const fresh = { ...entry, boot };
      this.state.admit(fresh);
      return fresh;
    }
    const { drain_wanted: _, ...before } = known.entry;
    // It has just proven that it is there.
    known.seen_at = enrolled_at;
    this.state.put(known, { ...before, url, name, max_seats, enrolled_at, state: "active" });
    this.state.runners.changed(known, enrolled_at);
    return known.entry;
  }

  /** A numbered heartbeat. Undefined: the runner is not enrolled here, or revoked. */
  beat(runner_id: string, jkt: string, message: Heartbeat, now: number): HeartbeatAnswer | undefined {
    return hearBeat(this.state, runner_id, jkt, message, now);
  }

  /** The conversation with one account. */
  sync(request: SyncRequest, now: number): SyncAnswer {
    return converse(this.state, request, now);
  }

  /** Time passes: silent runners, unconfirmed placements, executions that vanished, charges. */
  tick(now: number): void {
    const { state } = this;
    for (const runner of lostRunners(state.runners.values(), state.watch, now)) {
      state.put(runner, { ...runner.entry, state: "lost", lost_at: now });
      runner.listed = new Map();
      state.loseSeats(runner, now);
      state.runners.changed(runner, now);
    }
    // A suspension may be over.
    for (const runner of state.runners.values()) if (runner.health.probation) state.runners.changed(runner, now);
    for (const seat of [...state.seats.seated.values()]) {
      if (seat.gone_at !== undefined && now >= seat.gone_at + GONE_GRACE_MS)
        state.judged(seat, "lost", seat.gone_at, now);
      else if (now >= state.voidAt(seat)) state.unseat(seat, seat.confirmed_at ?? seat.at, now);
      else state.seats.trueUp(seat, now);
    }
    for (const client of [...state.seats.clients.values()]) {
      if (client.tickets.size === 0 || now < (client.spoke_at ?? 0) + FORGOTTEN_MS) continue;
      for (const { ticket } of [...client.tickets.values()]) state.lanes.remove(client, ticket);
    }
    state.seats.forgetIdle(state.lanes.isAhead, now);
    for (const name of [...state.unwanted.keys()]) if (!state.seats.seated.has(name)) state.unwanted.delete(name);
    for (const [name, at] of state.freed) if (now >= at + FREED_MEMORY_MS) state.freed.delete(name);
    if (state.caps !== this.#sortedBy) state.lanes.sortAll();
    this.#sortedBy = state.caps;
    state.assign(now);
    this.#looks(now);
  }

  /** When time is next to be looked at, by all that is known. */
  #looks(now: number): void {
    const { state } = this;
    state.nextLook = Number.POSITIVE_INFINITY;
    for (const runner of state.runners.values()) {
      if (isJudged(runner)) state.lookAt(silentAt(runner, state.watch));
      if (runner.health.suspended_until > now) state.lookAt(runner.health.suspended_until);
    }
    for (const { tickets, spoke_at = 0 } of state.seats.clients.values())
      if (tickets.size > 0) state.lookAt(spoke_at + FORGOTTEN_MS);
    for (const seat of state.seats.seated.values()) {
      state.lookAt(seat.gone_at === undefined ? state.voidAt(seat) : seat.gone_at + GONE_GRACE_MS);
    }
  }

  /** When `tick` has something to look at; undefined while nobody is enrolled and nothing is held. */
  nextTick(now: number): number | undefined {
    const { nextLook } = this.state;
    return Number.isFinite(nextLook) ? Math.max(nextLook, now + LEAST_TICK_MS) : undefined;
  }

  /**
   * Takes a runner out of service: nothing new, and its process is told to end in order; a lost one when it is heard again. False:
   * there is no such runner.
   */
  drain(runner_id: string, now: number): boolean {
    const runner = this.state.runners.get(runner_id);
    if (!runner || runner.entry.state === "revoked") return false;
    const { entry } = runner;
    // A process that has stopped has nothing to end.
    if (entry.state === "stopped") return true;
    this.state.put(runner, { ...entry, state: entry.state === "lost" ? "lost" : "draining", drain_wanted: true });
    this.state.runners.changed(runner, now);
    return true;
  }

  /** Revokes a runner: what it held is lost, and nothing that it says counts any more. False: there is no such runner. */
  revoke(runner_id: string, now: number): boolean {
    const { state } = this;
    const runner = state.runners.get(runner_id);
    if (!runner) return false;
    state.put(runner, { ...runner.entry, state: "revoked" });
    state.catalogueChanged = true;
    runner.listed = new Map();
    state.loseSeats(runner, now);
    state.runners.changed(runner, now);
    state.assign(now);
    return true;
  }
}
