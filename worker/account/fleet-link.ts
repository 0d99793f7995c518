import {
  type ExecutionRef,
  executionName,
  type Freed,
  type Hold,
  MAX_TICKETS,
  type SyncRequest,
  type Ticket,
} from "../fleet/sync.ts";
import { DISPATCH_REPEAT_MS, type Job } from "./jobs.ts";
import type { Settings } from "./keys.ts";
import type { AccountStore } from "./store.ts";

/**
 * What the account has told the fleet, in memory only: after a restart everything is said afresh, in a full sync. Pure.
 */

/** More executions than an account can have at once: 20 keys of 50 slots. */
const MAX_HOLDS = 1000;

export const ticketOf = (job: Job): Ticket => ({
  job: job.job_id,
  fence: job.fence + 1,
  needs: job.needs,
  avoid: job.avoid,
  exclude: job.exclude,
  priority: job.priority,
  created_at: job.created_at,
});

function holdOf(job: Job, now: number): Hold | undefined {
  const { placement } = job;
  if (!placement) return undefined;
  const base = {
    job: job.job_id,
    fence: job.fence,
    runner: placement.runner,
    boot: placement.boot,
    placed_at: placement.at,
  };
  if (job.beat) return { ...base, kind: "accepted", beat: job.beat };
  return { ...base, kind: now < placement.at + DISPATCH_REPEAT_MS ? "trying" : "undecided" };
}

export class FleetLink {
  /** How long the fleet wants to be left alone between full syncs; its answers say it. */
  again_in_ms = 5_000;
  /** Which life of the fleet object was told. */
  epoch: number | undefined;
  #full = true;
  /** Tickets that the fleet has, by name. */
  #told = new Set<string>();
  /** Tickets that no runner could serve when last asked. */
  #impossible = new Set<string>();
  /** Executions that the fleet has not been told to be held, by job id. */
  #fresh = new Set<string>();
  #freed: Freed[] = [];
  #drop: ExecutionRef[] = [];

  placed(job: Job): void {
    const name = executionName({ job: job.job_id, fence: job.fence });
    this.#told.delete(name);
    this.#impossible.delete(name);
    this.#fresh.add(job.job_id);
  }

  freed(freed: Freed): void {
    this.#freed.push(freed);
    this.#fresh.delete(freed.job);
  }

  dropped(execution: ExecutionRef): void {
    const name = executionName(execution);
    this.#told.delete(name);
    this.#impossible.delete(name);
    this.#drop.push(execution);
  }

  impossible(execution: ExecutionRef): void {
    this.#impossible.add(executionName(execution));
  }

  /** Words that the fleet may not have: an answer was lost, or nobody has asked since. */
  get unsaid(): boolean {
    return this.#freed.length > 0 || this.#drop.length > 0;
  }

  /** The next request says everything, which heals whatever was lost. */
  forget(): void {
    this.#full = true;
  }

  /**
   * The next request; undefined where there is nothing to say. What it says counts as told: `unanswered` takes that back.
   */
  request(store: AccountStore, settings: Settings, now: number): SyncRequest | undefined {
    const full = this.#full;
    const ready = settings.suspended
      ? []
      : store.inPhases(["ready"], MAX_TICKETS + this.#impossible.size).map(ticketOf);
    const possible = ready.filter((ticket) => !this.#impossible.has(executionName(ticket))).slice(0, MAX_TICKETS);
    const again = full
      ? ready.filter((ticket) => this.#impossible.has(executionName(ticket))).slice(0, MAX_TICKETS)
      : [];
    const want = full ? [...possible, ...again] : possible.filter((ticket) => !this.#told.has(executionName(ticket)));
    const active = full
      ? store.inPhases(["placed", "running"], MAX_HOLDS)
      : [...this.#fresh].map((id) => store.job(id)?.job).filter((job) => job !== undefined);
    if (!full && want.length + active.length + this.#freed.length + this.#drop.length === 0) return undefined;
    const hold = active.map((job) => holdOf(job, now)).filter((entry) => entry !== undefined);

    if (full) {
      this.#told.clear();
      this.#impossible.clear();
    }
    for (const ticket of want) this.#told.add(executionName(ticket));
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

  /** The request was not answered: what only it said is said again. */
  unanswered(request: SyncRequest): void {
    this.#full = true;
    this.#freed = [...request.freed, ...this.#freed];
    this.#drop = [...request.drop, ...this.#drop];
  }
}
