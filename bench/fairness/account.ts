import { TIER_LIMITS, type Tier } from "../../schemas/limits.ts";
import type { Clock } from "../../tests/simulation/clock.ts";
import {
  type ExecutionRef,
  type FleetNews,
  type Freed,
  type Hold,
  MAX_TICKETS,
  type Placed,
  type SyncAnswer,
  type SyncRequest,
  type Ticket,
} from "../../worker/fleet/sync.ts";
import type { Chance } from "./chance.ts";
import { CLASSES, type SimRunner } from "./runner.ts";

/** A dispatch to a runner and its 202. */
const DISPATCH_MS = 60;
/** An applied placement makes a sync due within this. */
const CONFIRM_MS = 20_000;

export interface Job {
  readonly id: string;
  readonly key: string;
  readonly submitted_at: number;
  readonly length_ms: number;
  readonly model: string;
  /** When its ticket was made: the wait is the fleet's from here on. */
  offered_at: number;
}

/** One stay on a seat, as it truly was. */
export interface Use {
  readonly job: Job;
  readonly placed_at: number;
  freed_at?: number;
  readonly warm: boolean;
}

/** What an account can reach. */
export interface Reach {
  readonly clock: Clock;
  sync(request: SyncRequest): SyncAnswer;
  runner(id: string): SimRunner | undefined;
}

/** How the user behind an account behaves; called at the moments that he can act on. */
export interface Habit {
  starts(account: SimAccount): void;
  ended?(account: SimAccount, job: Job): void;
  offered?(account: SimAccount, job: Job): void;
}

export interface Profile {
  readonly name: string;
  readonly tier: Tier;
  readonly keys: number;
  readonly habit: Habit;
  /** What its jobs are like. */
  readonly draws: (chance: Chance) => { readonly length_ms: number; readonly model: string };
}

/** An account as the fleet hears it: slots and queue a key, tickets for what has a slot, at most 64 of them out. */
export class SimAccount {
  readonly profile: Profile;
  readonly chance: Chance;
  /** Every stay on a seat, in the order of the placements. */
  readonly uses: Use[] = [];
  readonly #reach: Reach;
  readonly #slots: number;
  /** Jobs without a slot or beyond the bound of tickets, the oldest first. */
  readonly #queue: Job[] = [];
  readonly #tickets = new Map<string, { readonly job: Job; readonly ticket: Ticket }>();
  readonly #holds = new Map<string, { readonly hold: Hold; readonly use: Use }>();
  readonly #fresh = new Set<string>();
  readonly #cancelled = new Set<string>();
  #want: Ticket[] = [];
  #drop: ExecutionRef[] = [];
  #freed: Freed[] = [];
  #count = 0;
  #epoch: number | undefined;
  #fullDueAt = Number.NEGATIVE_INFINITY;
  #timer = Number.POSITIVE_INFINITY;
  #saying = false;

  constructor(profile: Profile, chance: Chance, reach: Reach) {
    this.profile = profile;
    this.chance = chance;
    this.#reach = reach;
    this.#slots = TIER_LIMITS[profile.tier].concurrent_jobs * profile.keys;
  }

  get clock(): Clock {
    return this.#reach.clock;
  }

  /** Jobs that have not ended. */
  get open(): number {
    return this.#queue.length + this.#tickets.size + this.#holds.size;
  }

  get slots(): number {
    return this.#slots;
  }

  get waiting(): number {
    return this.#tickets.size;
  }

  get isActive(): boolean {
    return this.#tickets.size + this.#holds.size > 0;
  }

