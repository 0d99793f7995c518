import type { Account } from "../../worker/account/account.ts";
import {
  applyNews,
  type DispatchAnswer,
  dispatchAnswered,
  dispatchStillOpen,
  syncAnswered,
} from "../../worker/account/executions.ts";
import type { Placement } from "../../worker/account/jobs.ts";
import { promptKey, type Removal } from "../../worker/account/outbox.ts";
import type { FleetNews, SyncAnswer, SyncRequest } from "../../worker/fleet/sync.ts";
import { judgeNews, judgeRequest } from "./account-rules.ts";
import type { AccountDisk } from "./account-disk.ts";
import { holds } from "./violation.ts";
import { Broken } from "./world.ts";

/** What an account object can reach. */
export interface Reach {
  readonly pools: readonly string[];
  sync(pool: string, request: SyncRequest, answered: (answer: SyncAnswer | undefined) => void): void;
  dispatch(order: DispatchedOrder, answered: (answer: DispatchAnswer | undefined) => void): void;
  stop(account: string, job: string, fence: number, placement: Placement): void;
  send(account: string, job: string, round: number, delay_s: number): void;
  remove(removal: Removal, removed: () => void): void;
  hasPrompt(key: string): boolean;
}

export interface DispatchedOrder {
  readonly account: string;
  readonly job: string;
  readonly fence: number;
  readonly placement: Placement;
  readonly lease_until: number;
}

/** The node whose process calls. */
export interface Host {
  readonly id: string;
  readonly now: number;
  readonly ringing: boolean;
  readonly disk: AccountDisk;
  run<T>(verb: (account: Account, now: number) => T): T;
}

/** What a process keeps to itself, and what is not heard after its death. */
export interface Life {
  readonly account: Account;
  /** Whether this process is still the node's. */
  lives(): boolean;
  /** `run`, unless the process has died by then. */
  mine<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void;
  later(delay_ms: number, run: () => void): void;
}

/** As worker/account/calls.ts has them. */
const SYNC_RETRY_MS = 2_000;
const REPEAT_FIRST_MS = 1_000;
const REPEAT_MOST_MS = 8_000;

/** The calls of one process of an account that wait for answers: its conversations and its dispatches. */
export class AccountCalls {
  readonly #host: Host;
  readonly #life: Life;
  readonly #reach: Reach;
  readonly #syncing = new Map<string, { again: boolean }>();
  readonly #dispatching = new Set<string>();

  constructor(host: Host, life: Life, reach: Reach) {
    this.#host = host;
    this.#life = life;
    this.#reach = reach;
  }

  sync(): void {
    const { settings, links, store } = this.#life.account;
    if (settings) for (const pool of links.pools(settings, store)) this.#converse(pool);
  }

  /** A fleet's news of its own accord. */
  hears(pool: string, news: FleetNews): void {
    this.#apply(pool, news, (account, now) => applyNews(account, pool, news, now));
  }

  #apply(pool: string, news: FleetNews, verb: (account: Account, now: number) => void): void {
    this.#host.run((account, now) => {
      verb(account, now);
      judgeNews(this.#host, account, pool, news);
    });
  }

  /** Talks to one fleet, one request at a time; what changes meanwhile goes with the next. */
  #converse(pool: string): void {
    const underWay = this.#syncing.get(pool);
    if (underWay) {
      underWay.again = true;
      return;
    }
    const { links, store, mustSettings } = this.#life.account;
    const request = links.request(pool, store, mustSettings, this.#host.now);
    if (!request) return;
    judgeRequest(request);
    const state = { again: false };
    this.#syncing.set(pool, state);
    const answered = this.#life.mine((answer: SyncAnswer | undefined) => {
      holds(this.#syncing.get(pool) === state, "one sync is under way an account and pool", () => pool);
      this.#syncing.delete(pool);
      try {
        if (!answer) throw new Broken("not answered");
        this.#apply(pool, answer, (account, now) => syncAnswered(account, pool, answer, now));
      } catch (error) {
        if (!(error instanceof Broken) || !this.#life.lives()) throw error;
        links.of(pool).unanswered(request);
        this.#host.run((account, now) => account.keepSyncing(now, SYNC_RETRY_MS));
        return;
      }
      if (this.#life.lives() && (answer.send_full || state.again)) this.#converse(pool);
    });
    this.#reach.sync(pool, request, answered);
  }

  /** Posts a placed execution to its runner until there is an answer or the repeats are over. */
  dispatch(job_id: string, fence: number): void {
    const name = `${job_id}.${fence}`;
    if (this.#dispatching.has(name)) return;
    this.#dispatching.add(name);
    const done = () => this.#dispatching.delete(name);
    const again = (pause: number) => this.#life.later(pause, () => post(Math.min(pause * 2, REPEAT_MOST_MS)));
    /** A transaction that fails ends no repeating: the runner may have it. */
    const orAgain = (pause: number, work: () => void) => {
      try {
        work();
      } catch (error) {
        if (!(error instanceof Broken) || !this.#life.lives()) throw error;
        again(pause);
      }
    };
    const post = this.#life.mine((pause: number) =>
      orAgain(pause, () => {
        const order = this.#orderOf(job_id, fence);
        if (!order) {
          done();
          return;
        }
        const answered = this.#life.mine((answer: DispatchAnswer = { kind: "unknown", reason: "time-out" }) =>
          orAgain(pause, () => {
            this.#host.run((account, now) => dispatchAnswered(account, job_id, fence, answer, now));
            if (answer.kind === "unknown") again(pause);
            else done();
          }),
        );
        this.#reach.dispatch(order, answered);
      }),
    );
    // The first posting follows the transaction whose effect it is.
    this.#life.later(0, () => post(REPEAT_FIRST_MS));
  }

  #orderOf(job_id: string, fence: number): DispatchedOrder | undefined {
    const { id, disk } = this.#host;
    const job = this.#host.run((account, now) => dispatchStillOpen(account, job_id, fence, now));
    if (!job?.placement || job.lease_until === undefined) return undefined;
    const { placement, lease_until, prompt_in } = job;
    const inRow = () => disk.rows.prompt(job_id) !== undefined;
    const found = prompt_in === "row" ? inRow() : this.#reach.hasPrompt(promptKey(id, job_id));
    holds(found, "an open job has its prompt", () => job_id);
    return { account: id, job: job_id, fence, placement, lease_until };
  }
}
