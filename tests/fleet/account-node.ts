import { expect } from "vitest";
import type { Tier } from "../../schemas/limits.ts";
import { TIER_LIMITS } from "../../schemas/limits.ts";
import { Account, type Effect } from "../../worker/account/account.ts";
import { addKey, create } from "../../worker/account/administration.ts";
import {
  applyNews,
  type DispatchAnswer,
  dispatchAnswered,
  dispatchStillOpen,
} from "../../worker/account/executions.ts";
import type { Job } from "../../worker/account/jobs.ts";
import { migrate } from "../../worker/account/migrations.ts";
import { beginDelivery, finishDelivery } from "../../worker/account/notifications.ts";
import { paid } from "../../worker/account/outbox.ts";
import { Rows } from "../../worker/account/rows.ts";
import { backoff, fire } from "../../worker/account/timers.ts";
import type { SyncAnswer, SyncRequest } from "../../worker/fleet/sync.ts";
import { openSql, type TestSql } from "../account/sqlite.ts";
import type { World } from "./world.ts";

/** Rows that fail the test when a write breaks an invariant of design section 3. */
class WatchedRows extends Rows {
  override putJob(job: Job): void {
    const before = this.job(job.job_id)?.job;
    if (before?.phase === "ended") expect(job, "an ended job changed").toEqual(before);
    if (before && job.fence !== before.fence) {
      expect([before.phase, job.phase, job.fence]).toEqual(["ready", "placed", before.fence + 1]);
    }
    if (job.end?.fence !== undefined)
      expect(job.end.fence, "another than the current fence ended it").toBe(before?.fence);
    expect(job.losses).toBeLessThanOrEqual(3);
    super.putJob(job);
  }
}

/** What an account object can reach. */
export interface Reach {
  sync(request: SyncRequest): SyncAnswer;
  dispatch(account: string, job: string, fence: number, placement: { runner: string; boot: number }): DispatchAnswer;
  stop(account: string, job: string, fence: number, runner: string): void;
}

export const KEYS = ["key-one", "key-two"];

/** An account with the shell that its object gives it: transactions, an alarm, effects after the commit. */
export class AccountNode {
  readonly id: string;
  readonly tier: Tier;
  /** Webhook attempts that were granted, by job. */
  readonly attempts = new Map<string, number>();
  readonly #world: World;
  readonly #reach: Reach;
  readonly #sql: TestSql = openSql();
  #account: Account;
  /** Which process this is: what an earlier one waited for is not heard. */
  #life = 0;
  #armedFor = Number.POSITIVE_INFINITY;
  #syncing = false;
  #syncAgain = false;
  #writing = false;
  #dispatching = new Set<string>();
  skew = 0;

