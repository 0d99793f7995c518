import { describe, expect, test } from "vitest";
import { MIGRATIONS, migrate } from "../../worker/account/migrations.ts";
import { Rows } from "../../worker/account/rows.ts";
import { jobId, KEY, NOW, OTHER_KEY, openAccount, owed, place, row, send, sendInVain } from "./fixture.ts";
import { openSql } from "./sqlite.ts";

const applied = (sql: ReturnType<typeof openSql>) =>
  sql
    .exec("SELECT name FROM migrations ORDER BY name")
    .toArray()
    .map(({ name }) => name);
const FIRST = { name: "a", sql: ["CREATE TABLE a (x INTEGER)"] };
const SECOND = { name: "b", sql: ["CREATE TABLE b (x INTEGER)", "INSERT INTO b VALUES (1)"] };

/** Rows that remember how SQLite means to find what each query asks for. */
function explained(sql: ReturnType<typeof openSql>) {
  const plans = new Map<string, string>();
  const rows = new Rows({
    databaseSize: 0,
    exec(query, ...bindings) {
      const plan = sql.exec(`EXPLAIN QUERY PLAN ${query}`, ...bindings).toArray();
      plans.set(query, plan.map(({ detail }) => String(detail)).join("; "));
      return sql.exec(query, ...bindings);
    },
  });
  return { rows, plans };
}

describe("migrate", () => {
  test("run twice changes nothing and loses nothing", () => {
    const { account, sql } = openAccount();
    send(account, 1);
    const before = row(account, 1);
    migrate(sql);
    expect(row(account, 1)).toEqual(before);
    expect(applied(sql)).toEqual(MIGRATIONS.map(({ name }) => name));
  });

  test("runs what was added, once", () => {
    const sql = openSql();
    migrate(sql, [FIRST]);
    migrate(sql, [FIRST, SECOND]);
    migrate(sql, [FIRST, SECOND]);
    expect(applied(sql)).toEqual(["a", "b"]);
    expect(sql.exec("SELECT * FROM b").toArray()).toHaveLength(1);
  });

  test("throws where the text of an applied one has changed", () => {
    const sql = openSql();
    migrate(sql, [FIRST, SECOND]);
    const altered = { ...FIRST, sql: ["CREATE TABLE a (x TEXT)"] };
    expect(() => migrate(sql, [altered, SECOND])).toThrow("a was applied with another text");
  });

  test("accepts a database that is ahead of the code", () => {
    const sql = openSql();
    migrate(sql, [FIRST, SECOND]);
    migrate(sql, [FIRST]);
    expect(applied(sql)).toEqual(["a", "b"]);
  });

  test("puts the deliveries of an account that had no portal in the order of its ends", () => {
    const sql = openSql();
    migrate(sql, MIGRATIONS.slice(0, 2));
    for (const n of [1, 2, 3]) {
      sql.exec(
        `INSERT INTO jobs (job_id, key_hash, phase, status, created_at, priority, fresh, body)
         VALUES (?, ?, 'ended', 'failed', 1, 0, 1, '{}')`,
        jobId(n),
        KEY,
      );
    }
    for (const n of [3, 1]) {
      sql.exec("INSERT INTO events (job_id) VALUES (?)", jobId(n));
      const body = JSON.stringify({ job_id: jobId(n) });
      sql.exec("INSERT INTO deliveries (job_id, status, due_at, body) VALUES (?, 'failed', 1, ?)", jobId(n), body);
    }
    migrate(sql);
    const { owner } = new Rows(sql);
    expect(owner.oldestFailed(9).map(({ job_id }) => job_id)).toEqual([3, 1].map(jobId));
    expect(owner.deliveries({}, 9).map(({ delivery }) => delivery.job_id)).toEqual([1, 3].map(jobId));
    expect(new Rows(sql).page({ key_hash: KEY }, 9)).toHaveLength(3);
  });

  test("in a transaction that fails half-way leaves nothing behind", () => {
    const sql = openSql();
    const broken = { name: "b", sql: ["CREATE TABLE b (x INTEGER)", "NO SUCH WORDS"] };
    expect(() => sql.transaction(() => migrate(sql, [FIRST, broken]))).toThrow();
    sql.transaction(() => migrate(sql, [FIRST, SECOND]));
    expect(applied(sql)).toEqual(["a", "b"]);
  });
});

