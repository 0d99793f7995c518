import { beforeEach, expect, it, vi } from "vitest";
import { api, newAccount, operator, readJob, submitted } from "../worker/service.ts";
import { cancel, refused } from "./account.ts";
import { DAY, pass, resetClock } from "./clock.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
});

const addKey = (account_id: string, name: string): Promise<{ api_key: string }> =>
  operator(`/accounts/${account_id}/keys`, { name });

const revoke = (account_id: string, key: string): Promise<unknown> =>
  operator(`/accounts/${account_id}/keys/revoke`, { key: key.slice(0, 12) });

it("makes keys of 51 characters", async () => {
  const { api_key, account_id } = await newAccount("free");
  for (const key of [api_key, (await addKey(account_id, "second")).api_key]) {
    expect(key).toMatch(/^sk_live_[\w-]{43}$/);
  }
});

it("refuses the 21st key", async () => {
  const { account_id } = await newAccount("free");
  for (let n = 2; n <= 10; n++) await addKey(account_id, `key ${n}`);
  pass(DAY + 1_000);
  for (let n = 11; n <= 20; n++) await addKey(account_id, `key ${n}`);
  await expect(() => addKey(account_id, "key 21")).rejects.toThrow(/20 keys/);
});

it("refuses the 21st new key of a day, revoked ones included", async () => {
  const { account_id } = await newAccount("free");
  for (let n = 2; n <= 20; n++) await revoke(account_id, (await addKey(account_id, `key ${n}`)).api_key);
  await expect(() => addKey(account_id, "key 21")).rejects.toThrow(/20 keys within a day/);
  pass(DAY + 1_000);
  expect((await addKey(account_id, "key 21")).api_key).toMatch(/^sk_live_/);
});

it("counts a revoked key while it has an open job, and no longer", async () => {
  const { account_id, api_key } = await newAccount("free");
  const busy = await addKey(account_id, "busy");
  const { job_id } = await submitted(busy.api_key);
  for (let n = 3; n <= 12; n++) await addKey(account_id, `key ${n}`);
  pass(DAY + 1_000);
  for (let n = 13; n <= 20; n++) await addKey(account_id, `key ${n}`);
  await revoke(account_id, busy.api_key);
  await expect(() => addKey(account_id, "one more")).rejects.toThrow(/20 keys/);
  await cancel(api_key, job_id);
  expect((await addKey(account_id, "one more")).api_key).toMatch(/^sk_live_/);
});

it("lets a revoked key's jobs go on, readable and cancellable with the account's other keys", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await addKey(account_id, "second");
  const { job_id } = await submitted(second.api_key);
  await revoke(account_id, second.api_key);
  const response = await api(second.api_key, `/v1/jobs/${job_id}`);
  expect(response.headers.get("www-authenticate")).toBe("Bearer");
  expect(response.headers.get("x-ratelimit-limit")).toBe("60");
  await refused(response, "revoked_api_key");
  expect((await readJob(api_key, job_id)).status).toBe("queued");
  await cancel(api_key, job_id);
  expect((await readJob(api_key, job_id)).status).toBe("cancelled");
});

it("answers 403 to every key of a suspended account without consuming, and goes on after it", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await addKey(account_id, "second");
  await operator(`/accounts/${account_id}/suspend`, {});
  for (const key of [api_key, second.api_key, api_key]) {
    const response = await api(key, "/v1/limits");
    expect(response.headers.get("x-ratelimit-remaining")).toBe("60");
    await refused(response, "account_suspended");
  }
  await operator(`/accounts/${account_id}/resume`, {});
  expect((await api(api_key, "/v1/limits")).headers.get("x-ratelimit-remaining")).toBe("59");
});
