import { describe, expect, test } from "vitest";
import { RETENTION_MS } from "../../schemas/limits.ts";
import type { Account } from "../../worker/account/account.ts";
import { endExecution } from "../../worker/account/executions.ts";
import { paid } from "../../worker/account/outbox.ts";
import { backoff } from "../../worker/account/timers.ts";
import {
  ACCOUNT,
  BY,
  completed,
  failed,
  fires,
  jobId,
  NOW,
  openAccount,
  owed,
  phases,
  place,
  row,
  send,
  timer,
  withRunning,
} from "./fixture.ts";

function ended(account: Account, n: number, report = completed()): void {
  place(account, n);
  endExecution(account, jobId(n), 1, BY, report, NOW);
}

describe("a job's timer", () => {
  test("ends a queued job at its queue_until and gives its slot to the next", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2, 3]) send(account, n, { queue_timeout_s: n === 3 ? 3600 : 60 });
    fires(account, "job", jobId(1));
    expect(row(account, 1).end).toMatchObject({ status: "failed", error: { code: "queue_timeout" }, at: NOW + 60_000 });
    expect(phases(account, 1, 2, 3)).toEqual(["ended", "ready", "ready"]);
  });

  test("that comes early is only set again", () => {
    const { account } = openAccount();
    send(account, 1);
    account.store.setTimer("job", jobId(1), NOW);
    const before = row(account, 1);
    fires(account, "job", jobId(1));
    expect(row(account, 1)).toEqual(before);
    expect(timer(account, "job", jobId(1))?.due_at).toBe(before.queue_until);
  });

  test("always stands while the job is open: nothing outlives its deadlines", () => {
    const { account } = openAccount();
    send(account, 1, { queue_timeout_s: 60 });
    place(account, 1);
    fires(account, "job", jobId(1));
    expect(phases(account, 1)).toEqual(["ready"]);
    fires(account, "job", jobId(1));
    expect(phases(account, 1)).toEqual(["ended"]);
    expect(timer(account, "job", jobId(1))?.due_at).toBe(row(account, 1).end?.expires_at);
  });

  test("removes an expired job with every row of it, and owes its outputs", () => {
    const { account } = openAccount("free");
    send(account, 1, { webhook_url: "https://hooks.example/a" });
    ended(account, 1);
    owed(account);
    expect(timer(account, "job", jobId(1))?.due_at).toBe(NOW + RETENTION_MS.d1);
    fires(account, "job", jobId(1));
    expect(account.store.job(jobId(1))).toBeUndefined();
    expect(account.store.files(jobId(1))).toEqual([]);
    expect(account.store.delivery(jobId(1))).toBeUndefined();
    expect(timer(account, "job", jobId(1))).toBeUndefined();
    expect(timer(account, "delivery")).toBeUndefined();
    owed(account);
    fires(account, "removal");
    expect(owed(account)).toMatchObject([
      { kind: "remove", removal: { what: "prefix", key: `o/d1/${ACCOUNT}/${jobId(1)}/1/` } },
    ]);
  });

  test("owes the outputs of a job that is deleted once more after its lease: a doubled upload may be on its way", () => {
    const { account } = withRunning();
    const { lease_until } = row(account, 1);
    endExecution(account, jobId(1), 1, BY, completed(), NOW);
    account.remove(row(account, 1), NOW + 1_000);
    owed(account);
    fires(account, "removal");
    expect(owed(account)).toMatchObject([{ kind: "remove", removal: { again_at: lease_until } }]);
  });

  test("owes nothing for an expired job that completed nothing", () => {
    const { account } = openAccount();
    send(account, 1, { queue_timeout_s: 1 });
    fires(account, "job", jobId(1));
    fires(account, "job", jobId(1));
    expect(account.store.job(jobId(1))).toBeUndefined();
    expect(timer(account, "removal")).toBeUndefined();
  });

  test("without its job is cleared", () => {
    const { account } = openAccount();
    account.store.setTimer("job", jobId(9), NOW);
    fires(account, "job", jobId(9));
    expect(account.store.earliestTimer()).toBeUndefined();
  });
});

describe("a removal's timer", () => {
  const losing = () => {
    const { account } = openAccount();
    send(account, 1);
    ended(account, 1, failed("execution_failed"));
    const [removal] = owed(account).flatMap((effect) => (effect.kind === "remove" ? [effect.removal] : []));
    if (!removal) throw new Error("No removal is owed.");
    return { account, removal };
  };

  test("asks again until the removal is confirmed, ever more rarely", () => {
    const { account, removal } = losing();
    const pauses: number[] = [];
    for (let i = 0; i < 3; i++) {
      const now = timer(account, "removal")?.due_at ?? 0;
      fires(account, "removal");
      expect(owed(account)).toEqual([{ kind: "remove", removal }]);
      pauses.push((timer(account, "removal")?.due_at ?? 0) - now);
    }
    expect(pauses).toEqual([30_000, 60_000, 120_000]);
  });

  test("stands once more after the last lease has expired, and is gone after that", () => {
    const { account, removal } = losing();
    expect(removal.again_at).toBe(row(account, 1).lease_until);
    paid(account.store, removal, NOW);
    expect(timer(account, "removal")?.due_at).toBe(removal.again_at);
    fires(account, "removal");
    const [effect] = owed(account);
    expect(effect).toEqual({ kind: "remove", removal: { what: "prefix", key: removal.key } });
    if (effect?.kind === "remove") paid(account.store, effect.removal, removal.again_at ?? 0);
    expect(timer(account, "removal")).toBeUndefined();
  });

  test("confirmed only after the lease's end does not stand again", () => {
    const { account, removal } = losing();
    paid(account.store, removal, removal.again_at ?? 0);
    expect(timer(account, "removal")).toBeUndefined();
  });
});

test("a delivery's timer without its delivery is cleared", () => {
  const { account } = openAccount();
  account.store.setTimer("delivery", jobId(9), NOW);
  fires(account, "delivery");
  expect(account.store.earliestTimer()).toBeUndefined();
});

test("a timer that failed comes back after 5 s, doubling, within an hour", () => {
  expect([0, 1, 2, 3].map((tries) => backoff(tries))).toEqual([5_000, 10_000, 20_000, 40_000]);
  expect(backoff(50)).toBe(3_600_000);
  expect(backoff(5_000)).toBe(3_600_000);
});

test("a timer that failed keeps its place and counts the failure", () => {
  const { account } = openAccount();
  account.store.setTimer("job", jobId(1), NOW);
  const due = timer(account, "job");
  if (due) account.store.postponeTimer(due, NOW + backoff(due.tries));
  expect(timer(account, "job")).toMatchObject({ due_at: NOW + 5_000, tries: 1 });
  account.store.setTimer("job", jobId(1), NOW + 9);
  expect(timer(account, "job")?.tries).toBe(0);
});

test("an alarm sees due timers only, oldest first, no more than it can take", () => {
  const { account } = openAccount();
  for (const n of [3, 1, 2, 4]) account.store.setTimer("job", jobId(n), NOW + n);
  expect(account.store.dueTimers(NOW + 3, 2).map(({ ref }) => ref)).toEqual([1, 2].map(jobId));
  expect(account.store.dueTimers(NOW, 9)).toEqual([]);
  expect(account.store.earliestTimer()).toBe(NOW + 1);
});