describe("rows", () => {
  test("give back a job as it was last put", () => {
    const { account, restart } = openAccount();
    send(account, 1, { metadata: { order: 7, words: ["ä", null] }, webhook_url: "https://hooks.example/a" });
    const job = { ...row(account, 1), stale: [{ fence: 1, retention: "d7" as const }], retries: { stalled: 1 } };
    account.store.putJob(job);
    expect(row(restart(), 1)).toEqual(job);
  });

  test("number jobs in the order of their submission and never use a number twice", () => {
    const { account } = openAccount();
    const seq = (n: number) => account.store.job(jobId(n))?.seq ?? 0;
    for (const n of [3, 1, 2]) send(account, n);
    expect(seq(3)).toBeLessThan(seq(1));
    expect(seq(1)).toBeLessThan(seq(2));
    const last = seq(2);
    account.store.deleteJob(jobId(2));
    send(account, 4);
    expect(seq(4)).toBeGreaterThan(last);
  });

  test("of a key leave out what it never had", () => {
    const { account } = openAccount();
    expect(account.store.key(KEY)).not.toHaveProperty("revoked_at");
    expect(account.store.key("no such key")).toBeUndefined();
    expect(account.store.keys()).toHaveLength(2);
  });

  test("of a job go with it, and no others", () => {
    const { account, sql } = openAccount();
    for (const n of [1, 2]) {
      send(account, n);
      account.store.putFiles(jobId(n), []);
      account.store.logAttempt(jobId(n), { round: 1, n: 1, at: NOW, ok: true, duration_ms: 1 });
    }
    account.store.deleteJob(jobId(1));
    for (const table of ["jobs", "prompts", "attempts"]) {
      expect(sql.exec(`SELECT job_id FROM ${table}`).toArray()).toEqual([{ job_id: jobId(2) }]);
    }
    expect(account.store.dueTimers(Number.MAX_SAFE_INTEGER, 9).map(({ ref }) => ref)).not.toContain(jobId(1));
  });

  test("say who of a key is promoted first, and who would yield first", () => {
    const { account } = openAccount("free");
    for (const [n, priority] of [3, 3, 0, 2, 2].entries()) send(account, n, { priority });
    send(account, 9, { priority: 2, key: OTHER_KEY });
    expect(account.store.firstWaiting(KEY)?.job_id).toBe(jobId(3));
    expect(account.store.weakestReady(KEY)?.job_id).toBe(jobId(1));
    place(account, 1);
    expect(account.store.weakestReady(KEY)?.job_id).toBe(jobId(0));
  });

  test("are found by an index, whatever an account's history", () => {
    const { account, sql } = openAccount();
    send(account, 1);
    const stored = account.store.job(jobId(1));
    const { rows, plans } = explained(sql);
    rows.use(KEY);
    rows.firstWaiting(KEY);
    rows.weakestReady(KEY);
    rows.inPhases(["ready", "placed"], 9);
    if (stored) rows.waitingBefore(stored);
    rows.page({}, 9);
    rows.page({ before: 7, status: "failed", created_after: NOW - 1, created_before: NOW + 1 }, 9);
    rows.lastCreatedAt();
    rows.deliveriesInFlight(NOW);
    rows.firstDeferred();
    rows.attempts(jobId(1));
    rows.eventOf(jobId(1));
    rows.events(0, 9);
    rows.dueTimers(NOW, 9);
    rows.earliestTimer();
    expect(plans.size).toBe(17);
    for (const [query, plan] of plans) expect.soft(plan, query).toMatch(/^SEARCH (?!.*SCAN)/);
  });

  test("that an owner looks up are found by an index, whatever an account's history", () => {
    const { sql } = openAccount();
    const { rows, plans } = explained(sql);
    const ask = (look: () => unknown): string[] => {
      plans.clear();
      look();
      return [...plans.values()];
    };
    const range = "seq>? AND seq<?";
    const open = "SEARCH jobs USING INDEX jobs_open (phase=? AND key_hash=?); USE TEMP B-TREE FOR ORDER BY";
    const ended = `SEARCH jobs USING INDEX jobs_ended (key_hash=? AND status=? AND ${range})`;
    const deliveries = [
      "SEARCH deliveries USING INDEX deliveries_status (status=? AND event<?)",
      "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (job_id=?)",
    ].join("; ");
    const byStatus = `SEARCH jobs USING INDEX jobs_status (status=? AND ${range})`;
    expect(ask(() => rows.page({ status: "failed" }, 9))).toEqual([byStatus]);
    for (const status of ["queued", "running"] as const)
      expect(ask(() => rows.page({ key_hash: KEY, status, before: 9 }, 9))).toEqual([open]);
    for (const status of ["completed", "failed", "cancelled"] as const)
      expect(ask(() => rows.page({ key_hash: KEY, status, before: 9 }, 9))).toEqual([ended]);
    expect(ask(() => rows.page({ key_hash: KEY }, 9))).toEqual([open, open, ended, ended, ended]);
    expect(ask(() => rows.owner.deliveries({ state: "failed", before: 9 }, 9))).toEqual([deliveries]);
    // The same query three times.
    expect(ask(() => rows.owner.deliveries({}, 9))).toEqual([deliveries]);
    expect(ask(() => rows.owner.openJobs())).toEqual(["SEARCH jobs USING COVERING INDEX jobs_open (phase=?)"]);
    expect(ask(() => rows.owner.oldestFailed(9))).toEqual([
      "SEARCH deliveries USING INDEX deliveries_status (status=? AND event>?)",
    ]);
    expect(ask(() => rows.owner.countFailed(NOW, 9))[0]).toContain(
      "SEARCH deliveries USING COVERING INDEX deliveries_failed (due_at>?)",
    );
    expect(ask(() => rows.owner.lastAttempt(jobId(1)))).toEqual(["SEARCH attempts USING PRIMARY KEY (job_id=?)"]);
    expect(ask(() => rows.owner.usage(1, 90))).toEqual(["SEARCH usage USING PRIMARY KEY (day>? AND day<?)"]);
    for (const plan of ask(() => rows.owner.forgetUsage(1, 9))) expect(plan).not.toMatch(/SCAN usage/);
    for (const plan of ask(() => rows.owner.addUsage(1, KEY, {}))) expect(plan).not.toMatch(/SCAN/);
  });

  test("of one transaction that fails are taken back together", () => {
    const opened = openAccount();
    sendInVain(opened);
    expect(new Rows(opened.sql).job(jobId(1))).toBeUndefined();
    expect(owed(opened.account)).toEqual([]);
  });
});
