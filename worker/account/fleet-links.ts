import type { ExecutionRef, Freed, Hold, SyncRequest, Ticket } from "../fleet/sync.ts";
import { FleetLink, type Situation } from "./fleet-link.ts";
import { DISPATCH_REPEAT_MS, type Job } from "./jobs.ts";
import type { Settings } from "./keys.ts";
import type { AccountStore } from "./store.ts";

/** A ticket that its home pool has not served for this long may be served by any other (design section 5). */
export const SPILL_AFTER_MS = 5_000;

/** More executions than an account can have at once: 20 keys of 50 slots. */
const MAX_HOLDS = 1000;

/** A placement makes the next full sync due within this time, and any open job keeps one due. */
export const SYNC_WITHIN_MS = 20_000;
/** No conversation is looked at sooner again. */
const LOOK_AGAIN_MS = 1_000;

/** Enough to tell the keys of one account apart. */
const KEY_NAME_LENGTH = 8;

export const ticketOf = (job: Job): Ticket => ({
  job: job.job_id,
  fence: job.fence + 1,
  needs: job.needs,
  avoid: job.avoid,
  exclude: job.exclude,
  key: job.key_hash.slice(0, KEY_NAME_LENGTH),
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

/**
 * The account's conversations: with its home pool, and with the others as soon as jobs of it spill over to them. The same ticket
 * may be at several fleets; the first placement is written, and what another one places is given back unused. Pure.
 */
export class FleetLinks {
  readonly #pools: readonly string[];
  readonly #links = new Map<string, FleetLink>();
  #recalled = false;

  /** @param pools all pools of the deployment that jobs may spill over to */
  constructor(pools: readonly string[]) {
    this.#pools = pools;
  }

  of(pool: string): FleetLink {
    const link = this.#links.get(pool) ?? new FleetLink();
    this.#links.set(pool, link);
    return link;
  }

  /** Every pool that the account may have something to say to, its home first; those of before a restart included. */
  pools(settings: Settings, store: AccountStore): readonly string[] {
    if (!this.#recalled) {
      for (const { placement } of store.inPhases(["placed", "running"], MAX_HOLDS))
        if (placement) this.of(placement.pool);
      this.#recalled = true;
    }
    return [...new Set([...this.#offered(settings), ...this.#links.keys()])];
  }

  /** The pools that may serve its tickets. */
  #offered({ pool: home }: Settings): ReadonlySet<string> {
    return new Set([home, ...this.#pools]);
  }

  /** As after a start of the object: what was said is not known, and what was to be said may never have happened. */
  restart(): void {
    this.#links.clear();
    this.#recalled = false;
  }

  forget(): void {
    for (const link of this.#links.values()) link.forget();
  }

  get unsaid(): boolean {
    return [...this.#links.values()].some((link) => link.unsaid);
  }

  /**
   * A ticket was placed in `pool`: the others are not to serve it any more.
   * @returns whether that must be said at once: to them, or to a fleet that was told meanwhile that nobody wants the ticket
   */
  placed(pool: string, execution: ExecutionRef): boolean {
    const link = this.of(pool);
    const takenBack = !link.knows(execution);
    this.ticketDropped(execution, pool);
    link.placed(execution);
    return takenBack || this.unsaid;
  }

  freed(pool: string, freed: Freed): void {
    this.of(pool).freed(freed);
  }

  dropped(pool: string, execution: ExecutionRef): void {
    this.of(pool).dropped(execution);
  }

  /** Nobody wants this ticket any more, wherever it waits. */
  ticketDropped(ticket: ExecutionRef, but?: string): void {
    for (const [pool, link] of this.#links) if (pool !== but && link.knows(ticket)) link.dropped(ticket);
  }

  /** Whether no pool has an enrolled runner for the ticket. */
  isHopeless(settings: Settings, ticket: ExecutionRef): boolean {
    return [...this.#offered(settings)].every((pool) => this.#links.get(pool)?.isHopeless(ticket) ?? false);
  }

  /** The next request to one pool; undefined where there is nothing to say. */
  request(pool: string, store: AccountStore, settings: Settings, now: number): SyncRequest | undefined {
    const link = this.of(pool);
    const home = pool === settings.pool;
    const ready = (count: number) => (home ? store.nextReady(count) : this.#spilling(pool, store, settings, now));
    const situation: Situation = {
      settings,
      tickets: (count) => (settings.suspended ? [] : ready(count).map(ticketOf).slice(0, count)),
      holds: (job_id) => {
        const jobs = job_id === undefined ? store.inPhases(["placed", "running"], MAX_HOLDS) : [store.job(job_id)?.job];
        return jobs.flatMap((job) => (job?.placement?.pool === pool ? (holdOf(job, now) ?? []) : []));
      },
    };
    // A pool that was told nothing hears of the account when there is something for it.
    if (!home && !link.engaged && situation.tickets(1).length === 0 && situation.holds().length === 0) return undefined;
    return link.request(situation, now);
  }

  /** Jobs that have waited at home for so long that this pool may serve them too. */
  #spilling(pool: string, store: AccountStore, settings: Settings, now: number): Job[] {
    if (!this.#pools.includes(pool)) return [];
    return this.of(settings.pool)
      .waitingSince(now - SPILL_AFTER_MS)
      .flatMap(({ job: job_id, fence }) => {
        const job = store.job(job_id)?.job;
        return job?.phase === "ready" && job.fence + 1 === fence ? job : [];
      });
  }

  /** Those conversations in which everything is due to be said again say it with their next request. */
  forgetDue(settings: Settings, now: number): void {
    for (const [pool, link] of this.#links) {
      if ((pool === settings.pool || link.engaged) && now >= link.fullDueAt) link.forget();
    }
  }

  /** In how many milliseconds the conversations are to be looked at: a full sync is due then, or a ticket may spill over. */
  nextLookIn(settings: Settings, now: number): number {
    const home = this.of(settings.pool);
    const dues = [...this.#links].filter(([pool, link]) => pool === settings.pool || link.engaged);
    const times = dues.map(([, link]) => link.fullDueAt);
    if (this.#offered(settings).size > 1) {
      for (const since of home.waitingTimes()) if (since + SPILL_AFTER_MS > now) times.push(since + SPILL_AFTER_MS);
    }
    // What is to be said anyway needs no further look.
    const waits = times.filter(Number.isFinite).map((time) => time - now);
    return Math.max(LOOK_AGAIN_MS, Math.min(SYNC_WITHIN_MS, ...waits));
  }
}
