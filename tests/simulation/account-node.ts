import type { Tier } from "../../schemas/limits.ts";
import { Account, type Effect } from "../../worker/account/account.ts";
import { addKey, create } from "../../worker/account/administration.ts";
import { paid } from "../../worker/account/outbox.ts";
import { backoff, fire, TIMERS_PER_ALARM } from "../../worker/account/timers.ts";
import type { FleetNews } from "../../worker/fleet/sync.ts";
import { AccountCalls, type Host, type Life, type Reach } from "./account-calls.ts";
import type { AccountDisk } from "./account-disk.ts";
import { ALARM_RETRY_MS, judgeAccount } from "./account-rules.ts";
import { Broken, type World } from "./world.ts";

export const KEYS = ["key-one-", "key-two-"];

/** As worker/account/runtime.ts has them. */
const MAX_HELD = 1_000;
const WRITE_BEHIND_MS = 1_000;
/** The platform calls an alarm again that threw. */
const ALARM_THROWN_MS = 2_000;

/** What dies with the process. */
interface Memory {
  readonly account: Account;
  readonly calls: AccountCalls;
  armedFor: number;
  writing: boolean;
}

/** An account with the shell that its object gives it: transactions, an alarm, effects after the commit. */
export class AccountNode implements Host {
  readonly id: string;
  readonly disk: AccountDisk;
  readonly #world: World;
  readonly #reach: Reach;
  #memory: Memory | undefined;
  /** Which process this is: what an earlier one waited for is not heard. */
  #life = 0;
  #skew = 0;
  /** When its clock was set last, by the world's. */
  clockSetAt = Number.NEGATIVE_INFINITY;
  /** The furthest that its own clock has ever shown when it was set. */
  clockSetFrom = Number.NEGATIVE_INFINITY;
  /** Its alarm is being handled: it stands at a later retry meanwhile. */
  ringing = false;
  /** The planned ring of the alarm; an earlier plan is void. */
  #ring = 0;

  constructor(id: string, settings: { tier: Tier; pool: string }, disk: AccountDisk, world: World, reach: Reach) {
    this.id = id;
    this.disk = disk;
    this.#world = world;
    this.#reach = reach;
    this.run((account) => {
      create(account, { account_id: id, suspended: false, webhook_secret: "0".repeat(64), ...settings });
      for (const key of KEYS) addKey(account, { key_hash: key, prefix: key, name: key }, this.now);
    });
  }

  get rows() {
    return this.disk.rows;
  }

  get now(): number {
    return this.#world.now + this.#skew;
  }