  /** Jobs that wait for a seat now, and since when. */
  *tickets(): Iterable<Job> {
    for (const { job } of this.#tickets.values()) yield job;
  }

  submit(count = 1): void {
    const { now } = this.clock;
    for (let i = 0; i < count; i++) {
      const n = ++this.#count;
      const { length_ms, model } = this.profile.draws(this.chance);
      const id = `${this.profile.name}-${n}`;
      this.#queue.push({ id, key: `k${n % this.profile.keys}`, submitted_at: now, length_ms, model, offered_at: now });
    }
    this.say();
  }

  /** The user wants it no more. */
  cancel(id: string): void {
    const held = this.#holds.get(id);
    if (!this.#tickets.delete(id) && !held) return;
    this.#drop.push({ job: id, fence: 1 });
    if (held) {
      this.#cancelled.add(id);
      const runner = this.#reach.runner(held.hold.runner);
      this.clock.after(DISPATCH_MS, () => runner?.stop(id));
    }
    this.say();
  }

  #offer(): void {
    const { now } = this.clock;
    while (this.#queue.length > 0 && this.#tickets.size < MAX_TICKETS) {
      if (this.#tickets.size + this.#holds.size >= this.#slots) return;
      const job = this.#queue.shift();
      if (!job) return;
      job.offered_at = now;
      const ticket: Ticket = {
        job: job.id,
        fence: 1,
        needs: { classes: CLASSES, models: [job.model] },
        avoid: [],
        exclude: [],
        key: job.key,
        priority: 0,
        created_at: job.submitted_at,
      };
      this.#tickets.set(job.id, { job, ticket });
      this.#want.push(ticket);
      this.profile.habit.offered?.(this, job);
    }
  }

  /** One sync with everything that is new, in full when that is due. */
  say(): void {
    if (this.#saying) return;
    this.#saying = true;
    const { now } = this.clock;
    this.#offer();
    const full = now >= this.#fullDueAt;
    const withdrawn = new Set(this.#drop.map(({ job }) => job));
    const want = full ? [...this.#tickets.values()].map(({ ticket }) => ticket) : this.#want;
    const held = full ? [...this.#holds.keys()] : [...this.#fresh];
    const hold = held.flatMap((id) => this.#holds.get(id)?.hold ?? []).filter(({ job }) => !this.#cancelled.has(job));
    const request: SyncRequest = {
      account: this.profile.name,
      tier: this.profile.tier,
      ...(this.#epoch === undefined ? {} : { epoch: this.#epoch }),
      full,
      want: want.filter(({ job }) => !withdrawn.has(job)),
      drop: this.#drop,
      freed: this.#freed,
      hold,
    };
    this.#want = [];
    this.#drop = [];
    this.#freed = [];
    this.#fresh.clear();
    if (full) this.#fullDueAt = Number.POSITIVE_INFINITY;
    const answer = this.#reach.sync(request);
    this.#epoch = answer.epoch;
    if (full) this.#fullDueAt = now + answer.again_in_s * 1000;
    if (answer.send_full) this.#fullDueAt = now;
    this.#saying = false;
    this.hears(answer);
    this.#arm();
  }

  /** Answer or news: placements are applied, verdicts that end an execution give its job back. */
  hears(news: FleetNews): void {
    for (const placed of news.placed) this.#placed(placed);
    for (const { job, verdict } of news.verdicts) {
      if (verdict === "lost" || verdict === "refused")
        throw new Error(`${job} was ${verdict}, and no runner fails here.`);
    }
    this.#arm();
  }

  #placed(placed: Placed): void {
    const { now } = this.clock;
    const waiting = this.#tickets.get(placed.job);
    const runner = this.#reach.runner(placed.runner);
    if (this.#holds.has(placed.job)) return;
    if (!waiting || !runner) {
      // It was cancelled meanwhile: never posted.
      this.#freed.push({ job: placed.job, fence: placed.fence, runner: placed.runner, outcome: "unused" });
      this.clock.after(0, () => this.say());
      return;
    }
    this.#tickets.delete(placed.job);
    const { job } = waiting;
    if (!runner.free) throw new Error(`${placed.runner} was given more than it has seats.`);
    const ref = { job: job.id, fence: placed.fence };
    const ends = () => this.#ended(job, placed);
    const beat = { boot: runner.boot, n: runner.n };
    const warm = runner.takes({ account: this.profile.name, ...ref }, job.model, DISPATCH_MS + job.length_ms, ends);
    const use: Use = { job, placed_at: now, warm };
    this.uses.push(use);
    const hold: Hold = { ...ref, runner: placed.runner, boot: placed.boot, kind: "accepted", beat, placed_at: now };
    this.#holds.set(job.id, { hold, use });
    this.#fresh.add(job.id);
  }

  #ended(job: Job, { runner, fence }: Placed): void {
    const held = this.#holds.get(job.id);
    if (!held) return;
    held.use.freed_at = this.clock.now;
    this.#holds.delete(job.id);
    this.#fresh.delete(job.id);
    this.#cancelled.delete(job.id);
    this.#freed.push({ job: job.id, fence, runner, outcome: "ended" });
    // What the user does at once goes with the same sync.
    this.#saying = true;
    this.profile.habit.ended?.(this, job);
    this.#saying = false;
    this.say();
  }

  /** A sync is due when a placement is unconfirmed for long, or everything is to be said again. */
  #arm(): void {
    if (!this.isActive) return;
    const confirm = this.#fresh.size > 0 ? this.clock.now + CONFIRM_MS : Number.POSITIVE_INFINITY;
    const due = Math.min(confirm, this.#fullDueAt);
    if (due >= this.#timer || due === Number.POSITIVE_INFINITY) return;
    this.#timer = due;
    this.clock.at(due, () => {
      if (this.#timer !== due) return;
      this.#timer = Number.POSITIVE_INFINITY;
      const isDue = this.#fresh.size > 0 || this.clock.now >= this.#fullDueAt;
      if (this.isActive && isDue) this.say();
      else this.#arm();
    });
  }
}
