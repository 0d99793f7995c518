import { describe, expect, test } from "vitest";
import { RETRY_DELAYS_S } from "../../schemas/webhook.ts";
import type { Account } from "../../worker/account/account.ts";
import { setSuspended } from "../../worker/account/administration.ts";
import { beginDelivery, finishDelivery } from "../../worker/account/notifications.ts";
import { operatorView } from "../../worker/account/owner.ts";
import { pageOfDeliveries, redeliverFailed, redeliverOne, webhookOf } from "../../worker/account/owner-deliveries.ts";
import type { OwnerDeliveryFilter } from "../../worker/account/owner-types.ts";
import { deleteJob } from "../../worker/account/requests.ts";
import { Rows } from "../../worker/account/rows.ts";
import { redeliver } from "../../worker/account/webhook-requests.ts";
import { completed, ended, jobId, KEY, NOW, openAccount, owed, place, row, send } from "./fixture.ts";

const TARGET = "https://hooks.example:8443";
const URL = `${TARGET}/path?token=secret`;
const DAY_MS = 86_400_000;

/** Ends job `n`, which owes its webhook. */
function notify(account: Account, n: number, now = NOW, webhook_url = URL): void {
  send(account, n, { webhook_url, now });
  place(account, n, 1, now);
  ended(account, n, 1, completed(), now);
}

/** The next attempt of a delivery is made and answered. */
function attempt(account: Account, n: number, ok: boolean, now: number, round = 1): void {
  const begun = beginDelivery(account, jobId(n), round, now);
  if (begun.kind !== "granted") throw new Error(`Attempt of ${n}: ${begun.kind}`);
  const report = { attempt_id: "x", ok, status: ok ? 200 : 503, started_at: now, duration_ms: 40 };
  const seen = ok ? report : { ...report, failure: "http_5xx" as const, answer: "down" };
  finishDelivery(account, jobId(n), round, begun.n, seen, now);
}

/** Every attempt of a round fails; answers when the last was made. */
function fail(account: Account, n: number, now = NOW, round = 1): number {
  let at = now;
  attempt(account, n, false, at, round);
  for (const delay_s of RETRY_DELAYS_S) {
    at += delay_s * 1000;
    attempt(account, n, false, at, round);
  }
  return at;
}

const numbers = (account: Account, filter: OwnerDeliveryFilter = {}, limit = 100): number[] =>
  pageOfDeliveries(account, filter, limit).deliveries.map(({ job_id }) => Number(job_id.slice(-12)));
const rounds = (account: Account, ...jobs: number[]) =>
  jobs.map((n) => {
    const delivery = account.store.delivery(jobId(n));
    return `${delivery?.status} ${delivery?.round}`;
  });

/** Jobs 1 to 9, ended in this order: 1, 4, 7 delivered, 2, 5, 8 failed, 3, 6, 9 pending; job 50 has no webhook. */
function withHistory() {
  const opened = openAccount("pro");
  const { account } = opened;
  for (let n = 1; n <= 9; n++) notify(account, n, NOW + n);
  send(account, 50);
  place(account, 50);
  ended(account, 50);
  for (const n of [1, 4, 7]) attempt(account, n, true, NOW + 10);
  for (const n of [2, 5, 8]) fail(account, n, NOW + 20);
  owed(account);
  return opened;
}