  /** The clock of its machine is set. */
  setClock(skew_ms: number): void {
    if (skew_ms === this.#skew) return;
    this.clockSetFrom = Math.max(this.clockSetFrom, this.now);
    this.#skew = skew_ms;
    this.clockSetAt = this.#world.now;
    this.#planAlarm();
  }

  /** Its memory is lost. What is stored comes back with the next message or alarm. */
  evict(): void {
    this.#world.note(`${this.id} EVICTED`);
    this.#life++;
    this.#memory = undefined;
  }

  #wake(): Memory {
    if (this.#memory) return this.#memory;
    const account = new Account(this.rows, { pools: this.#reach.pools });
    const number = this.#life;
    const life: Life = {
      account,
      lives: () => number === this.#life,
      mine: (run) => this.#mine(run),
      later: (delay_ms, run) => this.#later(delay_ms, run),
    };
    const memory: Memory = {
      account,
      calls: new AccountCalls(this, life, this.#reach),
      armedFor: this.disk.alarm ?? Number.POSITIVE_INFINITY,
      writing: false,
    };
    this.#memory = memory;
    this.#arm(memory);
    for (const { job_id, fence } of this.rows.inPhases(["placed"], MAX_HELD)) memory.calls.dispatch(job_id, fence);
    if (this.rows.inPhases(["ready", "placed", "running"], 1).length > 0) memory.calls.sync();
    return memory;
  }

  /** `run`, unless this process has died by then. */
  #mine<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
    const life = this.#life;
    return (...args) => {
      if (life === this.#life) run(...args);
    };
  }

  #later(delay_ms: number, run: () => void): void {
    this.#world.after(delay_ms, this.#mine(run));
  }

  /** One verb: one transaction, the alarm in the same turn, then what it owes. */
  run<T>(verb: (account: Account, now: number) => T): T {
    const world = this.#world;
    const { disk } = this;
    const { watch } = disk;
    const memory = this.#wake();
    const { account } = memory;
    if (world.fault(0.003, "failed write")) watch.fuse = world.between(0, 5);
    const dies = world.fault(0.003, "death in a transaction");
    let value: T;
    try {
      value = disk.transaction(() => {
        const made = verb(account, this.now);
        if (dies) throw new Broken("died before its commit");
        return made;
      });
    } catch (error) {
      account.rolledBack();
      watch.touched.clear();
      if (dies) this.evict();
      throw error;
    } finally {
      watch.fuse = Number.POSITIVE_INFINITY;
    }
    this.#arm(memory);
    judgeAccount(this, account, KEYS);
    watch.touched.clear();
    const effects = account.takeEffects();
    // Between its commit and its effects an object may die.
    const left = world.fault(0.005, "death after a commit") ? world.between(0, effects.length) : undefined;
    for (const effect of effects.slice(0, left)) this.#perform(memory, effect);
    if (left !== undefined) {
      this.evict();
      throw new Broken("died after its commit");
    }
    if (account.unwritten && !memory.writing) {
      memory.writing = true;
      this.#later(WRITE_BEHIND_MS, () => {
        memory.writing = false;
        this.run((one) => one.writeBehind());
      });
    }
    return value;
  }

  /** A fleet's news of its own accord. */
  hears(pool: string, news: FleetNews): void {
    this.#wake().calls.hears(pool, news);
  }

  #arm(memory: Memory): void {
    const earliest = this.rows.earliestTimer();
    if (earliest === undefined || earliest >= memory.armedFor) return;
    memory.armedFor = earliest;
    this.#setAlarm(Math.max(earliest, this.now));
  }

  /** Stored with the transaction of the same turn. */
  #setAlarm(at: number | undefined): void {
    this.disk.alarm = at;
    this.#planAlarm();
  }

  #planAlarm(): void {
    const { alarm } = this.disk;
    const ring = ++this.#ring;
    if (alarm === undefined) return;
    const late = this.#world.fault(0.01, "late alarm") ? this.#world.between(100, 5_000) : 1;
    this.#world.after(Math.max(0, alarm - this.now) + late, () => {
      if (ring !== this.#ring) return;
      this.disk.alarm = undefined;
      this.ringing = true;
      try {
        this.#alarm();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        if (this.disk.alarm === undefined || this.disk.alarm > this.now + ALARM_THROWN_MS)
          this.#setAlarm(this.now + ALARM_THROWN_MS);
      } finally {
        this.ringing = false;
      }
    });
  }

  /** Fires due timers, each in a transaction of its own. */
  #alarm(): void {
    const memory = this.#wake();
    memory.armedFor = this.now + ALARM_RETRY_MS;
    this.#setAlarm(memory.armedFor);
    for (const timer of this.rows.dueTimers(this.now, TIMERS_PER_ALARM)) {
      this.#world.note(`${this.id} timer ${timer.kind} ${timer.ref}`);
      const life = this.#life;
      try {
        this.run((account, now) => fire(account, timer, now));
      } catch (error) {
        // A dead process goes on with nothing; its alarm is armed again.
        if (!(error instanceof Broken) || life !== this.#life) throw error;
        this.run((account, now) => account.store.postponeTimer(timer, now + backoff(timer.tries)));
      }
    }
    const earliest = this.rows.earliestTimer();
    memory.armedFor = earliest ?? Number.POSITIVE_INFINITY;
    this.#setAlarm(earliest === undefined ? undefined : Math.max(earliest, this.now));
  }

  #perform(memory: Memory, effect: Effect): void {
    switch (effect.kind) {
      case "sync":
        memory.calls.sync();
        break;
      case "dispatch":
        memory.calls.dispatch(effect.job_id, effect.fence);
        break;
      case "stop":
        this.#reach.stop(this.id, effect.job_id, effect.fence, effect.placement);
        break;
      case "deliver":
        this.#reach.send(this.id, effect.job_id, effect.round, effect.delay_s);
        break;
      case "remove":
        this.#reach.remove(effect.removal, () => this.run(({ store }, now) => paid(store, effect.removal, now)));
        break;
      case "wake":
        break;
    }
  }
}
