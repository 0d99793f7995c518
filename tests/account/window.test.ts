import { describe, expect, test } from "vitest";
import { TIER_LIMITS, Tier, WINDOW_MS } from "../../schemas/limits.ts";
import { revokeKey, setSuspended, setTier } from "../../worker/account/administration.ts";
import { count } from "../../worker/account/requests.ts";
import { KEY, NOW, OTHER_KEY, openAccount } from "./fixture.ts";

const times = (n: number, work: (i: number) => void) => {
  for (let i = 0; i < n; i++) work(i);
};

test.each(Tier.options)("a %s key gets exactly its requests a minute", (tier) => {
  const limit = TIER_LIMITS[tier].requests_per_minute;
  const { account } = openAccount(tier);
  const open = Array.from({ length: limit + 50 }, () => count(account, KEY, NOW).ok);
  expect(open.filter(Boolean)).toHaveLength(limit);
  expect(open.slice(0, limit).every(Boolean)).toBe(true);
});

test("a window opens with its first request and ends 60 s later", () => {
  const { account } = openAccount("free");
  expect(count(account, KEY, NOW + 7).window).toEqual({ limit: 60, remaining: 59, reset_at: NOW + 7 + WINDOW_MS });
  times(59, () => count(account, KEY, NOW + 50_000));
  expect(count(account, KEY, NOW + 7 + WINDOW_MS - 1)).toMatchObject({
    ok: false,
    code: "rate_limit_exceeded",
    window: { remaining: 0, reset_at: NOW + 7 + WINDOW_MS },
  });
  expect(count(account, KEY, NOW + 7 + WINDOW_MS).window).toEqual({
    limit: 60,
    remaining: 59,
    reset_at: NOW + 7 + 2 * WINDOW_MS,
  });
});

test("refusals consume nothing and do not keep a window open", () => {
  const { account } = openAccount("free");
  times(60, () => count(account, KEY, NOW));
  times(500, () => count(account, KEY, NOW + 59_999));
  expect(account.key(KEY)).toMatchObject({ window: { opened_at: NOW, used: 60 }, last_used_at: NOW });
  expect(count(account, KEY, NOW + WINDOW_MS).ok).toBe(true);
});

test("one key's window is not another's", () => {
  const { account } = openAccount("free");
  times(60, () => count(account, KEY, NOW));
  expect(count(account, OTHER_KEY, NOW).window?.remaining).toBe(59);
});

test("a revoked key is refused at once, is shown its window and consumes nothing", () => {
  const { account } = openAccount("free");
  times(10, () => count(account, KEY, NOW));
  expect(revokeKey(account, "sk_live_aaaa", NOW + 1)).toEqual({ ok: true, key_hash: KEY });
  const refused = {
    ok: false,
    code: "revoked_api_key",
    window: { limit: 60, remaining: 50, reset_at: NOW + WINDOW_MS },
  };
  expect(count(account, KEY, NOW + 2)).toEqual(refused);
  expect(count(account, KEY, NOW + 3)).toEqual(refused);
});

test("a revoked key stays revoked when its window is written behind", () => {
  const { account, restart } = openAccount("free");
  count(account, KEY, NOW);
  revokeKey(account, "sk_live_aaaa", NOW + 1);
  account.writeBehind();
  expect(count(restart(), KEY, NOW + 2)).toMatchObject({
    ok: false,
    code: "revoked_api_key",
    window: { remaining: 59 },
  });
});

test("every key of a suspended account is refused, shown its window, and consumes nothing", () => {
  const { account } = openAccount("free");
  times(3, () => count(account, KEY, NOW));
  setSuspended(account, true, NOW);
  for (const [key, remaining] of [
    [KEY, 57],
    [OTHER_KEY, 60],
  ] as const) {
    times(2, () =>
      expect(count(account, key, NOW + 1)).toMatchObject({
        ok: false,
        code: "account_suspended",
        window: { remaining },
      }),
    );
  }
  setSuspended(account, false, NOW);
  expect(count(account, KEY, NOW + 1).window?.remaining).toBe(56);
});

test("an unknown key has no window", () => {
  expect(count(openAccount().account, "key-none", NOW)).toEqual({ ok: false, code: "invalid_api_key" });
});

test("a downgrade inside a window shows none remaining, never less", () => {
  const { account } = openAccount("pro");
  times(100, () => count(account, KEY, NOW));
  setTier(account, "free", NOW);
  expect(count(account, KEY, NOW + 1).window).toMatchObject({ limit: 60, remaining: 0 });
});

describe("what is written behind", () => {
  test("is in the rows after the write, and read back by the next process", () => {
    const { account, restart } = openAccount("free");
    times(20, () => count(account, KEY, NOW));
    expect(account.unwritten).toBe(true);
    account.writeBehind();
    expect(account.unwritten).toBe(false);
    expect(count(restart(), KEY, NOW + 11_000).window?.remaining).toBe(39);
  });

  test("is all that a crash forgets", () => {
    const { account, restart } = openAccount("free");
    times(20, () => count(account, KEY, NOW));
    account.writeBehind();
    times(20, () => count(account, KEY, NOW));
    expect(count(restart(), KEY, NOW).window?.remaining).toBe(39);
  });
});