describe("deliveries", () => {
  const filters: [OwnerDeliveryFilter, number[]][] = [
    [{}, [9, 8, 7, 6, 5, 4, 3, 2, 1]],
    [{ state: "delivered" }, [7, 4, 1]],
    [{ state: "failed" }, [8, 5, 2]],
    [{ state: "pending" }, [9, 6, 3]],
  ];
  test.each(filters)("of %j are listed by the end of their jobs, page by page, each once", (filter, expected) => {
    const { account, restart } = withHistory();
    for (const process of [account, restart()]) {
      for (const limit of [1, 2, 100]) {
        const seen: number[] = [];
        let before: number | undefined;
        for (let more = true; more; ) {
          const page = pageOfDeliveries(process, before === undefined ? filter : { ...filter, before }, limit);
          seen.push(...page.deliveries.map(({ job_id }) => Number(job_id.slice(-12))));
          before = page.deliveries.at(-1)?.event;
          more = page.has_more;
        }
        expect(seen).toEqual(expected);
      }
    }
  });

  test("show what became of them, and of the URL no more than the origin", () => {
    const { account } = openAccount("pro");
    notify(account, 1);
    notify(account, 2);
    attempt(account, 1, true, NOW + 7);
    const at = fail(account, 2, NOW + 8);
    const common = { target: TARGET, job_status: "completed", round: 1 };
    const { deliveries } = pageOfDeliveries(account, {}, 10);
    expect(deliveries).toEqual([
      {
        ...common,
        event: expect.any(Number),
        job_id: jobId(2),
        state: "failed",
        attempts: 4,
        last_status: 503,
        last_failure: "http_5xx",
        last_attempt_at: at,
      },
      {
        ...common,
        event: expect.any(Number),
        job_id: jobId(1),
        state: "delivered",
        attempts: 1,
        last_status: 200,
        last_attempt_at: NOW + 7,
      },
    ]);
  });

  test("say when the next attempt is due, and that one in flight is the latest", () => {
    const { account } = openAccount("pro");
    notify(account, 1);
    expect(pageOfDeliveries(account, {}, 1).deliveries[0]).toMatchObject({ attempts: 0, next_attempt_at: NOW });
    expect(pageOfDeliveries(account, {}, 1).deliveries[0]).not.toHaveProperty("last_attempt_at");
    beginDelivery(account, jobId(1), 1, NOW + 3);
    const [inFlight] = pageOfDeliveries(account, {}, 1).deliveries;
    expect(inFlight).toMatchObject({ attempts: 1, last_attempt_at: NOW + 3 });
    expect(inFlight).not.toHaveProperty("next_attempt_at");
  });

  test("of a deleted job are gone, and a row that can't be read stops no other", () => {
    const { account, sql } = withHistory();
    deleteJob(account, KEY, jobId(8), NOW);
    sql.exec("UPDATE deliveries SET body = '{' WHERE job_id = ?", jobId(6));
    sql.exec("UPDATE jobs SET body = '{' WHERE job_id = ?", jobId(5));
    const poisoned: unknown[] = [];
    const rows = new Rows(sql, ({ job_id }) => poisoned.push(job_id));
    expect(numbers(account)).toEqual([9, 7, 4, 3, 2, 1]);
    expect(rows.owner.deliveries({}, 10)).toHaveLength(6);
    expect(poisoned).toEqual([jobId(6), jobId(5)]);
  });
});

describe("redelivering one", () => {
  test("begins a fresh round once a request, and counts against no rate window", () => {
    const { account } = withHistory();
    const used = account.key(KEY)?.window.used;
    const which = { job_id: jobId(2), request: "r1" };
    expect(redeliverOne(account, which, NOW + 60_000)).toEqual({ kind: "reopened" });
    expect(redeliverOne(account, which, NOW + 60_001)).toEqual({ kind: "reopened" });
    expect(owed(account)).toEqual([{ kind: "deliver", job_id: jobId(2), round: 2, delay_s: 0 }]);
    expect(account.key(KEY)?.window.used).toBe(used);
    expect(redeliverOne(account, { ...which, request: "r2" }, NOW + 60_002)).toEqual({ kind: "not_redeliverable" });
  });

  test("is refused for what has not ended, has no webhook, or is not there", () => {
    const { account } = withHistory();
    send(account, 60, { webhook_url: URL });
    const kind = (n: number) => redeliverOne(account, { job_id: jobId(n), request: "r" }, NOW + 99_000).kind;
    expect([60, 50, 3, 70].map(kind)).toEqual([
      "not_redeliverable",
      "not_redeliverable",
      "not_redeliverable",
      "not_found",
    ]);
  });

  test("shares the ten a minute with API clients, and a suspended account has none", () => {
    const { account } = openAccount("pro");
    const at = NOW + 3_600_000;
    for (let n = 1; n <= 12; n++) {
      notify(account, n);
      attempt(account, n, true, NOW);
    }
    setSuspended(account, true, at);
    expect(redeliverOne(account, { job_id: jobId(1), request: "r" }, at)).toEqual({ kind: "account_suspended" });
    setSuspended(account, false, at);
    for (let n = 1; n <= 5; n++) {
      expect(redeliverOne(account, { job_id: jobId(n), request: "r" }, at + n)).toEqual({ kind: "reopened" });
      expect(redeliver(account, KEY, { job_id: jobId(n + 5), request: "r" }, at + n).value?.kind).toBe("reopened");
    }
    expect(redeliverOne(account, { job_id: jobId(11), request: "r" }, at + 9)).toEqual({
      kind: "too_many",
      reset_at: at + 1 + 60_000,
    });
    expect(redeliverOne(account, { job_id: jobId(11), request: "r" }, at + 1 + 60_000)).toEqual({ kind: "reopened" });
  });
});

