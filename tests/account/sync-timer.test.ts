import { describe, expect, test } from "vitest";
import { setSuspended } from "../../worker/account/administration.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import { Account } from "../../worker/account/account.ts";
import { Rows } from "../../worker/account/rows.ts";
import {
  ended,
  fires,
  HOME,
  jobId,
  KEY,
  NOW,
  openAccount,
  owed,
  place,
  said,
  send,
  sendInVain,
  talk,
  timer,
} from "./fixture.ts";

describe("the sync timer", () => {
  test("says everything again as long as a job is at the fleet", () => {
    const { account } = openAccount();
    send(account, 1);
    said(account);
    owed(account);
    fires(account, "sync");
    expect(owed(account)).toEqual([{ kind: "sync" }]);
    expect(said(account)).toMatchObject({ full: true });
    expect(timer(account, "sync")).toBeDefined();
  });

  test("stands within 20 s of a submission, and a placement does not put it off", () => {
    const { account } = openAccount();
    send(account, 1);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 20_000);
    place(account, 1, 1, NOW + 7_000);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 20_000);
  });

  test("stands when the fleet wants everything again, and sooner where a request was not answered", () => {
    const { account } = openAccount();
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 9 } });
    expect(timer(account, "sync")?.due_at).toBe(NOW + 9_000);
    account.keepSyncing(NOW, 2_000);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 2_000);
    account.keepSyncing(NOW, 20_000);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 2_000);
  });

  test("has everything said at the pace that the fleet asked for, not more often", () => {
    const { account } = openAccount();
    send(account, 1);
    talk(account, NOW, { [HOME]: { again_in_s: 42 } });
    const said: number[] = [];
    for (let now = NOW + 1_000; now <= NOW + 130_000; now += 1_000) {
      if ((timer(account, "sync")?.due_at ?? 0) > now) continue;
      fires(account, "sync", "", now);
      if (talk(account, now, { [HOME]: { again_in_s: 42 } })[HOME]?.full) said.push(now - NOW);
    }
    expect(said.length).toBeGreaterThanOrEqual(2);
    for (const [i, at] of said.entries()) expect(at - (said[i - 1] ?? 0)).toBeGreaterThanOrEqual(42_000);
    // The timer looks at least every 20 s.
    for (const [i, at] of said.entries()) expect(at - (said[i - 1] ?? 0)).toBeLessThanOrEqual(62_000);
  });

  test("ends with the last open job, once the fleet has been told of it", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    ended(account, 1);
    fires(account, "sync");
    expect(timer(account, "sync")).toBeDefined();
    said(account);
    fires(account, "sync");
    expect(timer(account, "sync")).toBeUndefined();
  });
});

describe("a busy account", () => {
  test("has its periodic full sync, however often something happens", () => {
    const { account } = openAccount("enterprise");
    const full: number[] = [];
    let n = 0;
    for (let ms = 0; ms <= 60_000; ms += 500) {
      const now = NOW + ms;
      if ((timer(account, "sync")?.due_at ?? Number.POSITIVE_INFINITY) <= now) fires(account, "sync", "", now);
      n++;
      send(account, n, { now, key: n % 2 ? KEY : "key-two" });
      if (talk(account, now)[HOME]?.full) full.push(ms);
      place(account, n, 1, now);
      if (n > 3) ended(account, n - 3, 1, undefined, now);
    }
    expect(full.length).toBeGreaterThanOrEqual(60_000 / 5_500);
    for (const [i, at] of full.entries()) expect(at - (full[i - 1] ?? 0)).toBeLessThanOrEqual(6_000);
  });

  test("does not put off a sync whose alarm is late", () => {
    const { account } = openAccount("enterprise");
    send(account, 1);
    talk(account, NOW);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 5_000);
    send(account, 2, { now: NOW + 5_001 });
    place(account, 1, 1, NOW + 5_002);
    expect(timer(account, "sync")?.due_at).toBe(NOW + 5_000);
  });

  test("writes no timer while nothing changes about it", () => {
    const { account, sql } = openAccount("enterprise");
    send(account, 1);
    const writes: string[] = [];
    const counted = new Account(
      new Rows({
        databaseSize: 0,
        exec(query, ...bindings) {
          if (/INTO timers/.test(query) && bindings[0] === "sync") writes.push(query);
          return sql.exec(query, ...bindings);
        },
      }),
    );
    for (let n = 2; n <= 30; n++) send(counted, n, { now: NOW + n });
    expect(writes).toEqual([]);
    for (let n = 2; n <= 30; n++) place(counted, n, 1, NOW + 50 + n);
    for (let n = 2; n <= 30; n++) ended(counted, n, 1, undefined, NOW + 100 + n);
    expect(writes).toEqual([]);
  });
});

describe("after a transaction that was taken back", () => {
  test("the timer is written again", () => {
    const opened = openAccount();
    const { account } = opened;
    sendInVain(opened);
    expect(timer(account, "sync")).toBeUndefined();
    send(account, 1, { now: NOW + 10 });
    expect(timer(account, "sync")?.due_at).toBe(NOW + 20_010);
  });

  test("a timer that stood before is not put off", () => {
    const { account } = openAccount();
    send(account, 1);
    talk(account, NOW);
    owed(account);
    account.rolledBack();
    send(account, 2, { now: NOW + 1_000 });
    expect(timer(account, "sync")?.due_at).toBe(NOW + 5_000);
  });
});

test("a fleet that wants everything at once is not asked more often than each second", () => {
  const { account } = openAccount();
  send(account, 1);
  talk(account, NOW, { [HOME]: { again_in_s: 0 } });
  fires(account, "sync", "", NOW + 1_000);
  talk(account, NOW + 1_000, { [HOME]: { again_in_s: 0 } });
  expect(timer(account, "sync")?.due_at).toBe(NOW + 2_000);
});

test("a cancelled or suspended account is not forgotten by its timer before the fleet has heard of it", () => {
  const { account } = openAccount();
  send(account, 1);
  talk(account, NOW);
  cancelJob(account, KEY, jobId(1), NOW + 100);
  setSuspended(account, true, NOW + 100);
  fires(account, "sync", "", NOW + 5_000);
  expect(owed(account)).toContainEqual({ kind: "sync" });
  expect(talk(account, NOW + 5_000)[HOME]).toMatchObject({ full: true, want: [] });
});