  constructor(id: string, tier: Tier, world: World, reach: Reach) {
    this.id = id;
    this.tier = tier;
    this.#world = world;
    this.#reach = reach;
    migrate(this.#sql);
    this.#account = new Account(new WatchedRows(this.#sql));
    const settings = { account_id: id, tier, suspended: false, pool: "default", webhook_secret: "0".repeat(64) };
    create(this.#account, settings);
    for (const key of KEYS) addKey(this.#account, { key_hash: key, prefix: key, name: key }, world.now);
  }

  get store() {
    return this.#account.store;
  }

  get now(): number {
    return this.#world.now + this.skew;
  }

  close(): void {
    this.#life++;
    this.#sql.close();
  }

  /** The object dies and comes back with what it had stored. */
  restart(): void {
    this.#life++;
    this.#account = new Account(new WatchedRows(this.#sql));
    this.#armedFor = Number.POSITIVE_INFINITY;
    this.#syncing = false;
    this.#writing = false;
    this.#dispatching = new Set();
    for (const { job_id, fence } of this.store.inPhases(["placed"], 1000)) this.#dispatch(job_id, fence);
    this.#arm();
  }

  /** `run` later, unless this process has died by then. */
  #later(delay_ms: number, run: () => void): void {
    this.#world.after(delay_ms, this.#mine(run));
  }

  #mine<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
    const life = this.#life;
    return (...args) => {
      if (life === this.#life) run(...args);
    };
  }

  run<T>(verb: (account: Account, now: number) => T): T {
    const value = this.#sql.transaction(() => verb(this.#account, this.now));
    for (const key of KEYS) {
      const { slots, places } = this.store.use(key);
      const { concurrent_jobs, queue_depth } = TIER_LIMITS[this.tier];
      expect(slots, "slots").toBeLessThanOrEqual(concurrent_jobs);
      expect(places, "places").toBeLessThanOrEqual(queue_depth);
    }
    this.#arm();
    // Between its commit and its effects an object may die.
    const effects = this.#account.takeEffects();
    if (this.#world.fault(0.01)) this.restart();
    else for (const effect of effects) this.#perform(effect);
    if (this.#account.unwritten && !this.#writing) {
      this.#writing = true;
      this.#later(1_000, () => {
        this.#writing = false;
        this.run((account) => account.writeBehind());
      });
    }
    return value;
  }

  #arm(): void {
    const earliest = this.store.earliestTimer();
    if (earliest === undefined || earliest >= this.#armedFor) return;
    this.#armedFor = earliest;
    this.#later(Math.max(1, earliest - this.now), () => this.#alarm());
  }

  #alarm(): void {
    this.#armedFor = Number.POSITIVE_INFINITY;
    const fires = this.#mine((timer: Parameters<typeof fire>[1]) => {
      if (this.#world.fault(0.02))
        this.run((account, now) => account.store.postponeTimer(timer, now + backoff(timer.tries)));
      else this.run((account, now) => fire(account, timer, now));
    });
    for (const timer of this.store.dueTimers(this.now, 200)) fires(timer);
    this.#arm();
  }

  #perform(effect: Effect): void {
    switch (effect.kind) {
      case "sync":
        this.#sync();
        break;
      case "dispatch":
        this.#dispatch(effect.job_id, effect.fence);
        break;
      case "stop":
        this.#world.message(() => this.#reach.stop(this.id, effect.job_id, effect.fence, effect.placement.runner));
        break;
      case "deliver":
        this.#deliver(effect.job_id, effect.round, effect.delay_s);
        break;
      case "remove":
        this.#world.message(() => this.run((account, now) => paid(account.store, effect.removal, now)));
        break;
      case "wake":
        break;
    }
  }

  #sync(): void {
    if (this.#syncing) {
      this.#syncAgain = true;
      return;
    }
    this.#syncAgain = false;
    const { link } = this.#account;
    const request = link.request(this.store, this.#account.mustSettings, this.now);
    if (!request) return;
    this.#syncing = true;
    const answered = this.#mine((answer: SyncAnswer | undefined) => {
      this.#syncing = false;
      if (!answer) {
        link.unanswered(request);
        this.run((account, now) => account.keepSyncing(now, 2_000));
        return;
      }
      link.epoch = answer.epoch;
      link.again_in_ms = answer.again_in_s * 1000;
      if (answer.send_full) link.forget();
      const again = this.#mine(() => this.#sync());
      this.run((account, now) => applyNews(account, answer, now));
      if (answer.send_full || this.#syncAgain) again();
    });
    this.#world.call(() => this.#reach.sync(request), answered, { once: true });
  }

  #dispatch(job_id: string, fence: number): void {
    const name = `${job_id}.${fence}`;
    if (this.#dispatching.has(name)) return;
    this.#dispatching.add(name);
    const post = this.#mine((pause: number) => {
      const job = this.run((account, now) => dispatchStillOpen(account, job_id, fence, now));
      const { placement } = job ?? {};
      if (!placement) {
        this.#dispatching.delete(name);
        return;
      }
      const answered = this.#mine((answer: DispatchAnswer = { kind: "unknown", reason: "time-out" }) => {
        this.run((account, now) => dispatchAnswered(account, job_id, fence, answer, now));
        if (answer.kind === "unknown") this.#later(pause, () => post(Math.min(pause * 2, 8_000)));
        else this.#dispatching.delete(name);
      });
      this.#world.call(() => this.#reach.dispatch(this.id, job_id, fence, placement), answered);
    });
    post(1_000);
  }

  /** A queue that may lose or double a message, and a consumer that may die with it. */
  #deliver(job_id: string, round: number, delay_s: number): void {
    const world = this.#world;
    const consume = () => {
      const begun = this.run((account, now) => beginDelivery(account, job_id, round, now));
      if (begun.kind === "early") this.#deliver(job_id, round, begun.retry_in_s);
      if (begun.kind !== "granted") return;
      this.attempts.set(job_id, (this.attempts.get(job_id) ?? 0) + 1);
      const report = { ok: world.chance(0.7), started_at: this.now, duration_ms: 1 };
      world.after(world.between(10, 12_000), () =>
        world.message(() => {
          const next = this.run((account, now) => finishDelivery(account, job_id, round, begun.n, report, now));
          if (next) this.#deliver(job_id, round, next.retry_in_s);
        }),
      );
    };
    world.after(delay_s * 1000, () => world.message(consume));
  }
}
