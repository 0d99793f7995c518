import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { Account, type Effect } from "./account.ts";
import { Calls } from "./calls.ts";
import { migrate } from "./migrations.ts";
import { paid } from "./outbox.ts";
import { Rows } from "./rows.ts";
import { backoff, fire, TIMERS_PER_ALARM } from "./timers.ts";
import { Waits } from "./waits.ts";

/** More executions than an account can have at once. */
const MAX_HELD = 1_000;
/** Windows and acceptances wait this long for a transaction that happens anyway. */
const WRITE_BEHIND_MS = 1_000;
/** An alarm that dies comes back after this long. */
const ALARM_RETRY_MS = 30_000;

/** What an account object gives its verbs: transactions, a clock, the alarm, and whoever carries out what they owe. */
export class Runtime {
  readonly account: Account;
  readonly waits = new Waits();
  readonly #ctx: DurableObjectState;
  readonly #calls: Calls;
  #armedFor = Number.POSITIVE_INFINITY;
  #writeBehind: ReturnType<typeof setTimeout> | undefined;

  /** @param pools the pools of the deployment */
  constructor(ctx: DurableObjectState, { fleets, pools }: { fleets: Env["FLEET"]; pools: readonly string[] }) {
    this.#ctx = ctx;
    ctx.storage.transactionSync(() => migrate(ctx.storage.sql));
    this.account = new Account(
      new Rows(ctx.storage.sql, ({ job_id }) => log("error", "row_poisoned", { job: job_id })),
      { pools },
    );
    this.#calls = new Calls({
      account: this.account,
      run: (verb) => this.run(verb),
      sync: (pool, request) => fleets.getByName(pool).sync(request),
      dispatch: (order) => ctx.exports.Dispatcher.dispatch(order),
    });
    ctx.blockConcurrencyWhile(async () => {
      this.#armedFor = (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY;
      this.#arm();
    });
    this.#resume();
  }

  /** What an earlier life of this object may have left half done: dispatches without an answer, a conversation cut short. */
  #resume(): void {
    const { store } = this.account;
    for (const { job_id, fence } of store.inPhases(["placed"], MAX_HELD))
      this.#perform({ kind: "dispatch", job_id, fence });
    if (store.inPhases(["ready", "placed", "running"], 1).length > 0) this.#perform({ kind: "sync" });
  }

  /** One verb: one synchronous transaction, the alarm in the same turn, then what it owes. */
  run<T>(verb: (account: Account, now: number) => T): T {
    let value: T;
    try {
      value = this.#ctx.storage.transactionSync(() => verb(this.account, Date.now()));
    } catch (error) {
      this.account.rolledBack();
      throw error;
    }
    this.#arm();
    for (const effect of this.account.takeEffects()) this.#perform(effect);
    if (this.account.unwritten) {
      this.#writeBehind ??= setTimeout(() => {
        this.#writeBehind = undefined;
        this.run((account) => account.writeBehind());
      }, WRITE_BEHIND_MS);
    }
    return value;
  }

  /** Keeps the alarm at or before the earliest timer. */
  #arm(): void {
    const earliest = this.account.store.earliestTimer();
    if (earliest === undefined || earliest >= this.#armedFor) return;
    this.#armedFor = earliest;
    void this.#ctx.storage.setAlarm(Math.max(earliest, Date.now()));
  }

  #perform(effect: Effect): void {
    if (effect.kind === "wake") this.waits.wake(effect.job_id);
    else this.#performLater(effect);
  }

  #performLater(effect: Exclude<Effect, { kind: "wake" }>): void {
    const { Dispatcher } = this.#ctx.exports;
    const work = (): Promise<unknown> => {
      switch (effect.kind) {
        case "sync":
          return this.#calls.sync();
        case "dispatch":
          return this.#calls.dispatch(effect.job_id, effect.fence);
        case "stop":
          return Dispatcher.stop(this.account.mustSettings.account_id, effect.job_id, effect.fence, effect.placement);
        case "deliver": {
          const { account_id } = this.account.mustSettings;
          return Dispatcher.send({ account: account_id, job: effect.job_id, round: effect.round }, effect.delay_s);
        }
        case "remove":
          return Dispatcher.remove(effect.removal).then(() =>
            this.run((account, now) => paid(account.store, effect.removal, now)),
          );
      }
    };
    this.#ctx.waitUntil(
      work().catch((error) => log("warn", "effect_failed", { effect: effect.kind, reason: reasonOf(error) })),
    );
  }

  /** Fires due timers, each in a transaction of its own: a poisoned row delays itself and nobody else. */
  async alarm(): Promise<void> {
    this.#armedFor = Date.now() + ALARM_RETRY_MS;
    void this.#ctx.storage.setAlarm(this.#armedFor);
    const due = this.account.store.dueTimers(Date.now(), TIMERS_PER_ALARM);
    for (const timer of due) {
      try {
        this.run((account, now) => fire(account, timer, now));
      } catch (error) {
        log("error", "timer_failed", { kind: timer.kind, ref: timer.ref, tries: timer.tries, reason: reasonOf(error) });
        this.run((account, now) => account.store.postponeTimer(timer, now + backoff(timer.tries)));
      }
    }
    const earliest = this.account.store.earliestTimer();
    if (earliest === undefined) {
      this.#armedFor = Number.POSITIVE_INFINITY;
      void this.#ctx.storage.deleteAlarm();
    } else {
      this.#armedFor = earliest;
      void this.#ctx.storage.setAlarm(Math.max(earliest, Date.now()));
    }
  }
}