describe("redelivering what has failed", () => {
  test("takes those whose jobs ended first, and says how many are left", () => {
    const { account, restart } = withHistory();
    const at = NOW + 60_000;
    expect(redeliverFailed(account, "r1", 2, at)).toEqual({ kind: "begun", begun: 2, left: 1 });
    expect(rounds(account, 1, 2, 3, 5, 8)).toEqual(["delivered 1", "pending 2", "pending 1", "pending 2", "failed 1"]);
    expect(owed(account)).toEqual([2, 5].map((n) => ({ kind: "deliver", job_id: jobId(n), round: 2, delay_s: 0 })));
    attempt(account, 2, true, at, 2);
    expect(numbers(restart(), { state: "failed" })).toEqual([8]);
  });

  test("begins no others where the same request comes again, whatever has happened meanwhile", () => {
    const { account, restart } = withHistory();
    const at = NOW + 60_000;
    redeliverFailed(account, "r1", 2, at);
    for (const n of [2, 5]) fail(account, n, at, 2);
    owed(account);
    for (const process of [account, restart()]) {
      expect(redeliverFailed(process, "r1", 100, at + 50_000)).toEqual({ kind: "begun", begun: 2, left: 3 });
      expect(owed(process)).toEqual([]);
    }
    expect(redeliverFailed(account, "r2", 100, at + 50_000)).toEqual({ kind: "begun", begun: 3, left: 0 });
    expect(rounds(account, 2, 5, 8)).toEqual(["pending 3", "pending 3", "pending 2"]);
  });

  test("counts as one of the ten a minute, unless there was nothing to begin", () => {
    const { account } = withHistory();
    const at = NOW + 60_000;
    expect(redeliverFailed(account, "first", 1, at)).toEqual({ kind: "begun", begun: 1, left: 2 });
    for (let n = 1; n <= 9; n++) {
      attempt(account, n === 1 ? 2 : 1, true, at, n === 1 ? 2 : n);
      expect(redeliverOne(account, { job_id: jobId(1), request: `r${n}` }, at)).toEqual({ kind: "reopened" });
    }
    expect(redeliverFailed(account, "second", 1, at)).toEqual({ kind: "too_many", reset_at: at + 60_000 });
    expect(redeliverFailed(account, "first", 1, at)).toEqual({ kind: "begun", begun: 1, left: 2 });
    expect(redeliverFailed(account, "second", 100, at + 60_000)).toEqual({ kind: "begun", begun: 2, left: 0 });
    for (let n = 0; n < 20; n++)
      expect(redeliverFailed(account, `none ${n}`, 100, at + 60_000)).toEqual({ kind: "begun", begun: 0, left: 0 });
  });

  test("takes at most 100 at a time, and of a suspended account none", () => {
    const { account } = openAccount("enterprise");
    const at = NOW + 3_600_000;
    for (let n = 1; n <= 102; n++) {
      notify(account, n, NOW + n * 60);
      fail(account, n, NOW + n * 60_000);
    }
    setSuspended(account, true, at);
    expect(redeliverFailed(account, "r", 100, at)).toEqual({ kind: "account_suspended" });
    setSuspended(account, false, at);
    expect(redeliverFailed(account, "r", 1_000, at)).toEqual({ kind: "begun", begun: 100, left: 2 });
    expect(numbers(account, { state: "failed" })).toEqual([102, 101]);
  });

  test("keeps a job's log to ten rounds", () => {
    const { account } = openAccount("pro");
    notify(account, 1);
    for (let round = 1; round <= 12; round++) {
      const at = NOW + round * 120_000;
      fail(account, 1, at, round);
      redeliverFailed(account, `r${round}`, 1, at + 60_000);
    }
    attempt(account, 1, true, NOW + DAY_MS, 13);
    const log = webhookOf(account, row(account, 1), NOW + DAY_MS)?.attempts ?? [];
    expect([...new Set(log.map(({ round }) => round))]).toEqual([4, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
  });
});

test("an operator is told how many have failed within a day", () => {
  const { account } = withHistory();
  expect(operatorView(account, NOW + 60_000)?.failed_deliveries).toBe(3);
  expect(operatorView(account, NOW + DAY_MS + 60_000)?.failed_deliveries).toBe(0);
});
