import { describe, expect, test } from "vitest";
import { TIER_LIMITS } from "../../schemas/limits.ts";
import { Account } from "../../worker/account/account.ts";
import { revokeKey, setSuspended } from "../../worker/account/administration.ts";
import { migrate } from "../../worker/account/migrations.ts";
import {
  operatorView,
  overview,
  owned,
  replaceSecret,
  secret,
  sessionEpoch,
  signOut,
} from "../../worker/account/owner.ts";
import { count } from "../../worker/account/requests.ts";
import { Rows } from "../../worker/account/rows.ts";
import { RETIRED_SECRET_MS, replaceWebhookSecret } from "../../worker/account/webhook-secrets.ts";
import {
  accepted,
  ended,
  KEY,
  NOW,
  OTHER_KEY,
  openAccount,
  owed,
  place,
  SECRET,
  send,
  withRunning,
} from "./fixture.ts";
import { openSql } from "./sqlite.ts";

const NEXT = "6".repeat(64);
const OTHER = "7".repeat(64);

describe("a session", () => {
  test("of an account that was never signed out has epoch 0", () => {
    const { account } = openAccount();
    expect(sessionEpoch(account)).toBe(0);
    expect(owned(account, 0, () => "seen")).toEqual({ open: true, value: "seen" });
  });

  test("is over everywhere after a sign-out, for good and over a restart", () => {
    const { account, restart } = openAccount();
    expect(owned(account, 0, () => signOut(account))).toEqual({ open: true, value: 1 });
    for (const process of [account, restart()]) {
      for (const stale of [0, -1, 2, Number.NaN]) expect(owned(process, stale, () => "seen")).toEqual({ open: false });
      expect(owned(process, 1, () => "seen")).toEqual({ open: true, value: "seen" });
    }
    expect(owned(account, 0, () => signOut(account))).toEqual({ open: false });
    expect(sessionEpoch(account)).toBe(1);
  });

  test("that is over runs nothing", () => {
    const { account } = openAccount();
    let ran = false;
    owned(account, 1, () => {
      ran = true;
    });
    expect(ran).toBe(false);
  });

  test("of an account that does not exist is not open", () => {
    const sql = openSql();
    migrate(sql);
    const nobody = new Account(new Rows(sql));
    expect(sessionEpoch(nobody)).toBeUndefined();
    expect(owned(nobody, 0, () => "seen")).toEqual({ open: false });
    expect(operatorView(nobody, NOW)).toBeNull();
  });
});

describe("the overview", () => {
  test("shows what may be used and what is used", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2, 3]) send(account, n);
    send(account, 11, { key: OTHER_KEY });
    place(account, 1);
    place(account, 11);
    accepted(account, 11);
    expect(overview(account, NOW)).toEqual({
      tier: "free",
      suspended: false,
      pool: "default",
      limits: TIER_LIMITS.free,
      keys: { live: 2, counting: 2, allowed: 20 },
      new_keys: { made: 2, allowed: 20 },
      slots: 3,
      places: 1,
      jobs: { queued: 3, running: 1 },
    });
  });

  test("counts a revoked key until its last job has ended, and a new one for a day", () => {
    const { account } = withRunning();
    revokeKey(account, "sk_live_aaaa", NOW);
    expect(overview(account, NOW).keys).toEqual({ live: 1, counting: 2, allowed: 20 });
    ended(account, 1);
    expect(overview(account, NOW)).toMatchObject({
      keys: { live: 1, counting: 1 },
      new_keys: { made: 2 },
      slots: 0,
      places: 0,
      jobs: { queued: 0, running: 0 },
    });
    expect(overview(account, NOW + 86_400_000).new_keys.made).toBe(0);
  });

  test("counts against no window, and a suspended account's owner sees it", () => {
    const { account } = openAccount();
    count(account, KEY, NOW);
    setSuspended(account, true, NOW);
    for (let n = 0; n < 200; n++) overview(account, NOW);
    expect(overview(account, NOW).suspended).toBe(true);
    expect(account.key(KEY)?.window.used).toBe(1);
  });
});

describe("the webhook secret", () => {
  test("is shown with the times until which replaced ones sign, and without their values", () => {
    const { account } = openAccount();
    expect(secret(account, NOW)).toEqual({ secret: SECRET, version: 0, retired: [] });
    replaceSecret(account, NEXT, 0, NOW);
    expect(secret(account, NOW + 1)).toEqual({
      secret: NEXT,
      version: 1,
      retired: [{ until: NOW + RETIRED_SECRET_MS }],
    });
    expect(secret(account, NOW + RETIRED_SECRET_MS).retired).toEqual([]);
  });

  test("is replaced once by a form that is sent twice", () => {
    const { account, restart } = openAccount();
    expect(replaceSecret(account, NEXT, 0, NOW)).toEqual({ kind: "replaced", version: 1 });
    expect(replaceSecret(account, OTHER, 0, NOW)).toEqual({ kind: "stale", version: 1 });
    expect(secret(restart(), NOW)).toMatchObject({ secret: NEXT, version: 1, retired: [{}] });
    expect(replaceSecret(account, OTHER, 1, NOW)).toEqual({ kind: "replaced", version: 2 });
  });

  test("is answered as replaced where the same call comes again", () => {
    const { account } = openAccount();
    replaceSecret(account, NEXT, 0, NOW);
    expect(replaceSecret(account, NEXT, 0, NOW + 5)).toEqual({ kind: "replaced", version: 1 });
    expect(secret(account, NOW).retired).toHaveLength(1);
  });

  test("that an operator has replaced makes the owner's page stale", () => {
    const { account } = openAccount();
    replaceWebhookSecret(account, NEXT, NOW);
    expect(replaceSecret(account, OTHER, 0, NOW)).toEqual({ kind: "stale", version: 1 });
  });
});

describe("an operator", () => {
  test("sees tier, keys and counts, and no hash, secret or job", () => {
    const { account } = withRunning();
    send(account, 2, { key: OTHER_KEY, metadata: { secret: "of the customer" } });
    revokeKey(account, "sk_live_bbbb", NOW);
    expect(operatorView(account, NOW)).toEqual({
      tier: "free",
      suspended: false,
      pool: "default",
      keys: [
        { prefix: "sk_live_bbbb", name: "two", status: "revoked" },
        { prefix: "sk_live_aaaa", name: "one", status: "active" },
      ],
      jobs: { queued: 1, running: 1 },
      failed_deliveries: 0,
    });
  });

  test("who looks changes nothing and owes nothing", () => {
    const { account } = withRunning();
    operatorView(account, NOW);
    expect(owed(account)).toEqual([]);
  });
});
