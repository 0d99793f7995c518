import { log, reasonOf } from "../log.ts";
import type { SyncAnswer, SyncRequest } from "../fleet/sync.ts";
import type { DispatchOrder } from "../runners/dispatcher.ts";
import type { Account } from "./account.ts";
import * as executions from "./executions.ts";
import { DISPATCH_REPEAT_MS } from "./jobs.ts";

/** After a sync that was not answered. */
const SYNC_RETRY_MS = 2_000;
/** Between two postings of the same dispatch. */
const REPEAT_FIRST_MS = 1_000;
const REPEAT_MOST_MS = 8_000;

/** Whose calls these are, and how fleets and runners are reached. */
export interface Caller {
  readonly account: Account;
  /** One verb in one transaction, and what it owes. */
  run<T>(verb: (account: Account, now: number) => T): T;
  sync(pool: string, request: SyncRequest): Promise<SyncAnswer>;
  dispatch(order: DispatchOrder): Promise<executions.DispatchAnswer>;
}

/** The calls of an account object that wait for answers: its conversations with fleets and its dispatches (design section 6). */
export class Calls {
  readonly #caller: Caller;
  /** Conversations under way, by pool: `again` where something changed meanwhile. */
  readonly #syncing = new Map<string, { again: boolean }>();
  readonly #dispatching = new Set<string>();

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Says what there is to say, to each pool. */
  async sync(): Promise<void> {
    const { settings, links, store } = this.#caller.account;
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
        const { mustSettings, links, store } = this.#caller.account;
        const request = links.request(pool, store, mustSettings, Date.now());
        if (!request) return;
        try {
          const answer = await this.#caller.sync(pool, request);
          if (answer.send_full) state.again = true;
          this.#caller.run((account, now) => executions.syncAnswered(account, pool, answer, now));
        } catch (error) {
          links.of(pool).unanswered(request);
          log("warn", "sync_unanswered", { account: request.account, pool, reason: reasonOf(error) });
          this.#caller.run((account, now) => account.keepSyncing(now, SYNC_RETRY_MS));
          return;
        }
      } while (state.again);
    } finally {
      this.#syncing.delete(pool);
    }
  }

  /** Posts a placed execution to its runner until there is an answer or the repeats are over (design section 6, step 3). */
  async dispatch(job_id: string, fence: number): Promise<void> {
    const name = `${job_id}.${fence}`;
    if (this.#dispatching.has(name)) return;
    this.#dispatching.add(name);
    try {
      const until = Date.now() + DISPATCH_REPEAT_MS;
      for (let pause = REPEAT_FIRST_MS; Date.now() < until; pause = Math.min(pause * 2, REPEAT_MOST_MS)) {
        try {
          const order = this.#caller.run((account, now) => this.#orderOf(account, job_id, fence, now));
          if (!order) return;
          const answer = await this.#caller.dispatch(order);
          this.#caller.run((account, now) => executions.dispatchAnswered(account, job_id, fence, answer, now));
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
}
