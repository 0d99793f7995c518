import { DurableObject } from "cloudflare:workers";
import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import { DEFAULT_POOL } from "../../schemas/ids.ts";
import { publishCatalogue } from "../catalogue.ts";
import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { type HistoryView, readHistory, takeHistory, viewHistory } from "./history.ts";
import { START_GRACE_MS, type Watch } from "./losses.ts";
import { LEAST_TICK_MS, Pool } from "./pool.ts";
import { type EnrolToken, type RosterEntry, RosterRows } from "./roster.ts";
import type { FleetNews, SyncAnswer, SyncRequest } from "./sync.ts";
import { type FleetStatus, type RunnerDetails, type RunnerView, viewDetails, viewFleet, viewRunners } from "./views.ts";

/** Key-value entry of the object's storage: when the grace after a start ends. Absent once it has been used up. */
const GRACE_KEY = "grace_until";
/** The same: what the fleet did lately. A job costs no write; what a lost object did within the time is forgotten. */
const HISTORY_KEY = "history";
const HISTORY_WRITE_MS = 300_000;

export type Enrolment = { readonly ok: true; readonly entry: RosterEntry } | { readonly ok: false };

/** One fleet as a Durable Object: a shell that gives the pure pool a clock, its roster and a way to tell accounts (design section 5). */
export class FleetObject extends DurableObject<Env> {
  readonly #pool: Pool;
  readonly #roster: RosterRows;
  readonly #watch: Watch;
  #armedFor = Number.POSITIVE_INFINITY;
  #historyWrittenAt: number;
  #graceOver = false;
  #publishing = false;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const started_at = Date.now();
    const stored = ctx.storage.kv.get<number>(GRACE_KEY);
    // One that is over, or was set by a clock that was wrong, is no grace of this start.
    const lasts = stored !== undefined && stored > started_at && stored <= started_at + START_GRACE_MS;
    if (!lasts) ctx.storage.kv.put(GRACE_KEY, started_at + START_GRACE_MS);
    this.#watch = { started_at, grace_until: lasts ? stored : started_at + START_GRACE_MS };
    this.#roster = new RosterRows(ctx.storage.sql);
    const history = readHistory(ctx.storage.kv.get(HISTORY_KEY));
    this.#historyWrittenAt = history.written_at ?? started_at;
    this.#pool = new Pool(this.#roster, this.#watch, history);
    ctx.blockConcurrencyWhile(async () => {
      this.#armedFor = (await ctx.storage.getAlarm()) ?? Number.POSITIVE_INFINITY;
      this.#arm();
    });
  }

  /** One message: a synchronous transaction over the roster, the alarm in the same turn, then the news it made. */
  #run<T>(verb: (pool: Pool, now: number) => T): T {
    let value: T;
    try {
      value = this.ctx.storage.transactionSync(() => {
        const now = Date.now();
        const said = verb(this.#pool, now);
        this.#keepHistory(now);
        return said;
      });
    } catch (error) {
      // Memory may be half changed. It can all be said again, so a fresh object is the safe one.
      log("error", "fleet_fault", { reason: reasonOf(error) });
      this.ctx.abort("The fleet object starts anew after a fault.");
      throw error;
    }
    this.#arm();
    for (const [account, news] of this.#pool.takeNews()) this.ctx.waitUntil(this.#tell(account, news));
    this.#publish();
    return value;
  }

  #keepHistory(now: number): void {
    const { history } = this.#pool.state;
    // However the clock was set meanwhile.
    if (!history.unwritten || Math.abs(now - this.#historyWrittenAt) < HISTORY_WRITE_MS) return;
    this.ctx.storage.kv.put(HISTORY_KEY, takeHistory(history, now));
    this.#historyWrittenAt = now;
  }

  /** The pool's name. */
  get #name(): string {
    return this.ctx.id.name ?? DEFAULT_POOL;
  }

  /** One write at a time: of two under way the earlier could be the last to arrive. */
  #publish(): void {
    if (this.#publishing) return;
    const catalogue = this.#pool.takeCatalogue();
    if (catalogue) this.ctx.waitUntil(this.#publishAll(catalogue));
  }

  /** What changes meanwhile is published after it; what fails, with the next message. */
  async #publishAll(first: readonly string[]): Promise<void> {
    this.#publishing = true;
    try {
      for (let next: readonly string[] | undefined = first; next; next = this.#pool.takeCatalogue())
        await publishCatalogue(this.env, this.#name, next);
    } catch (error) {
      this.#pool.keepCatalogue();
      log("warn", "catalogue_unpublished", { reason: reasonOf(error) });
    } finally {
      this.#publishing = false;
    }
  }

  /** A lost call costs time only: the account's next full sync asks for the same. */
  async #tell(account: string, news: FleetNews): Promise<void> {
    try {
      await this.env.ACCOUNT.getByName(account).fleetNews(this.#name, news);
    } catch (error) {
      log("warn", "news_undelivered", { account, reason: reasonOf(error) });
    }
  }

  #arm(): void {
    const now = Date.now();
    // Nothing is looked at sooner than that.
    if (this.#armedFor <= now + LEAST_TICK_MS) return;
    const next = this.#pool.nextTick(now);
    if (next === undefined || next >= this.#armedFor) return;
    this.#armedFor = next;
    void this.ctx.storage.setAlarm(next);
  }

  override async alarm(): Promise<void> {
    this.#armedFor = Number.POSITIVE_INFINITY;
    this.#run((pool, now) => pool.tick(now));
    if (!this.#graceOver && Date.now() >= this.#watch.grace_until) {
      this.#graceOver = true;
      this.ctx.storage.kv.delete(GRACE_KEY);
    }
  }

  sync(request: SyncRequest): SyncAnswer {
    return this.#run((pool, now) => pool.sync(request, now));
  }

  /** Null: this runner is not enrolled here, or revoked. */
  beat(runner_id: string, jkt: string, message: Heartbeat): HeartbeatAnswer | null {
    return this.#run((pool, now) => pool.beat(runner_id, jkt, message, now)) ?? null;
  }

  // Enrolment: the token is looked up first and spent when the runner has proven its URL.

  /** The same token again is left as it is: a repeated call gives a spent one no second life. */
  putToken(token: EnrolToken): void {
    this.#roster.deleteExpiredTokens(Date.now());
    if (!this.#roster.token(token.token_hash)) this.#roster.putToken(token);
  }

  token(hash: string, jkt: string): EnrolToken | null {
    const token = this.#roster.token(hash);
    const usable = token && token.expires_at > Date.now() && (token.used_by === undefined || token.used_by === jkt);
    return usable ? token : null;
  }

  /** Spends the token. The key that spent it may repeat the call: an answer may have been lost. */
  enrol(token_hash: string, entry: RosterEntry): Enrolment {
    return this.#run((pool) => {
      const token = this.token(token_hash, entry.jkt);
      if (!token) return { ok: false };
      this.#roster.putToken({ ...token, used_by: entry.jkt });
      return { ok: true, entry: pool.enrol({ ...entry, max_seats: token.max_seats }) };
    });
  }

  revoke(runner_id: string): boolean {
    return this.#run((pool, now) => {
      const runner = pool.runners.get(runner_id);
      // The key that spent a token may repeat its enrolment, but not out of a revocation.
      if (runner) this.#roster.deleteTokensOf(runner.entry.jkt);
      return pool.revoke(runner_id, now);
    });
  }

  drain(runner_id: string): boolean {
    return this.#run((pool, now) => pool.drain(runner_id, now));
  }

  runners(): RunnerView[] {
    return viewRunners(this.#pool.state);
  }

  /** Null: this pool has no such runner. */
  runner(runner_id: string): RunnerDetails | null {
    return viewDetails(this.#pool.state, runner_id);
  }

  status(): FleetStatus {
    return viewFleet(this.#pool.state);
  }

  /** The last hour and the last day. */
  history(): HistoryView {
    return viewHistory(this.#pool.state.history, Date.now());
  }
}
