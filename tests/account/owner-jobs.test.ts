import { describe, expect, test } from "vitest";
import { setSuspended } from "../../worker/account/administration.ts";
import { detailOfJob, pageOfJobs } from "../../worker/account/owner-jobs.ts";
import type { OwnerJobFilter } from "../../worker/account/owner-types.ts";
import { cancelStored, getJob } from "../../worker/account/requests.ts";
import type { Account } from "../../worker/account/account.ts";
import {
  accepted,
  completed,
  ended,
  failed,
  jobId,
  KEY,
  NOW,
  openAccount,
  OTHER_KEY,
  owed,
  place,
  SECRET,
  send,
  withRunning,
} from "./fixture.ts";

const WEBHOOK = "https://hooks.example:8443/path?token=secret";

/** Jobs 1 to 8 of two keys in turn: completed, failed, cancelled, running, placed and not placed. */
function withHistory() {
  const opened = openAccount("pro");
  const { account } = opened;
  for (let n = 1; n <= 8; n++) send(account, n, { key: n % 2 === 1 ? KEY : OTHER_KEY, now: NOW + n });
  for (const n of [1, 2, 3, 4, 7, 8]) place(account, n);
  for (const n of [1, 2, 3, 4, 7]) accepted(account, n);
  for (const n of [1, 2]) ended(account, n);
  for (const n of [3, 4]) ended(account, n, 1, failed("execution_failed"));
  for (const n of [5, 6]) cancelStored(account, n === 5 ? jobId(5) : jobId(6), NOW);
  return opened;
}

/** The numbers of all jobs, page by page. */
function walk(account: Account, filter: OwnerJobFilter, limit: number): number[] {
  const seen: number[] = [];
  let before: number | undefined;
  for (let more = true; more; ) {
    const page = pageOfJobs(account, before === undefined ? filter : { ...filter, before }, limit);
    seen.push(...page.jobs.map(({ record }) => Number(record.job_id.slice(-12))));
    before = page.jobs.at(-1)?.seq;
    more = page.has_more;
  }
  return seen;
}

describe("jobs", () => {
  const newest = [8, 7, 6, 5, 4, 3, 2, 1];
  const filters: [OwnerJobFilter, number[]][] = [
    [{}, newest],
    [{ key_hash: KEY }, [7, 5, 3, 1]],
    [{ key_hash: OTHER_KEY }, [8, 6, 4, 2]],
    [{ key_hash: "hash-none" }, []],
    [{ status: "failed" }, [4, 3]],
    [{ status: "queued", key_hash: OTHER_KEY }, [8]],
    [{ status: "running", key_hash: KEY }, [7]],
    [{ status: "completed", key_hash: KEY }, [1]],
    [{ status: "failed", key_hash: KEY }, [3]],
    [{ status: "cancelled", key_hash: OTHER_KEY }, [6]],
    [{ status: "running", key_hash: OTHER_KEY }, []],
  ];
  test.each(filters)("of %j are listed newest first, page by page, each once", (filter, expected) => {
    const { account, restart } = withHistory();
    account.writeBehind();
    for (const limit of [1, 3, 100]) expect(walk(account, filter, limit)).toEqual(expected);
    expect(walk(restart(), filter, 2)).toEqual(expected);
  });

  test("are records with the hash of their key, and count no request", () => {
    const { account } = withHistory();
    const used = account.key(KEY)?.window.used;
    const [job] = pageOfJobs(account, { key_hash: KEY, status: "completed" }, 10).jobs;
    expect(account.key(KEY)?.window.used).toBe(used);
    expect(job).toEqual({ ...getJob(account, OTHER_KEY, jobId(1), NOW).value, key_hash: KEY });
  });

  test("come at most 100 at a time and at least one", () => {
    const { account } = openAccount("enterprise");
    for (let n = 1; n <= 101; n++) send(account, n);
    const lengths = [0, -5, 1.5, Number.NaN, 100, 1e9].map((limit) => pageOfJobs(account, {}, limit).jobs.length);
    expect(lengths).toEqual([1, 1, 1, 1, 100, 100]);
  });

  test("show an acceptance that was not written yet as running, and write it", () => {
    const { account, restart } = openAccount();
    send(account, 1);
    place(account, 1);
    accepted(account, 1);
    expect(pageOfJobs(account, { status: "running" }, 10).jobs).toHaveLength(1);
    expect(pageOfJobs(restart(), { status: "running", key_hash: KEY }, 10).jobs).toHaveLength(1);
  });
});

