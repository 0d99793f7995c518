import {
  type ExecutionRef,
  executionName,
  type Freed,
  type Hold,
  MAX_TICKETS,
  type SyncAnswer,
  type SyncRequest,
  type Ticket,
} from "../fleet/sync.ts";
import type { Settings } from "./keys.ts";

/** What an account has to say to one fleet, as its rows have it now. Read only as far as the request needs. */
export interface Situation {
  readonly settings: Settings;
  /** Tickets that this fleet may serve, the most urgent first, at least `count` of them if there are as many. */
  tickets(count: number): Ticket[];
  /** The executions that are on this fleet's runners; with a job id, that job's alone. */
  holds(job_id?: string): Hold[];
}

/**
 * One conversation with one fleet: what the account has told it, in memory only. After a restart everything is said afresh, in a
 * full sync. Pure.
 */
export class FleetLink {
  /** How long the fleet wants to be left alone between full syncs; its answers say it. */
  again_in_ms = 5_000;
  /** Which life of the fleet object was told. */
  epoch: number | undefined;
  #full = true;
  #saidAllAt = Number.NEGATIVE_INFINITY;
  /** Tickets that the fleet has, by name, and since when. */
  readonly #told = new Map<string, { readonly ref: ExecutionRef; readonly since: number }>();
  /** Tickets that no active runner could serve when last asked; those with `true` no enrolled one either. */
  readonly #impossible = new Map<string, boolean>();
  /** Jobs whose executions the fleet has not been told to be held. */
  readonly #fresh = new Set<string>();
  /** Jobs that are on this fleet's runners, as far as this memory goes. */
  #held = new Set<string>();
  /** The latest request was not answered. */
  #unheard = false;
  #freed: Freed[] = [];
  #drop: ExecutionRef[] = [];

  /** A ticket became an execution on one of this fleet's runners. */
  placed(execution: ExecutionRef): void {
    this.#forgetTicket(executionName(execution));
    this.#fresh.add(execution.job);
    this.#held.add(execution.job);
  }

  freed(freed: Freed): void {
    this.#freed.push(freed);
    this.#fresh.delete(freed.job);
    this.#held.delete(freed.job);
  }

  /** Nobody wants this execution or ticket any more. */
  dropped(execution: ExecutionRef): void {
    this.#forgetTicket(executionName(execution));
    this.#drop.push(execution);
  }

  /** Late word of a ticket that is not there any more says nothing. */
  impossible(ticket: ExecutionRef, hopeless: boolean): void {
    if (this.knows(ticket)) this.#impossible.set(executionName(ticket), hopeless);
  }

  #forgetTicket(name: string): void {
    this.#told.delete(name);
    this.#impossible.delete(name);
  }

  /** Whether this fleet was asked for the ticket. */
  knows = (ticket: ExecutionRef): boolean => this.#told.has(executionName(ticket));

  /** No enrolled runner of this fleet could ever serve the ticket as it stands. */
  isHopeless = (ticket: ExecutionRef): boolean => this.#impossible.get(executionName(ticket)) === true;

  /** When the tickets at the fleet were first told. */
  *waitingTimes(): Iterable<number> {
    for (const { since } of this.#told.values()) yield since;
  }

  /** The tickets that have been at the fleet since `time` or before. */
  waitingSince(time: number): ExecutionRef[] {
    return [...this.#told.values()].flatMap(({ ref, since }) => (since <= time ? ref : []));
  }

  /** Words that the fleet may not have: an answer was lost, or nobody has asked since. */
  get unsaid(): boolean {
    return this.#unheard || this.#freed.length > 0 || this.#drop.length > 0;
  }

  /** Whether the fleet has been told something that still stands. */
  get engaged(): boolean {
    return this.unsaid || this.#told.size > 0 || this.#held.size > 0;
  }

  /** When everything is to be said again. */
  get fullDueAt(): number {
    return this.#full ? Number.NEGATIVE_INFINITY : this.#saidAllAt + this.again_in_ms;
  }

  /** The next request says everything, which heals whatever was lost. */
  forget(): void {
    this.#full = true;
  }

  /**
   * The next request; undefined where there is nothing to say. What it says counts as told: `unanswered` takes that back.
   */
  request({ settings, tickets, holds }: Situation, now: number): SyncRequest | undefined {
    const full = this.#full;
    const offered = tickets(MAX_TICKETS + this.#impossible.size);
    const possible = offered.filter((ticket) => !this.#impossible.has(executionName(ticket))).slice(0, MAX_TICKETS);
    const again = full
      ? offered.filter((ticket) => this.#impossible.has(executionName(ticket))).slice(0, MAX_TICKETS)
      : [];
    const want = full ? [...possible, ...again] : possible.filter((ticket) => !this.knows(ticket));
    const hold = full ? holds() : [...this.#fresh].flatMap((id) => holds(id));
    if (!full && want.length + hold.length + this.#freed.length + this.#drop.length === 0) return undefined;

    if (full) {
      const names = new Set(want.map(executionName));
      for (const name of [...this.#told.keys()]) if (!names.has(name)) this.#told.delete(name);
      this.#impossible.clear();
      this.#held = new Set(hold.map(({ job }) => job));
      this.#saidAllAt = now;
    }
    for (const ticket of want) {
      const name = executionName(ticket);
      const ref = { job: ticket.job, fence: ticket.fence };
      this.#told.set(name, this.#told.get(name) ?? { ref, since: now });
    }
    if (!full && this.#told.size - this.#impossible.size > MAX_TICKETS)
      this.#takeBack(new Set(possible.map(executionName)));
    const freed = this.#freed;
    const spoken = new Set([...want, ...hold].map(executionName));
    const drop = this.#drop.filter((execution) => !spoken.has(executionName(execution)));
    this.#freed = [];
    this.#drop = [];
    this.#fresh.clear();
    this.#full = false;
    const epoch = this.epoch === undefined ? {} : { epoch: this.epoch };
    return { account: settings.account_id, tier: settings.tier, ...epoch, full, want, drop, freed, hold };
  }

  /** More urgent tickets have come: those that are beyond the bound now are taken back. */
  #takeBack(possible: ReadonlySet<string>): void {
    for (const [name, { ref }] of this.#told) if (!possible.has(name) && !this.#impossible.has(name)) this.dropped(ref);
  }

  answered(answer: Pick<SyncAnswer, "epoch" | "again_in_s" | "send_full">): void {
    this.#unheard = false;
    this.epoch = answer.epoch;
    this.again_in_ms = answer.again_in_s * 1000;
    if (answer.send_full) this.forget();
  }

  /** The request was not answered: what only it said is said again. */
  unanswered(request: SyncRequest): void {
    this.#unheard = true;
    this.#full = true;
    this.#freed = [...request.freed, ...this.#freed];
    this.#drop = [...request.drop, ...this.#drop];
  }
}
