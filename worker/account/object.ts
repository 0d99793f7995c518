import { DurableObject } from "cloudflare:workers";
import type { KeyLimits, Tier } from "../../schemas/limits.ts";
import type { EndReport, ProgressReport } from "../../schemas/runner-protocol.ts";
import type { Env } from "../env.ts";
import type { FleetNews } from "../fleet/sync.ts";
import { configOf } from "../config.ts";
import { log, reasonOf } from "../log.ts";
import type { DispatchOrder } from "../runners/dispatcher.ts";
import { Account, type Effect } from "./account.ts";
import * as administration from "./administration.ts";
import * as executions from "./executions.ts";
import type { IdempotencyClaim } from "./idempotency.ts";
import type { Gate, Settings } from "./keys.ts";
import { migrate } from "./migrations.ts";
import { DISPATCH_REPEAT_MS, type Reporter } from "./jobs.ts";
import * as notifications from "./notifications.ts";
import { paid } from "./outbox.ts";
import type { JobView } from "./record.ts";
import * as requests from "./requests.ts";
import { Rows } from "./rows.ts";
import type { PageFilter } from "./store.ts";
import { backoff, fire, TIMERS_PER_ALARM } from "./timers.ts";
import { Waits } from "./waits.ts";
import * as webhooks from "./webhook-requests.ts";
import { replaceWebhookSecret } from "./webhook-secrets.ts";

/** More executions than an account can have at once. */
const MAX_HELD = 1_000;
/** Windows and acceptances wait this long for a transaction that happens anyway. */
const WRITE_BEHIND_MS = 1_000;
/** An alarm that dies comes back after this long. */
const ALARM_RETRY_MS = 30_000;
/** After a sync that was not answered. */
const SYNC_RETRY_MS = 2_000;
/** Between two postings of the same dispatch. */
const REPEAT_FIRST_MS = 1_000;
const REPEAT_MOST_MS = 8_000;

/**
 * One account as a Durable Object: a shell that gives the pure verbs a transaction and a clock, and carries out what they owe
 * once that is durable. It makes no HTTP request (design section 4).
 */