describe("one job", () => {
  test("that waits shows its prompt, its options and its deadline", () => {
    const { account } = openAccount();
    send(account, 1, { timeout_s: 30, queue_timeout_s: 60, priority: 2, metadata: { order: 7 } });
    const detail = detailOfJob(account, jobId(1), NOW);
    expect(detail).toMatchObject({
      key_hash: KEY,
      key: { prefix: "sk_live_aaaa", name: "one" },
      record: { job_id: jobId(1), status: "queued", metadata: { order: 7 } },
      prompt: { in: "row", text: "{}" },
      options: { timeout_s: 30, queue_timeout_s: 60, priority: 2 },
    });
    expect(detail?.timeline).toEqual({
      created_at: NOW,
      queue_until: NOW + 60_000,
      placements: 0,
      losses: 0,
      handbacks: 0,
      retries: {},
    });
    expect(detail).not.toHaveProperty("webhook");
  });

  test("with a large prompt says that it lies in R2", () => {
    const { account } = openAccount();
    send(account, 1, { large: true });
    expect(detailOfJob(account, jobId(1), NOW)?.prompt).toEqual({ in: "r2" });
    cancelStored(account, jobId(1), NOW);
    expect(detailOfJob(account, jobId(1), NOW)?.prompt).toEqual({ in: "gone" });
  });

  test("that runs shows when it was placed, started and must be over", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1, 1, NOW + 5);
    accepted(account, 1, 1, NOW + 9);
    expect(detailOfJob(account, jobId(1), NOW + 9)?.timeline).toMatchObject({
      placed_at: NOW + 5,
      started_at: NOW + 9,
      lease_until: NOW + 5 + 600_000 + 900_000,
      placements: 1,
    });
  });

  test("that is tried again says why", () => {
    const { account } = withRunning();
    ended(account, 1, 1, failed("stalled"), NOW + 10);
    expect(detailOfJob(account, jobId(1), NOW + 10)).toMatchObject({
      record: { status: "queued", attempt: 2 },
      timeline: {
        losses: 1,
        retries: { stalled: 1 },
        last_error: { code: "stalled" },
        queue_until: NOW + 10 + 3_600_000,
      },
    });
  });

  test("that has ended shows its delivery, and of its URL no more than the origin", () => {
    const { account } = withRunning({ webhook_url: WEBHOOK });
    expect(detailOfJob(account, jobId(1), NOW)?.webhook).toEqual({
      target: "https://hooks.example:8443",
      attempts: [],
    });
    ended(account, 1, 1, completed(), NOW + 50);
    const detail = detailOfJob(account, jobId(1), NOW + 50);
    expect(detail).toMatchObject({
      prompt: { in: "gone" },
      timeline: { ended_at: NOW + 50, expires_at: NOW + 50 + 86_400_000 },
      webhook: { target: "https://hooks.example:8443", delivery: { status: "pending", round: 1 } },
      outputs: { files: [{ filename: "a.png" }] },
    });
    expect(detail?.timeline).not.toHaveProperty("queue_until");
    const text = JSON.stringify(detail);
    expect(text).not.toContain("token=secret");
    expect(text).not.toContain(SECRET);
    expect(text).not.toContain("thumbprint");
  });

  test("that there is none of is null", () => {
    expect(detailOfJob(openAccount().account, jobId(1), NOW)).toBeNull();
  });
});

describe("an owner's cancel", () => {
  test("ends the job at once, tells its runner, and is the same again", () => {
    const { account } = withRunning();
    setSuspended(account, true, NOW);
    owed(account);
    expect(cancelStored(account, jobId(1), NOW + 1)?.record.status).toBe("cancelled");
    expect(owed(account).map(({ kind }) => kind)).toContain("stop");
    const again = cancelStored(account, jobId(1), NOW + 9);
    expect(again?.record).toMatchObject({ status: "cancelled", cancelled_at: new Date(NOW + 1).toISOString() });
    expect(owed(account)).toEqual([]);
    expect(cancelStored(account, jobId(2), NOW)).toBeNull();
  });
});
