import { expect, test } from "vitest";
import { Rows } from "../../worker/account/rows.ts";
import { addKey } from "../../worker/account/administration.ts";
import { ended, jobId, KEY, NOW, openAccount, OTHER_KEY, place, send } from "./fixture.ts";

/** Which of an account's jobs ask for a seat first. */

const numbers = (store: Rows | ReturnType<typeof openAccount>["account"]["store"], limit = 99) =>
  store.nextReady(limit).map(({ job_id }) => Number(job_id.slice(-12)));

test("within a key the higher priority goes first, then the older job", () => {
  const { account } = openAccount("pro");
  for (const [n, priority] of [0, 5, -1, 5, 0].entries()) send(account, n, { priority });
  expect(numbers(account.store)).toEqual([1, 3, 0, 4, 2]);
});

test("keys take turns, the key of the older job first in each", () => {
  const { account } = openAccount("pro");
  for (const n of [1, 2, 3]) send(account, n);
  for (const n of [4, 5]) send(account, n, { key: OTHER_KEY });
  expect(numbers(account.store)).toEqual([1, 4, 2, 5, 3]);
});

test("one key's priorities do not hold up another key's jobs", () => {
  const { account } = openAccount("pro");
  for (const n of [1, 2, 3]) send(account, n, { priority: 10 });
  send(account, 4, { key: OTHER_KEY, priority: -10 });
  expect(numbers(account.store)).toEqual([1, 4, 2, 3]);
});

test("the bound cuts off the last turns, so that every key has its share of it", () => {
  const { account } = openAccount("enterprise");
  for (let n = 1; n <= 50; n++) send(account, n);
  addKey(account, { key_hash: "key-three", prefix: "sk_live_cccc", name: "three" }, NOW);
  for (let n = 51; n <= 53; n++) send(account, n, { key: OTHER_KEY });
  send(account, 54, { key: "key-three" });
  expect(numbers(account.store, 4)).toEqual([1, 51, 54, 2]);
  expect(numbers(account.store, 9)).toEqual([1, 51, 54, 2, 52, 3, 53, 4, 5]);
  expect(numbers(account.store, 64)).toHaveLength(54);
});

test("only ready jobs count: none that waits, is placed, runs or has ended", () => {
  const { account } = openAccount("free");
  for (let n = 1; n <= 4; n++) send(account, n);
  place(account, 1);
  expect(numbers(account.store)).toEqual([2]);
  ended(account, 1);
  expect(numbers(account.store)).toEqual([2, 3]);
});

test("a job that comes back from an attempt has its old place again", () => {
  const { account } = openAccount("pro");
  for (const n of [1, 2]) send(account, n);
  place(account, 1);
  ended(account, 1, 1, { beat: { boot: 3, n: 5 }, running_ms: 0, outcome: "handed_back" });
  expect(numbers(account.store)).toEqual([1, 2]);
});

test("a row that can't be read is passed over", () => {
  const { account, sql } = openAccount("pro");
  for (const n of [1, 2]) send(account, n);
  sql.exec("UPDATE jobs SET body = '{' WHERE job_id = ?", jobId(1));
  const poisoned: unknown[] = [];
  expect(numbers(new Rows(sql, ({ job_id }) => poisoned.push(job_id)))).toEqual([2]);
  expect(poisoned).toEqual([jobId(1)]);
});

test("they are found by an index, and bodies are read of those that are taken only", () => {
  const { account, sql } = openAccount("pro");
  send(account, 1, { key: KEY });
  const plans: string[] = [];
  const rows = new Rows({
    databaseSize: 0,
    exec(query, ...bindings) {
      const plan = sql.exec(`EXPLAIN QUERY PLAN ${query}`, ...bindings).toArray();
      plans.push(...plan.map(({ detail }) => String(detail)));
      return sql.exec(query, ...bindings);
    },
  });
  rows.nextReady(9);
  expect(plans.some((plan) => /^SEARCH jobs USING (COVERING )?INDEX jobs_open \(phase=\?\)/.test(plan))).toBe(true);
  expect(plans.some((plan) => /^SEARCH jobs USING INTEGER PRIMARY KEY/.test(plan))).toBe(true);
  expect(plans.filter((plan) => /^SCAN jobs/.test(plan))).toEqual([]);
});
