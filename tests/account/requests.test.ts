import { describe, expect, test } from "vitest";
import { TIER_LIMITS, Tier } from "../../schemas/limits.ts";
import type { Account } from "../../worker/account/account.ts";
import { setTier } from "../../worker/account/administration.ts";
import { endExecution } from "../../worker/account/executions.ts";
import { getJob, listJobs } from "../../worker/account/requests.ts";
import {
  BY,
  completed,
  isStored,
  jobId,
  KEY,
  NOW,
  openAccount,
  OTHER_KEY,
  phases,
  place,
  row,
  said,
  send,
  type Wish,
} from "./fixture.ts";

/** How many of `count` submissions were accepted; windows open as often as needed, so that only slots and places decide. */
function burst(account: Account, first: number, count: number, wish: Wish = {}): number {
  let accepted = 0;
  for (let n = 0; n < count; n++) {
    const sent = send(account, first + n, { ...wish, now: NOW + n * 60_000 });
    expect(sent.gate.ok).toBe(true);
    if (isStored(sent)) accepted++;
  }
  return accepted;
}

const finish = (account: Account, n: number, now = NOW) => {
  place(account, n, row(account, n).fence + 1, now);
  return endExecution(account, jobId(n), row(account, n).fence, BY, completed(), now);
};

describe("a burst", () => {
  test.each(Tier.options)("from an idle %s key gets exactly its slots and its queue", (tier) => {
    const { concurrent_jobs, queue_depth } = TIER_LIMITS[tier];
    const { account } = openAccount(tier);
    expect(burst(account, 1, concurrent_jobs + queue_depth + 50)).toBe(concurrent_jobs + queue_depth);
    expect(account.store.use(KEY)).toEqual({ slots: concurrent_jobs, places: queue_depth });
  });

  test("is refused with the depth of the queue and how many places are taken", () => {
    const { account } = openAccount("free");
    burst(account, 1, 7);
    expect(send(account, 8).value).toEqual({ kind: "queue_full", limit: 5, queued: 5 });
    expect(account.store.job(jobId(8))).toBeUndefined();
  });

  test("of one key takes nothing from another", () => {
    const { account } = openAccount("free");
    expect(burst(account, 1, 20)).toBe(7);
    expect(burst(account, 101, 20, { key: OTHER_KEY })).toBe(7);
    expect(account.store.use(KEY)).toEqual({ slots: 2, places: 5 });
  });

  test("gets one job more for each that has ended", () => {
    const { account } = openAccount("free");
    burst(account, 1, 7);
    expect(finish(account, 1)).toBe("ok");
    expect(burst(account, 11, 5)).toBe(1);
  });
});

describe("promotion", () => {
  test("gives a freed slot to the oldest waiting job in the same step", () => {
    const { account } = openAccount("free");
    burst(account, 1, 4);
    expect(phases(account, 1, 2, 3, 4)).toEqual(["ready", "ready", "waiting", "waiting"]);
    finish(account, 2);
    expect(phases(account, 1, 2, 3, 4)).toEqual(["ready", "ended", "ready", "waiting"]);
  });

  test("prefers the higher priority, and takes no slot past those who wait", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2]) send(account, n, { priority: 9 });
    send(account, 3, { priority: -1 });
    send(account, 4, { priority: 5 });
    finish(account, 1);
    expect(phases(account, 3, 4)).toEqual(["waiting", "ready"]);
    send(account, 5, { priority: 5 });
    expect(phases(account, 5)).toEqual(["waiting"]);
  });

  test("fills every slot that a larger tier adds, for every key", () => {
    const { account } = openAccount("free");
    burst(account, 1, 7);
    burst(account, 11, 3, { key: OTHER_KEY });
    setTier(account, "pro", NOW);
    expect(account.store.use(KEY)).toEqual({ slots: 7, places: 0 });
    expect(account.store.use(OTHER_KEY)).toEqual({ slots: 3, places: 0 });
  });

  test("waits after a downgrade until the use fits, and cancels nothing", () => {
    const { account } = openAccount("pro");
    burst(account, 1, 12);
    setTier(account, "free", NOW);
    expect(account.store.use(KEY)).toEqual({ slots: 10, places: 2 });
    for (let n = 1; n <= 8; n++) finish(account, n);
    expect(account.store.use(KEY)).toEqual({ slots: 2, places: 2 });
    finish(account, 9);
    expect(account.store.use(KEY)).toEqual({ slots: 2, places: 1 });
  });
});

