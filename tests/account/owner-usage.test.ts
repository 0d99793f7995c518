import { describe, expect, test } from "vitest";
import { WINDOW_MS } from "../../schemas/limits.ts";
import { Account } from "../../worker/account/account.ts";
import { setSuspended, setTier } from "../../worker/account/administration.ts";
import { usageOf } from "../../worker/account/owner-usage.ts";
import { cancelStored, count, deleteJob } from "../../worker/account/requests.ts";
import { Rows } from "../../worker/account/rows.ts";
import { gpuTime } from "../../worker/account/usage.ts";
import {
  accepted,
  completed,
  ended,
  failed,
  handedBack,
  jobId,
  KEY,
  NOW,
  openAccount,
  OTHER_KEY,
  place,
  send,
  TIMES,
  withRunning,
} from "./fixture.ts";

const DAY_MS = 86_400_000;
const TODAY = "2026-01-15";
const TOMORROW = "2026-01-16";

const requests = (account: Account, n: number, now: number, key = KEY): void => {
  for (let i = 0; i < n; i++) count(account, key, now);
};
const rowsOf = (account: Account, now = NOW, days = 90) => usageOf(account, days, now).rows;
const row = (day: string, counts: { requests?: number; jobs?: number; gpu_ms?: number }, key_hash = KEY) => ({
  day,
  key_hash,
  requests: 0,
  jobs: 0,
  gpu_ms: 0,
  ...counts,
});

/** An account whose statements on the table of usage are counted. */
function watched() {
  const opened = openAccount("pro");
  let writes = 0;
  const rows = new Rows({
    databaseSize: 0,
    exec(query, ...bindings) {
      if (query.includes("INTO usage")) writes++;
      return opened.sql.exec(query, ...bindings);
    },
  });
  return { ...opened, account: new Account(rows), writes: () => writes };
}

describe("requests", () => {
  test("are counted by key and day, those refused by the rate limit or a suspension not", () => {
    const { account } = openAccount("free");
    requests(account, 80, NOW);
    requests(account, 3, NOW, OTHER_KEY);
    setSuspended(account, true, NOW);
    requests(account, 5, NOW + WINDOW_MS);
    setSuspended(account, false, NOW);
    expect(rowsOf(account)).toEqual([row(TODAY, { requests: 60 }), row(TODAY, { requests: 3 }, OTHER_KEY)]);
  });

  test("of many windows and days add up, and a window belongs to the day on which it opened", () => {
    const { account } = openAccount("free");
    const midnight = Date.UTC(2026, 0, 16);
    requests(account, 7, NOW);
    requests(account, 5, NOW + WINDOW_MS);
    requests(account, 1, midnight - 1);
    requests(account, 2, midnight + WINDOW_MS - 2);
    requests(account, 4, midnight + WINDOW_MS);
    expect(rowsOf(account, midnight + DAY_MS)).toEqual([row(TODAY, { requests: 15 }), row(TOMORROW, { requests: 4 })]);
  });

  test("are shown before they are written, and the same after it and after a restart", () => {
    const { account, restart } = openAccount("free");
    for (let minute = 0; minute < 3; minute++) requests(account, 10, NOW + minute * WINDOW_MS);
    expect(account.unwritten).toBe(true);
    const shown = rowsOf(account);
    expect(shown).toEqual([row(TODAY, { requests: 30 })]);
    account.writeBehind();
    expect(rowsOf(account)).toEqual(shown);
    const next = restart();
    expect(rowsOf(next)).toEqual(shown);
    requests(next, 1, NOW + 3 * WINDOW_MS);
    expect(rowsOf(next)).toEqual([row(TODAY, { requests: 31 })]);
  });

  test("are charged once, wherever a crash comes between window and write", () => {
    const { account, restart } = openAccount("free");
    requests(account, 10, NOW);
    account.writeBehind();
    // The next window opens, and the process dies before it is written.
    requests(account, 5, NOW + WINDOW_MS);
    const second = restart();
    requests(second, 5, NOW + WINDOW_MS + 500);
    second.writeBehind();
    requests(restart(), 2, NOW + WINDOW_MS + 800);
    expect(rowsOf(restart())).toEqual([row(TODAY, { requests: 15 })]);
  });

  test("of a transaction that fails are those of its windows", () => {
    const { account, sql } = openAccount("free");
    requests(account, 10, NOW);
    account.writeBehind();
    requests(account, 5, NOW + WINDOW_MS);
    expect(() =>
      sql.transaction(() => {
        account.writeBehind();
        throw new Error("stopped");
      }),
    ).toThrow("stopped");
    account.rolledBack();
    requests(account, 4, NOW + WINDOW_MS);
    expect(rowsOf(account)).toEqual([row(TODAY, { requests: 14 })]);
  });

  test("cost one row a window and key, in the write of the next window, and nothing else", () => {
    const { account, writes } = watched();
    for (let second = 0; second < 180; second++) {
      requests(account, 5, NOW + second * 1000);
      account.writeBehind();
      expect(writes()).toBe(Math.floor(second / 60));
    }
    expect(account.unwritten).toBe(false);
    expect(writes()).toBe(2);
    expect(rowsOf(account)).toEqual([row(TODAY, { requests: 900 })]);
  });
});

