import { describe, expect, test } from "vitest";
import { setSuspended } from "../../worker/account/administration.ts";
import { addOwnersKey, listKeys, revokeOwnersKey } from "../../worker/account/owner-keys.ts";
import { count } from "../../worker/account/requests.ts";
import { dayOf } from "../../worker/account/usage.ts";
import { ended, KEY, NOW, openAccount, OTHER_KEY, send, withRunning } from "./fixture.ts";

const DAY_MS = 86_400_000;
const named = (n: number, name = `key ${n}`) => ({ key_hash: `hash-${n}`, prefix: "sk_live_cccc", name });

describe("keys", () => {
  test("are listed newest first, with what they use now", () => {
    const { account } = openAccount("free");
    expect(addOwnersKey(account, named(3), NOW + 5)).toEqual({ ok: true });
    for (const n of [1, 2, 3]) send(account, n, { now: NOW + 7 });
    revokeOwnersKey(account, OTHER_KEY, NOW + 9);
    const [third, second, first] = listKeys(account, NOW + 10);
    expect(third).toEqual({
      key_hash: "hash-3",
      prefix: "sk_live_cccc",
      name: "key 3",
      created_at: NOW + 5,
      slots: 0,
      places: 0,
      window: { limit: 60, remaining: 60, reset_at: NOW + 10 + 60_000 },
    });
    expect(second).toMatchObject({ key_hash: OTHER_KEY, revoked_at: NOW + 9 });
    expect(first).toEqual({
      key_hash: KEY,
      prefix: "sk_live_aaaa",
      name: "one",
      created_at: NOW,
      last_used_at: NOW + 7,
      slots: 2,
      places: 1,
      window: { limit: 60, remaining: 57, reset_at: NOW + 7 + 60_000 },
    });
  });

  test("show requests that are not written yet", () => {
    const { account } = openAccount();
    count(account, KEY, NOW);
    expect(account.unwritten).toBe(true);
    expect(listKeys(account, NOW).at(-1)).toMatchObject({ last_used_at: NOW, window: { remaining: 59 } });
  });
});

describe("a new key", () => {
  test("works at once, and putting it again changes nothing", () => {
    const { account, restart } = openAccount();
    expect(addOwnersKey(account, named(3, "  builds  "), NOW)).toEqual({ ok: true });
    expect(addOwnersKey(account, named(3, "another name"), NOW + 1)).toEqual({ ok: true });
    expect(listKeys(restart(), NOW)).toHaveLength(3);
    expect(account.store.key("hash-3")).toMatchObject({ name: "builds", created_at: NOW });
    expect(count(account, "hash-3", NOW).ok).toBe(true);
  });

  test("is refused where 20 count already, and where 20 were made within a day", () => {
    const { account } = openAccount();
    for (let n = 1; n <= 18; n++) expect(addOwnersKey(account, named(n), NOW)).toEqual({ ok: true });
    expect(addOwnersKey(account, named(19), NOW + DAY_MS)).toEqual({ ok: false, reason: "too_many_keys" });
    revokeOwnersKey(account, "hash-1", NOW);
    expect(addOwnersKey(account, named(19), NOW)).toEqual({ ok: false, reason: "too_many_new_keys" });
    expect(addOwnersKey(account, named(19), NOW + DAY_MS)).toEqual({ ok: true });
    expect(addOwnersKey(account, named(18), NOW)).toEqual({ ok: true });
  });

  test("takes no place of a revoked one whose jobs go on", () => {
    const { account } = withRunning();
    for (let n = 1; n <= 18; n++) addOwnersKey(account, named(n), NOW - DAY_MS);
    revokeOwnersKey(account, KEY, NOW);
    expect(addOwnersKey(account, named(19), NOW + DAY_MS)).toEqual({ ok: false, reason: "too_many_keys" });
    ended(account, 1);
    expect(addOwnersKey(account, named(19), NOW + DAY_MS)).toEqual({ ok: true });
  });

  test.each(["", "   ", "x".repeat(101)])("named %j is refused", (name) => {
    const { account } = openAccount();
    expect(addOwnersKey(account, named(3, name), NOW)).toEqual({ ok: false, reason: "invalid_name" });
    expect(account.store.key("hash-3")).toBeUndefined();
  });

  test("may have a name of 100 characters", () => {
    expect(addOwnersKey(openAccount().account, named(3, ` ${"x".repeat(100)} `), NOW)).toEqual({ ok: true });
  });

  test("of a suspended account is refused", () => {
    const { account } = openAccount();
    setSuspended(account, true, NOW);
    expect(addOwnersKey(account, named(3), NOW)).toEqual({ ok: false, reason: "account_suspended" });
    expect(listKeys(account, NOW)).toHaveLength(2);
  });
});

describe("revoking", () => {
  test("takes exactly the key that is named, of several that begin alike", () => {
    const { account, restart } = openAccount();
    for (const n of [3, 4]) addOwnersKey(account, named(n), NOW);
    expect(revokeOwnersKey(account, "hash-3", NOW + 1)).toEqual({ ok: true, revoked_at: NOW + 1 });
    for (const process of [account, restart()]) {
      expect(count(process, "hash-3", NOW + 2)).toMatchObject({ code: "revoked_api_key" });
      expect(count(process, "hash-4", NOW + 2).ok).toBe(true);
    }
  });

  test("again changes nothing, wakes who waits once, and is allowed while suspended", () => {
    const { account } = openAccount();
    setSuspended(account, true, NOW);
    account.takeEffects();
    revokeOwnersKey(account, KEY, NOW);
    expect(account.takeEffects()).toEqual([{ kind: "wake" }]);
    expect(revokeOwnersKey(account, KEY, NOW + 99)).toEqual({ ok: true, revoked_at: NOW });
    expect(account.takeEffects()).toEqual([]);
  });

  test("a key that the account does not know says so", () => {
    expect(revokeOwnersKey(openAccount().account, "hash-9", NOW)).toEqual({ ok: false, reason: "unknown" });
  });

  test("loses no request that was counted, though it was not written yet", () => {
    const { account, restart } = openAccount();
    count(account, KEY, NOW);
    account.writeBehind();
    for (const at of [61_000, 62_000]) count(account, KEY, NOW + at);
    revokeOwnersKey(account, KEY, NOW + 63_000);
    const { store } = restart();
    expect(store.key(KEY)).toMatchObject({ window: { opened_at: NOW + 61_000, used: 2 }, last_used_at: NOW + 62_000 });
    const day = dayOf(NOW);
    expect(store.owner.usage(day, day)).toMatchObject([{ key_hash: KEY, requests: 1 }]);
  });
});