describe("a higher priority", () => {
  test("takes the slot of the lowest, newest job that never started", () => {
    const { account } = openAccount("free");
    send(account, 1, { priority: 0 });
    send(account, 2, { priority: 0 });
    send(account, 3, { priority: 1 });
    expect(phases(account, 1, 2, 3)).toEqual(["ready", "waiting", "ready"]);
    expect(account.store.use(KEY)).toEqual({ slots: 2, places: 1 });
  });

  test("withdraws the ticket of the job that yields", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2]) send(account, n);
    said(account);
    send(account, 3, { priority: 1 });
    const request = said(account);
    expect(request?.drop).toEqual([{ job: jobId(2), fence: 1 }]);
    expect(request?.want.map(({ job }) => job)).toEqual([jobId(3)]);
  });

  test("takes nothing from an equal one, nor from a job that a runner has", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2]) send(account, n);
    send(account, 3, { priority: 0 });
    expect(phases(account, 3)).toEqual(["waiting"]);
    for (const n of [1, 2]) place(account, n);
    send(account, 4, { priority: 10 });
    expect(phases(account, 1, 2, 4)).toEqual(["placed", "placed", "waiting"]);
  });

  test("is no way around a full queue", () => {
    const { account } = openAccount("free");
    burst(account, 1, 7);
    expect(isStored(send(account, 8, { priority: 10 }))).toBe(false);
  });
});

describe("submit with a job id that is stored already", () => {
  test("answers with its record and stores nothing", () => {
    const { account } = openAccount("free");
    const first = send(account, 1);
    const again = send(account, 1, { now: NOW + 5_000, priority: 3 });
    expect(again.value).toEqual(first.value);
    expect(account.store.page({}, 10)).toHaveLength(1);
  });

  test("is answered before window and queue are looked at, and counts for neither", () => {
    const { account } = openAccount("free");
    burst(account, 1, 7);
    const at = NOW + 3_600_000;
    for (let n = 0; n < 60; n++) getJob(account, KEY, jobId(1), at);
    expect(send(account, 99, { now: at }).gate).toMatchObject({ ok: false, code: "rate_limit_exceeded" });
    expect(send(account, 7, { now: at }).value).toMatchObject({
      kind: "stored",
      view: { record: { job_id: jobId(7) } },
    });
    expect(account.key(KEY)?.window.used).toBe(60);
  });
});

describe("records", () => {
  test("say how many jobs of the key go first, and nothing once a slot is held", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2]) send(account, n, { priority: 9 });
    send(account, 3);
    send(account, 4);
    send(account, 5, { priority: 1 });
    send(account, 6, { key: OTHER_KEY });
    const position = (n: number) => getJob(account, KEY, jobId(n), NOW).value?.record.queue_position;
    expect([1, 2, 3, 4, 5, 6].map(position)).toEqual([undefined, undefined, 2, 3, 1, undefined]);
  });

  test("of another of the account's keys are shown, unknown ones are null", () => {
    const { account } = openAccount("free");
    send(account, 1);
    expect(getJob(account, OTHER_KEY, jobId(1), NOW).value?.record.job_id).toBe(jobId(1));
    expect(getJob(account, KEY, jobId(2), NOW).value).toBeNull();
  });

  test("are listed newest first over all keys, page by page, each once", () => {
    const { account } = openAccount("pro");
    for (let n = 1; n <= 5; n++) send(account, 10 - n, { key: n % 2 ? KEY : OTHER_KEY });
    const seen: string[] = [];
    let before: number | undefined;
    for (let more = true; more; ) {
      const { value } = listJobs(account, KEY, before === undefined ? { limit: 2 } : { limit: 2, before }, NOW);
      seen.push(...(value?.jobs ?? []).map(({ record }) => record.job_id));
      before = value?.jobs.at(-1)?.seq;
      more = value?.has_more ?? false;
      send(account, 50 + seen.length);
    }
    expect(seen).toEqual([5, 6, 7, 8, 9].map(jobId));
  });
});