describe("jobs", () => {
  test("are counted where they are stored: refusals and repeats are not", () => {
    const { account, restart } = openAccount("free");
    for (let n = 1; n <= 9; n++) send(account, n);
    send(account, 1);
    send(account, 20, { key: OTHER_KEY, now: NOW + DAY_MS });
    expect(rowsOf(restart(), NOW + DAY_MS)).toEqual([
      row(TODAY, { requests: 9, jobs: 7 }),
      row(TOMORROW, { requests: 1, jobs: 1 }, OTHER_KEY),
    ]);
  });

  test("stay counted when they are gone", () => {
    const { account } = withRunning();
    ended(account, 1);
    deleteJob(account, OTHER_KEY, jobId(1), NOW);
    expect(rowsOf(account)[0]).toMatchObject({ key_hash: KEY, jobs: 1, gpu_ms: TIMES.execution_ms });
  });

  test("cost one row at their submission and one at their end", () => {
    const { account, writes } = watched();
    send(account, 1);
    expect(writes()).toBe(1);
    place(account, 1);
    accepted(account, 1);
    account.writeBehind();
    expect(writes()).toBe(1);
    ended(account, 1);
    expect(writes()).toBe(2);
  });
});

describe("GPU time", () => {
  const gpu = (account: Account, now = NOW) => rowsOf(account, now).map(({ day, gpu_ms }) => [day, gpu_ms]);

  test("is what an ended execution reported, charged once to the job's key on the day of its end", () => {
    const { account } = withRunning();
    for (const at of [DAY_MS, DAY_MS + 1]) ended(account, 1, 1, completed(), NOW + at);
    expect(gpu(account, NOW + DAY_MS)).toEqual([
      [TODAY, 0],
      [TOMORROW, TIMES.execution_ms],
    ]);
  });

  test("of executions that fail and are made again adds up", () => {
    const { account } = withRunning();
    ended(account, 1, 1, failed("engine_crashed"));
    place(account, 1, 2);
    ended(account, 1, 2, failed("engine_crashed"));
    place(account, 1, 3);
    ended(account, 1, 3, failed("execution_failed"));
    expect(gpu(account)).toEqual([[TODAY, 3 * TIMES.execution_ms]]);
  });

  test("of an execution that nobody wants, or that was handed back, is not charged", () => {
    const { account } = withRunning();
    ended(account, 1, 1, handedBack);
    place(account, 1, 2);
    accepted(account, 1, 2);
    cancelStored(account, jobId(1), NOW);
    expect(ended(account, 1, 2)).toBe("gone");
    expect(gpu(account)).toEqual([[TODAY, 0]]);
  });

  test("is no more than its job was allowed, whatever a runner says, and whole", () => {
    expect(gpuTime(1e300, 600)).toBe(600_000);
    expect(gpuTime(12.6, 600)).toBe(13);
    expect(gpuTime(0, 600)).toBe(0);
  });
});

describe("the days", () => {
  test("that are shown end today, are at most 90 and at least one", () => {
    const { account } = openAccount();
    const shown = (days: number) => {
      const { from, to } = usageOf(account, days, NOW);
      return [from, to];
    };
    expect(shown(1)).toEqual([TODAY, TODAY]);
    expect(shown(7)).toEqual(["2026-01-09", TODAY]);
    expect(shown(90)).toEqual(["2025-10-18", TODAY]);
    expect(shown(9999)).toEqual(["2025-10-18", TODAY]);
    expect(shown(0)).toEqual([TODAY, TODAY]);
    expect(shown(Number.NaN)).toEqual([TODAY, TODAY]);
  });

  test("before them are not shown, not even by a key's last window", () => {
    const { account } = openAccount();
    requests(account, 3, NOW);
    expect(rowsOf(account, NOW + DAY_MS, 1)).toEqual([]);
    expect(rowsOf(account, NOW + DAY_MS, 2)).toEqual([row(TODAY, { requests: 3 })]);
    expect(rowsOf(account, NOW + 90 * DAY_MS)).toEqual([]);
  });

  test("over 90 days ago are removed with later writes, a few at a time", () => {
    const { account, sql } = openAccount("enterprise");
    for (let day = 0; day < 100; day++) account.store.owner.addUsage(day, KEY, { requests: 1 });
    const stored = () => Number(sql.exec("SELECT COUNT(*) AS n FROM usage").toArray()[0]?.n);
    for (let n = 1; n <= 10; n++) {
      send(account, n);
      expect(stored()).toBe(100 - n * 10 + 1);
    }
    send(account, 11, { now: NOW + 90 * DAY_MS });
    expect(stored()).toBe(2);
    send(account, 12, { now: NOW + 91 * DAY_MS });
    expect(stored()).toBe(2);
    expect(rowsOf(account, NOW + 91 * DAY_MS)).toMatchObject([{ jobs: 1 }, { jobs: 1 }]);
  });
});

test("keys that have used something are named, revoked ones too", () => {
  const { account } = openAccount();
  setTier(account, "pro", NOW);
  requests(account, 1, NOW, OTHER_KEY);
  expect(usageOf(account, 1, NOW).keys).toEqual([{ key_hash: OTHER_KEY, prefix: "sk_live_bbbb", name: "two" }]);
});