export class AccountObject extends DurableObject<Env> {
  readonly #account: Account;
  #armedFor = Number.POSITIVE_INFINITY;
  #writeBehind: ReturnType<typeof setTimeout> | undefined;
  /** Conversations under way, by pool: `again` where something changed meanwhile. */
  readonly #syncing = new Map<string, { again: boolean }>();
  readonly #dispatching = new Set<string>();
  readonly #waits = new Waits();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.transactionSync(() => migrate(ctx.storage.sql));
    this.#account = new Account(
      new Rows(ctx.storage.sql, ({ job_id }) => log("error", "row_poisoned", { job: job_id })),
      { pools: configOf(env).pools },
    );
    ctx.blockConcurrencyWhile(async () => {
      this.#armedFor = (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY;
      this.#arm();
    });
    this.#resume();
  }

  /** What an earlier life of this object may have left half done: dispatches without an answer, a conversation cut short. */
  #resume(): void {
    const { store } = this.#account;
    for (const { job_id, fence } of store.inPhases(["placed"], MAX_HELD))
      this.#perform({ kind: "dispatch", job_id, fence });
    if (store.inPhases(["ready", "placed", "running"], 1).length > 0) this.#perform({ kind: "sync" });
  }

  /** One verb: one synchronous transaction, the alarm in the same turn, then what it owes. */
  #run<T>(verb: (account: Account, now: number) => T): T {
    let value: T;
    try {
      value = this.ctx.storage.transactionSync(() => verb(this.#account, Date.now()));
    } catch (error) {
      this.#account.rolledBack();
      throw error;
    }
    this.#arm();
    for (const effect of this.#account.takeEffects()) this.#perform(effect);
    if (this.#account.unwritten) {
      this.#writeBehind ??= setTimeout(() => {
        this.#writeBehind = undefined;
        this.#run((account) => account.writeBehind());
      }, WRITE_BEHIND_MS);
    }
    return value;
  }

  /** Keeps the alarm at or before the earliest timer. */
  #arm(): void {
    const earliest = this.#account.store.earliestTimer();
    if (earliest === undefined || earliest >= this.#armedFor) return;
    this.#armedFor = earliest;
    void this.ctx.storage.setAlarm(Math.max(earliest, Date.now()));
  }

  #perform(effect: Effect): void {
    if (effect.kind === "wake") this.#waits.wake(effect.job_id);
    else this.#performLater(effect);
  }

  #performLater(effect: Exclude<Effect, { kind: "wake" }>): void {
    const { Dispatcher } = this.ctx.exports;
    const work = (): Promise<unknown> => {
      switch (effect.kind) {
        case "sync":
          return this.#sync();
        case "dispatch":
          return this.#dispatch(effect.job_id, effect.fence);
        case "stop":
          return Dispatcher.stop(this.#account.mustSettings.account_id, effect.job_id, effect.fence, effect.placement);
        case "deliver": {
          const { account_id } = this.#account.mustSettings;
          return Dispatcher.send({ account: account_id, job: effect.job_id, round: effect.round }, effect.delay_s);
        }
        case "remove":
          return Dispatcher.remove(effect.removal).then(() =>
            this.#run((account, now) => paid(account.store, effect.removal, now)),
          );
      }
    };
    this.ctx.waitUntil(
      work().catch((error) => log("warn", "effect_failed", { effect: effect.kind, reason: reasonOf(error) })),
    );
  }

  /** Says what there is to say, to each pool. */
  async #sync(): Promise<void> {
    const { settings, links, store } = this.#account;
    if (settings) await Promise.all(links.pools(settings, store).map((pool) => this.#converse(pool)));
  }

  /** Talks to one fleet, one request at a time; what changes meanwhile goes with the next. */
  async #converse(pool: string): Promise<void> {
    const underWay = this.#syncing.get(pool);
    if (underWay) {
      underWay.again = true;
      return;
    }
    const state = { again: false };
    this.#syncing.set(pool, state);
    try {
      do {
        state.again = false;
        const { mustSettings, links, store } = this.#account;
        const request = links.request(pool, store, mustSettings, Date.now());
        if (!request) return;
        try {
          const answer = await this.env.FLEET.getByName(pool).sync(request);
          if (answer.send_full) state.again = true;
          this.#run((account, now) => executions.syncAnswered(account, pool, answer, now));
        } catch (error) {
          links.of(pool).unanswered(request);
          log("warn", "sync_unanswered", { account: request.account, pool, reason: reasonOf(error) });
          this.#run((account, now) => account.keepSyncing(now, SYNC_RETRY_MS));
          return;
        }
      } while (state.again);
    } finally {
      this.#syncing.delete(pool);
    }
  }

  /** Posts a placed execution to its runner until there is an answer or the repeats are over (design section 6, step 3). */
  async #dispatch(job_id: string, fence: number): Promise<void> {
    const name = `${job_id}.${fence}`;
    if (this.#dispatching.has(name)) return;
    this.#dispatching.add(name);
    try {
      const until = Date.now() + DISPATCH_REPEAT_MS;
      for (let pause = REPEAT_FIRST_MS; Date.now() < until; pause = Math.min(pause * 2, REPEAT_MOST_MS)) {
        try {
          const order = this.#run((account, now) => this.#orderOf(account, job_id, fence, now));
          if (!order) return;
          const answer = await this.ctx.exports.Dispatcher.dispatch(order);
          this.#run((account, now) => executions.dispatchAnswered(account, job_id, fence, answer, now));
          if (answer.kind !== "unknown") return;
        } catch (error) {
          // A fault on either side leaves the outcome unknown, as a lost answer does.
          log("warn", "dispatch_fault", { job: job_id, fence, reason: reasonOf(error) });
        }
        await scheduler.wait(pause);
      }
    } finally {
      this.#dispatching.delete(name);
    }
  }

  #orderOf(account: Account, job_id: string, fence: number, now: number): DispatchOrder | undefined {
    const job = executions.dispatchStillOpen(account, job_id, fence, now);
    if (!job?.placement || job.lease_until === undefined) return undefined;
    const prompt = job.prompt_in === "row" ? account.store.prompt(job_id) : undefined;
    return {
      account: account.mustSettings.account_id,
      job: job_id,
      fence,
      placement: job.placement,
      lease_until: job.lease_until,
      timeout_ms: job.timeout_s * 1000,
      ...(prompt === undefined ? {} : { prompt }),
    };
  }

  /** Fires due timers, each in a transaction of its own: a poisoned row delays itself and nobody else. */
  override async alarm(): Promise<void> {
    this.#armedFor = Date.now() + ALARM_RETRY_MS;
    void this.ctx.storage.setAlarm(this.#armedFor);
    const due = this.#account.store.dueTimers(Date.now(), TIMERS_PER_ALARM);
    for (const timer of due) {
      try {
        this.#run((account, now) => fire(account, timer, now));
      } catch (error) {
        log("error", "timer_failed", { kind: timer.kind, ref: timer.ref, tries: timer.tries, reason: reasonOf(error) });
        this.#run((account, now) => account.store.postponeTimer(timer, now + backoff(timer.tries)));
      }
    }
    const earliest = this.#account.store.earliestTimer();
    if (earliest === undefined) {
      this.#armedFor = Number.POSITIVE_INFINITY;
      void this.ctx.storage.deleteAlarm();
    } else {
      this.#armedFor = earliest;
      void this.ctx.storage.setAlarm(Math.max(earliest, Date.now()));
    }
  }

  // What API clients ask; routes/ calls these, one for each request.

  count(key_hash: string): Gate {
    return this.#run((account, now) => requests.count(account, key_hash, now));
  }

  submit(key_hash: string, submission: requests.Submission): requests.Gated<requests.Submitted> {
    return this.#run((account, now) => requests.submit(account, key_hash, submission, now));
  }

  /** @param wait_s answer when the job has ended, or after so many seconds; 0: at once */
  async getJob(key_hash: string, job_id: string, wait_s: number): Promise<requests.Gated<JobView | null>> {
    const seen = this.#run((account, now) => requests.getJob(account, key_hash, job_id, now));
    if (wait_s === 0 || !seen.value || seen.value.record.expires_at !== undefined) return seen;
    return this.#waitFor(key_hash, job_id, wait_s, false);
  }

  /** The second half of a submission with `Prefer: wait`: the end of the job, or its state after so many seconds. */
  async awaitSubmitted(key_hash: string, job_id: string, wait_s: number): Promise<requests.Gated<JobView | null>> {
    return this.#waitFor(key_hash, job_id, wait_s, true);
  }

  async #waitFor(
    key_hash: string,
    job_id: string,
    wait_s: number,
    submitted: boolean,
  ): Promise<requests.Gated<JobView | null>> {
    const look = () => this.#run((account, now) => requests.lookAgain(account, key_hash, job_id, submitted, now));
    const seen = look();
    if (!seen.value || seen.value.record.expires_at !== undefined) return seen;
    const waited = this.#waits.enter(key_hash, job_id, wait_s * 1000);
    if (!waited) {
      const { window } = seen.gate;
      return { gate: { ok: false, code: "too_many_waits", ...(window ? { window } : {}) } };
    }
    await waited;
    return look();
  }

  listJobs(key_hash: string, page: PageFilter & { limit: number }): requests.Gated<requests.JobPage> {
    return this.#run((account, now) => requests.listJobs(account, key_hash, page, now));
  }

  cancelJob(key_hash: string, job_id: string): requests.Gated<JobView | null> {
    return this.#run((account, now) => requests.cancelJob(account, key_hash, job_id, now));
  }

  deleteJob(key_hash: string, job_id: string): requests.Gated<requests.Deleted> {
    return this.#run((account, now) => requests.deleteJob(account, key_hash, job_id, now));
  }

  redeliver(key_hash: string, which: { job_id: string; request: string }): requests.Gated<webhooks.Redelivered> {
    return this.#run((account, now) => webhooks.redeliver(account, key_hash, which, now));
  }

  readDelivery(key_hash: string, job_id: string): requests.Gated<webhooks.DeliveryRead> {
    return this.#run((account, now) => webhooks.readDelivery(account, key_hash, job_id, now));
  }

  listEvents(
    key_hash: string,
    page: { after: webhooks.EventsAfter; limit: number },
  ): requests.Gated<webhooks.EventPage | "unknown"> {
    return this.#run((account, now) => webhooks.listEvents(account, key_hash, page, now));
  }

  limits(key_hash: string): requests.Gated<KeyLimits> {
    return this.#run((account, now) => requests.limits(account, key_hash, now));
  }

  isReused(key_hash: string, claim: IdempotencyClaim): requests.Gated<boolean> {
    return this.#run((account, now) => requests.isReused(account, key_hash, claim, now));
  }

  // What fleet and runners tell; fleet/object.ts and runners/ call these.

  /** News of the fleet's own accord: the same as a sync's answer, applied by the same function. */
  fleetNews(pool: string, news: FleetNews): void {
    this.#run((account, now) => executions.applyNews(account, pool, news, now));
  }

  progress(job_id: string, fence: number, report: ProgressReport): executions.ProgressVerdict {
    return this.#run((account, now) => executions.progress(account, job_id, fence, report, now));
  }

  mayUpload(job_id: string, fence: number): boolean {
    return this.#run((account) => executions.mayUpload(account, job_id, fence));
  }

  endExecution(job_id: string, fence: number, by: Reporter, report: EndReport): executions.EndAnswerKind {
    return this.#run((account, now) => executions.endExecution(account, job_id, fence, by, report, now));
  }

  // What the webhook courier asks; webhooks/courier.ts calls these.

  beginDelivery(job_id: string, round: number): notifications.BeginAnswer {
    return this.#run((account, now) => notifications.beginDelivery(account, job_id, round, now));
  }

  finishDelivery(job_id: string, round: number, n: number, report: notifications.AttemptReport): void {
    this.#run((account, now) => notifications.finishDelivery(account, job_id, round, n, report, now));
  }

  // What operators change; operator/ calls these.

  create(settings: Settings): void {
    this.#run((account) => administration.create(account, settings));
  }

  setTier(tier: Tier): void {
    this.#run((account, now) => administration.setTier(account, tier, now));
  }

  setSuspended(suspended: boolean): void {
    this.#run((account, now) => administration.setSuspended(account, suspended, now));
  }

  /** @param secret made by the caller: repeating the call is harmless */
  replaceWebhookSecret(secret: string): void {
    this.#run((account, now) => replaceWebhookSecret(account, secret, now));
  }

  addKey(key: administration.NewKey): administration.AddKey {
    return this.#run((account, now) => administration.addKey(account, key, now));
  }

  revokeKey(prefix: string): administration.RevokeKey {
    return this.#run((account, now) => administration.revokeKey(account, prefix, now));
  }
}
