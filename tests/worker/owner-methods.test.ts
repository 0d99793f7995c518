import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { AccountObject } from "../../worker/account/object.ts";
import { accountObject, api, newAccount, submitted, type TestAccount } from "./service.ts";

/** Every method of the owner's, by what it is asked with after the epoch. */
const METHODS: Readonly<Record<string, readonly unknown[]>> = {
  ownerOverview: [],
  ownerKeys: [],
  ownerAddKey: [{ key_hash: "hash", prefix: "sk_live_cccc", name: "new" }],
  ownerRevokeKey: ["hash"],
  ownerSecret: [],
  ownerReplaceSecret: ["6".repeat(64), 0],
  ownerJobs: [{}, 20],
  ownerJob: ["01900000-0000-7000-8000-000000000001"],
  ownerCancel: ["01900000-0000-7000-8000-000000000001"],
  ownerDeliveries: [{}, 20],
  ownerRedeliver: [{ job_id: "01900000-0000-7000-8000-000000000001", request: "r" }],
  ownerRedeliverFailed: ["r", 20],
  ownerUsage: [90],
  ownerSignOut: [],
};

type Answer = { open: boolean; value?: unknown };

const ask = (object: AccountObject, name: string, epoch: number): Answer =>
  (object as unknown as Record<string, (...args: unknown[]) => Answer>)[name]?.(epoch, ...(METHODS[name] ?? [])) ?? {
    open: true,
  };

const table = (account: TestAccount, query: string): Promise<unknown[]> =>
  runInDurableObject(accountObject(account), (_, state) => state.storage.sql.exec(query).toArray());

it("lets no method of the owner be called with an epoch that is over", async () => {
  const methods = Object.getOwnPropertyNames(AccountObject.prototype).filter((name) => name.startsWith("owner"));
  expect(methods.sort()).toEqual([...Object.keys(METHODS), "ownerEpoch"].sort());
  const account = await newAccount();
  const object = accountObject(account);
  expect(await object.ownerEpoch()).toBe(0);
  expect(await object.ownerSignOut(0)).toEqual({ open: true, value: 1 });
  const before = await table(account, "SELECT * FROM settings, keys");
  await runInDurableObject(object, (instance) => {
    for (const name of Object.keys(METHODS))
      for (const epoch of [0, 2]) expect(ask(instance, name, epoch), name).toEqual({ open: false });
  });
  expect(await table(account, "SELECT * FROM settings, keys")).toEqual(before);
  await evictDurableObject(object);
  expect(await object.ownerEpoch()).toBe(1);
  expect(await object.ownerKeys(0)).toEqual({ open: false });
  await runInDurableObject(object, (instance) => {
    for (const name of Object.keys(METHODS)) expect(ask(instance, name, 1).open, name).toBe(true);
  });
});

it("opens nothing of an account that does not exist, and stores nothing there", async () => {
  const object = env.ACCOUNT.getByName("acc_nobody");
  expect(await object.ownerEpoch()).toBeNull();
  expect(await object.operatorView()).toBeNull();
  await runInDurableObject(object, (instance, state) => {
    for (const name of Object.keys(METHODS)) expect(ask(instance, name, 0), name).toEqual({ open: false });
    expect(state.storage.sql.exec("SELECT COUNT(*) AS n FROM settings").one()).toEqual({ n: 0 });
  });
});

it("answers the owner over RPC, and counts no request for it", async () => {
  const account = await newAccount("free");
  const object = accountObject(account);
  const { job_id } = await submitted(account.api_key);
  const jobs = await object.ownerJobs(0, { status: "queued" }, 20);
  expect(jobs.open && jobs.value.jobs.map(({ record }) => record.job_id)).toEqual([job_id]);
  expect(await object.ownerOverview(0)).toMatchObject({ open: true, value: { slots: 1, jobs: { queued: 1 } } });
  expect(await object.ownerCancel(0, job_id)).toMatchObject({ value: { record: { status: "cancelled" } } });
  expect(await object.ownerUsage(0, 1)).toMatchObject({ value: { rows: [{ requests: 1, jobs: 1, gpu_ms: 0 }] } });
  const limits = await api(account.api_key, "/v1/limits");
  expect(limits.headers.get("x-ratelimit-remaining")).toBe("58");
});

it("charges requests in the transaction that writes the windows, and in no other", async () => {
  const account = await newAccount("pro");
  const object = accountObject(account);
  await runInDurableObject(object, async (instance, state) => {
    const [key] = state.storage.sql.exec("SELECT key_hash FROM keys").toArray();
    const hash = String(key?.key_hash);
    const now = Date.now();
    const clock = vi.spyOn(Date, "now").mockReturnValue(now);
    for (let n = 0; n < 7; n++) instance.count(hash);
    clock.mockReturnValue(now + 60_000);
    const spy = vi.spyOn(state.storage, "transactionSync");
    instance.count(hash);
    instance.count(hash);
    expect(spy).toHaveBeenCalledTimes(2);
    await vi.waitFor(
      () => expect(state.storage.sql.exec("SELECT requests FROM usage").toArray()).toEqual([{ requests: 7 }]),
      3_000,
    );
    // Each request's own, and one write behind for all of them.
    expect(spy).toHaveBeenCalledTimes(3);
    expect(state.storage.sql.exec("SELECT window_used FROM keys").one()).toEqual({ window_used: 2 });
    vi.restoreAllMocks();
  });
});

it("looks up an owner's lists by the indexes that were made for them", async () => {
  const account = await newAccount("pro");
  await runInDurableObject(accountObject(account), (instance, { storage }) => {
    for (const status of ["queued", "running", "completed", "failed", "cancelled"] as const)
      expect(instance.ownerJobs(0, { key_hash: "x", status, before: 9 }, 100).open).toBe(true);
    const plans = storage.sql
      .exec(
        `EXPLAIN QUERY PLAN SELECT seq FROM jobs INDEXED BY jobs_ended
         WHERE phase = 'ended' AND status = 'failed' AND key_hash = ? AND seq BETWEEN 1 AND 9 ORDER BY seq DESC LIMIT 9`,
        "x",
      )
      .toArray()
      .map(({ detail }) => String(detail));
    expect(plans).toEqual([expect.stringContaining("jobs_ended (key_hash=? AND status=? AND seq>? AND seq<?)")]);
  });
});
