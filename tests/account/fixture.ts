import type { SubmissionOptions } from "../../schemas/job.ts";
import type { Tier } from "../../schemas/limits.ts";
import type { EndReport } from "../../schemas/runner-protocol.ts";
import { Account } from "../../worker/account/account.ts";
import { addKey, create } from "../../worker/account/administration.ts";
import { applyNews, dispatchAnswered, endExecution, syncAnswered } from "../../worker/account/executions.ts";
import type { Job, Reporter } from "../../worker/account/jobs.ts";
import { migrate } from "../../worker/account/migrations.ts";
import { submit } from "../../worker/account/requests.ts";
import { Rows } from "../../worker/account/rows.ts";
import type { TimerKind } from "../../worker/account/store.ts";
import { fire } from "../../worker/account/timers.ts";
import type { FleetNews, Placed, SyncRequest, Verdict } from "../../worker/fleet/sync.ts";
import { openSql, type TestSql } from "./sqlite.ts";

/** An account to test, and the words that fleet and runners say to it. */

export const NOW = Date.UTC(2026, 0, 15, 12);
export const ACCOUNT = "acc_00000000000000000000";
/** The account's own pool. */
export const HOME = "default";
export const SECRET = "5".repeat(64);
export const KEY = "key-one";
export const OTHER_KEY = "key-two";

export const jobId = (n: number): string => `01890a5d-ac96-774b-8000-${String(n).padStart(12, "0")}`;

export interface Opened {
  readonly account: Account;
  readonly sql: TestSql;
  /** The account as another process would find it: from its rows alone, and in a deployment with these pools. */
  restart(pools?: readonly string[]): Account;
}

/**
 * An account with two keys and nothing else.
 * @param pools those that its jobs may spill over to, besides its home
 */
export function openAccount(tier: Tier = "free", pools: readonly string[] = []): Opened {
  const sql = openSql();
  migrate(sql);
  const account = new Account(new Rows(sql), { pools });
  create(account, { account_id: ACCOUNT, tier, suspended: false, pool: HOME, webhook_secret: SECRET });
  addKey(account, { key_hash: KEY, prefix: "sk_live_aaaa", name: "one" }, NOW);
  addKey(account, { key_hash: OTHER_KEY, prefix: "sk_live_bbbb", name: "two" }, NOW);
  return { account, sql, restart: (now = pools) => new Account(new Rows(sql), { pools: now }) };
}

export interface Wish extends Partial<SubmissionOptions> {
  readonly key?: string;
  readonly webhook_url?: string;
  readonly now?: number;
  /** The prompt lies in R2. */
  readonly large?: boolean;
}

/** Submits job `n` as the Worker does. */
export function send(account: Account, n: number, wish: Wish = {}) {
  const { key = KEY, webhook_url, now = NOW, large = false, ...options } = wish;
  return submit(
    account,
    key,
    {
      job_id: jobId(n),
      needs: { classes: ["SaveImage"], models: [] },
      options: { timeout_s: 600, queue_timeout_s: 3600, priority: 0, ...options },
      ...(large ? {} : { prompt: "{}" }),
      ...(webhook_url === undefined ? {} : { webhook_url }),
    },
    now,
  );
}

/** Submits job 1 in a transaction that is taken back. */
export function sendInVain({ account, sql }: Opened): void {
  const stopped = new Error("stopped");
  try {
    sql.transaction(() => {
      send(account, 1);
      throw stopped;
    });
  } catch (error) {
    if (error !== stopped) throw error;
  }
  account.rolledBack();
}

/** Whether a submission was stored. */
export const isStored = ({ value }: ReturnType<typeof send>): boolean => value?.kind === "stored";

/** What is owed to others: effects since the last call, but for those that only wake who waits. */
export const owed = (account: Account) => account.takeEffects().filter(({ kind }) => kind !== "wake");

/** The job's row. */
export function row(account: Account, n: number): Job {
  const stored = account.store.job(jobId(n));
  if (!stored) throw new Error(`Job ${n} is not stored.`);
  return stored.job;
}

