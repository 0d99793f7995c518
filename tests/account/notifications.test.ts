import { describe, expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { endExecution } from "../../worker/account/executions.ts";
import { beginDelivery, currentDelivery, finishDelivery } from "../../worker/account/notifications.ts";
import { deleteJob } from "../../worker/account/requests.ts";
import { fire } from "../../worker/account/timers.ts";
import { BY, completed, jobId, KEY, NOW, openAccount, owed, place, row, SECRET, send } from "./fixture.ts";

/** What webhooks/courier.ts does with a message, over the rows. */

const URL = "https://hooks.example/a";
const FAILED = {
  attempt_id: "first",
  ok: false,
  status: 503,
  failure: "http_5xx",
  started_at: NOW,
  duration_ms: 40,
  answer: "down",
} as const;

const OK = { attempt_id: "third", ok: true, status: 200, started_at: NOW, duration_ms: 1 } as const;

/** Ends job `n`, which owes its webhook. */
function notify(account: Account, n: number, now = NOW): void {
  send(account, n, { webhook_url: URL, now });
  place(account, n, 1, now);
  endExecution(account, jobId(n), 1, BY, completed(), now);
}

const begun = (account: Account, n: number, now = NOW, round = 1) => beginDelivery(account, jobId(n), round, now);
const sweepTimer = (account: Account, n: number) =>
  account.store
    .dueTimers(Number.MAX_SAFE_INTEGER, 999)
    .find(({ kind, ref }) => kind === "delivery" && ref === jobId(n));

test("a message gets URL, secret and record of the ended job, once", () => {
  const { account } = openAccount();
  notify(account, 1);
  expect(begun(account, 1)).toMatchObject({
    kind: "granted",
    n: 1,
    url: URL,
    secrets: [SECRET],
    view: { record: { job_id: jobId(1), status: "completed" } },
  });
  expect(begun(account, 1)).toEqual({ kind: "done" });
});

test("a message of another round, or of a job without a webhook, does nothing", () => {
  const { account } = openAccount();
  notify(account, 1);
  send(account, 2);
  expect(begun(account, 1, NOW, 2)).toEqual({ kind: "done" });
  expect(begun(account, 2)).toEqual({ kind: "done" });
  expect(begun(account, 3)).toEqual({ kind: "done" });
  expect(account.store.delivery(jobId(1))?.n).toBe(0);
});

test("begin moves the sweep to the end of its claim and 5 s, a failure to the next due time and 20 s", () => {
  const { account } = openAccount();
  notify(account, 1);
  expect(sweepTimer(account, 1)?.due_at).toBe(NOW + 20_000);
  begun(account, 1, NOW + 100);
  expect(sweepTimer(account, 1)?.due_at).toBe(NOW + 100 + 20_000);
  owed(account);
  finishDelivery(account, jobId(1), 1, 1, FAILED, NOW + 300);
  expect(owed(account)).toEqual([{ kind: "deliver", job_id: jobId(1), round: 1, delay_s: 1 }]);
  expect(sweepTimer(account, 1)?.due_at).toBe(NOW + 300 + 1_000 + 20_000);
});

test("a success ends the round, its timer and every later message", () => {
  const { account } = openAccount();
  notify(account, 1);
  begun(account, 1);
  const ok = { attempt_id: "second", ok: true, status: 200, started_at: NOW, duration_ms: 12 };
  owed(account);
  finishDelivery(account, jobId(1), 1, 1, ok, NOW);
  expect(owed(account)).toEqual([]);
  expect(account.store.delivery(jobId(1))).toMatchObject({ status: "delivered", n: 1 });
  expect(sweepTimer(account, 1)).toBeUndefined();
  expect(begun(account, 1, NOW + 1)).toEqual({ kind: "done" });
  finishDelivery(account, jobId(1), 1, 1, FAILED, NOW);
  expect(account.store.delivery(jobId(1))?.status).toBe("delivered");
});

test("a round in which every message is lost is driven by its sweep alone, and ends", () => {
  const { account } = openAccount();
  notify(account, 1);
  owed(account);
  let sent = 0;
  for (let timer = sweepTimer(account, 1); timer; timer = sweepTimer(account, 1)) {
    fire(account, timer, timer.due_at);
    sent += owed(account).filter(({ kind }) => kind === "deliver").length;
    if (sent > 10) break;
    // Only every second message arrives, and no attempt is ever finished.
    if (sent % 2 === 0) begun(account, 1, account.store.delivery(jobId(1))?.due_at);
  }
  expect(account.store.delivery(jobId(1))).toMatchObject({ status: "failed", n: 4 });
});

describe("with 50 deliveries of the account in flight", () => {
  const crowded = (): Account => crowdedWithSql().account;

  function crowdedWithSql() {
    const { account, sql } = openAccount("enterprise");
    for (let n = 1; n <= 53; n++) notify(account, n, NOW + n);
    for (let n = 1; n <= 50; n++) expect(begun(account, n, NOW + 100).kind).toBe("granted");
    owed(account);
    return { account, sql };
  }

  test("another one waits, and that is no attempt", () => {
    const account = crowded();
    expect(begun(account, 53, NOW + 101)).toEqual({ kind: "done" });
    expect(account.store.delivery(jobId(53))).toMatchObject({ status: "pending", n: 0 });
    expect(row(account, 53).end?.status).toBe("completed");
  });

  test("each one that finishes sends the one that has waited longest", () => {
    const account = crowded();
    for (const n of [51, 52]) expect(begun(account, n, NOW + 150)).toEqual({ kind: "done" });
    for (const [done, next] of [
      [7, 51],
      [8, 52],
    ] as const) {
      finishDelivery(account, jobId(done), 1, 1, OK, NOW + 200);
      expect(owed(account)).toEqual([{ kind: "deliver", job_id: jobId(next), round: 1, delay_s: 0 }]);
      expect(begun(account, next, NOW + 201).kind).toBe("granted");
    }
    expect(begun(account, 53, NOW + 202)).toEqual({ kind: "done" });
  });

  test("a claim that ran out counts no more", () => {
    const account = crowded();
    expect(begun(account, 53, NOW + 100 + 15_000).kind).toBe("granted");
  });

  test("two that finish before either message is heard send two different ones", () => {
    const account = crowded();
    for (const n of [51, 52, 53]) begun(account, n, NOW + 150);
    finishDelivery(account, jobId(1), 1, 1, OK, NOW + 200);
    finishDelivery(account, jobId(2), 1, 1, OK, NOW + 201);
    const sent = owed(account).flatMap((effect) => (effect.kind === "deliver" ? [effect.job_id] : []));
    expect(sent).toEqual([jobId(51), jobId(52)]);
  });

  test("a place that is kept for one that was called is taken: no other gets it", () => {
    const account = crowded();
    for (const n of [51, 52]) begun(account, n, NOW + 150);
    finishDelivery(account, jobId(1), 1, 1, OK, NOW + 200);
    expect(begun(account, 53, NOW + 201)).toEqual({ kind: "done" });
    expect(begun(account, 52, NOW + 202)).toEqual({ kind: "done" });
    expect(begun(account, 51, NOW + 203).kind).toBe("granted");
  });

  test("one that is called and does not come is sent for again, and keeps its place", () => {
    const account = crowded();
    begun(account, 51, NOW + 150);
    finishDelivery(account, jobId(1), 1, 1, OK, NOW + 200);
    owed(account);
    const timer = sweepTimer(account, 51);
    if (!timer) throw new Error("No sweep stands.");
    expect(timer.due_at).toBe(NOW + 200 + 20_000);
    fire(account, timer, timer.due_at);
    expect(owed(account)).toContainEqual({ kind: "deliver", job_id: jobId(51), round: 1, delay_s: 0 });
    expect(begun(account, 51, timer.due_at + 10).kind).toBe("granted");
  });

  test("places that a deletion frees are given to those who wait", () => {
    const account = crowded();
    for (const n of [51, 52, 53]) begun(account, n, NOW + 150);
    for (const n of [3, 4]) deleteJob(account, KEY, jobId(n), NOW + 200);
    const sent = owed(account).flatMap((effect) => (effect.kind === "deliver" ? [effect.job_id] : []));
    expect(sent).toEqual([jobId(51), jobId(52)]);
  });

  test("one that can't be read holds up nobody", () => {
    const { account, sql } = crowdedWithSql();
    for (const n of [51, 52]) begun(account, n, NOW + 150);
    sql.exec("UPDATE deliveries SET body = '{' WHERE job_id = ?", jobId(51));
    finishDelivery(account, jobId(1), 1, 1, OK, NOW + 200);
    expect(owed(account)).toEqual([{ kind: "deliver", job_id: jobId(52), round: 1, delay_s: 0 }]);
  });
});

test("whoever looks at a delivery whose claim ran out owes its next message", () => {
  const { account } = openAccount();
  notify(account, 1);
  begun(account, 1);
  owed(account);
  expect(currentDelivery(account, jobId(1), NOW + 15_500)).toMatchObject({ n: 1, last_failure: "claim_expired" });
  expect(owed(account)).toEqual([{ kind: "deliver", job_id: jobId(1), round: 1, delay_s: 1 }]);
  expect(sweepTimer(account, 1)?.due_at).toBe(NOW + 16_000 + 20_000);
});

test("a delivery without its job is forgotten by its sweep", () => {
  const { account, sql } = openAccount();
  notify(account, 1);
  owed(account);
  sql.exec("DELETE FROM jobs");
  const timer = sweepTimer(account, 1);
  if (!timer) throw new Error("No sweep stands.");
  fire(account, timer, timer.due_at);
  expect(owed(account)).toEqual([]);
  expect(account.store.delivery(jobId(1))).toBeUndefined();
  expect(sweepTimer(account, 1)).toBeUndefined();
});

describe("the log", () => {
  const log = (account: Account) => account.store.attempts(jobId(1)).map(({ n, failure, ok }) => [n, failure ?? ok]);

  test("has a row for an attempt whose claim ran out, and the truth when that comes late", () => {
    const { account } = openAccount();
    notify(account, 1);
    begun(account, 1);
    const timer = sweepTimer(account, 1);
    if (!timer) throw new Error("No sweep stands.");
    fire(account, timer, timer.due_at);
    expect(account.store.attempts(jobId(1))).toEqual([
      { round: 1, n: 1, at: NOW, ok: false, failure: "claim_expired", duration_ms: 15_000 },
    ]);
    owed(account);
    finishDelivery(account, jobId(1), 1, 1, FAILED, NOW + 40_000);
    // The sweep has sent a message by then.
    expect(owed(account)).toEqual([]);
    expect(log(account)).toEqual([[1, "http_5xx"]]);
    begun(account, 1, NOW + 41_000);
    finishDelivery(account, jobId(1), 1, 2, OK, NOW + 41_050);
    expect(log(account)).toEqual([
      [1, "http_5xx"],
      [2, true],
    ]);
  });

  test("says so too where a message comes before the sweep", () => {
    const { account } = openAccount();
    notify(account, 1);
    begun(account, 1);
    expect(begun(account, 1, NOW + 16_500)).toMatchObject({ kind: "granted", n: 2 });
    expect(log(account)).toEqual([[1, "claim_expired"]]);
  });
});