export const phases = (account: Account, ...numbers: number[]): string[] =>
  numbers.map((n) => account.store.job(jobId(n))?.job.phase ?? "gone");

export const RUNNER = "rnr_00000000000000000001";
/** Who reports an end: that runner of the account's own pool. */
export const BY: Reporter = { pool: HOME, runner: RUNNER };
export const seatOn = (n: number, fence: number, runner = RUNNER): Placed => ({
  job: jobId(n),
  fence,
  runner,
  boot: 3,
  url: `https://${runner.replaceAll("_", "-")}.example`,
  jkt: "thumbprint",
});

export const news = (part: Partial<FleetNews>): FleetNews => ({ placed: [], impossible: [], verdicts: [], ...part });
export const verdict = (n: number, fence: number, word: Verdict["verdict"]): FleetNews =>
  news({ verdicts: [{ job: jobId(n), fence, verdict: word }] });

export function place(account: Account, n: number, fence = 1, now = NOW): void {
  applyNews(account, HOME, news({ placed: [seatOn(n, fence)] }), now);
}

export const TIMES = { download_ms: 10, execution_ms: 200, upload_ms: 30 };
export const WORD = { beat: { boot: 3, n: 5 }, running_ms: 0 };
const PNG = {
  node_id: "9",
  filename: "a.png",
  kind: "image" as const,
  content_type: "image/png",
  size_bytes: 4,
  sha256: "0".repeat(64),
};

export const completed = (running_ms = 300): EndReport => ({
  ...WORD,
  running_ms,
  outcome: "completed",
  outputs: [PNG],
  times: TIMES,
});
export const failed = (code: "execution_failed" | "out_of_memory" | "stalled" | "engine_crashed"): EndReport => ({
  ...WORD,
  outcome: "failed",
  error: { code, message: "It failed.", node_id: "3" },
  times: TIMES,
});
export const handedBack: EndReport = { ...WORD, outcome: "handed_back" };

export const ended = (account: Account, n: number, fence = 1, report = completed(), now = NOW) =>
  endExecution(account, jobId(n), fence, BY, report, now);
export const accepted = (account: Account, n: number, fence = 1, now = NOW) =>
  dispatchAnswered(account, jobId(n), fence, { kind: "accepted", ...WORD }, now);
/** The next request to one fleet. */
export const said = (account: Account, now = NOW, pool = HOME) =>
  account.links.request(pool, account.store, account.mustSettings, now);

/** One job on a runner that has accepted it, with all that it owed by then taken. */
export function withRunning(wish: Wish = {}) {
  const opened = openAccount();
  send(opened.account, 1, wish);
  place(opened.account, 1);
  accepted(opened.account, 1);
  opened.account.writeBehind();
  owed(opened.account);
  said(opened.account);
  return opened;
}

/** The timer of that kind that is due first. */
export const timer = (account: Account, kind: TimerKind, ref?: string) =>
  account.store
    .dueTimers(Number.MAX_SAFE_INTEGER, 999)
    .find((one) => one.kind === kind && (ref === undefined || one.ref === ref));

/** Fires the timer of that kind at the moment when it is due. */
export function fires(account: Account, kind: TimerKind, ref?: string, now?: number): void {
  const due = timer(account, kind, ref);
  if (!due) throw new Error(`No ${kind} timer is set.`);
  fire(account, due, now ?? due.due_at);
}

/** Nothing new, and come back when you like. */
export const SILENCE = { ...news({}), epoch: 1, again_in_s: 5, send_full: false };

/**
 * One round of conversation with every pool, as the object has it: what was said, by pool, where anything was.
 * @param replies what the pools answer; nothing new, unless it is told here
 */
export function talk(account: Account, now: number, replies: Record<string, Partial<typeof SILENCE>> = {}) {
  const spoken: Record<string, SyncRequest> = {};
  for (const pool of account.links.pools(account.mustSettings, account.store)) {
    const request = said(account, now, pool);
    if (!request) continue;
    spoken[pool] = request;
    syncAnswered(account, pool, { ...SILENCE, ...replies[pool] }, now);
  }
  return spoken;
}
