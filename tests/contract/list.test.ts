import { beforeEach, expect, it, vi } from "vitest";
import { api, HELLO, newAccount, operator, submitted } from "../worker/service.ts";
import { cancel, expectRecord, list, refused } from "./account.ts";
import { HOUR, pass, resetClock } from "./clock.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
});

const submitMany = async (key: string, count: number): Promise<string[]> => {
  const jobs = await Promise.all(Array.from({ length: count }, () => submitted(key)));
  return jobs.map(({ job_id }) => job_id);
};

it("walks 250 jobs without a gap or a double while new ones arrive", async () => {
  const { api_key } = await newAccount("enterprise");
  const mine = new Set(await submitMany(api_key, 250));
  const seen: string[] = [];
  let query = "?limit=17";
  for (let pages = 0; ; pages++) {
    const page = await list(api_key, query);
    for (const job of page.jobs) expectRecord(job);
    seen.push(...page.jobs.map(({ job_id }) => job_id));
    expect(page.has_more).toBe(page.next_cursor !== undefined);
    if (page.next_cursor === undefined) break;
    if (pages > 20) throw new Error("The list does not end.");
    query = `?limit=17&cursor=${encodeURIComponent(page.next_cursor)}`;
    await submitMany(api_key, 3);
  }
  expect(seen).toHaveLength(250);
  expect(new Set(seen)).toEqual(mine);
}, 20_000);

it("shows the newest first, of all keys of the account and of no other", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  const stranger = await newAccount("free");
  await submitted(stranger.api_key);
  const ids: string[] = [];
  for (const key of [api_key, second.api_key, api_key]) ids.push((await submitted(key)).job_id);
  expect((await list(second.api_key)).jobs.map(({ job_id }) => job_id)).toEqual(ids.reverse());
  expect((await list(api_key)).next_cursor).toBeUndefined();
});

it("filters by status", async () => {
  const { api_key } = await newAccount("free");
  const [first = "", ...others] = await submitMany(api_key, 3);
  await cancel(api_key, first);
  expect((await list(api_key, "?status=cancelled")).jobs.map(({ job_id }) => job_id)).toEqual([first]);
  const queued = (await list(api_key, "?status=queued")).jobs.map(({ job_id }) => job_id);
  expect(queued.sort()).toEqual(others.sort());
  for (const status of ["running", "completed", "failed"]) {
    expect(await list(api_key, `?status=${status}`)).toEqual({ jobs: [], has_more: false });
  }
  for (const bad of ["ready", "QUEUED", "", "queued,failed"]) {
    const error = await refused(await api(api_key, `/v1/jobs?status=${bad}`), "invalid_request");
    expect(error.details).toEqual({ field: "status" });
  }
});

it("filters by creation time, both bounds exclusive, and pages within them", async () => {
  const { api_key } = await newAccount("pro");
  const created: { job_id: string; created_at: string }[] = [];
  for (let n = 0; n < 5; n++) {
    created.push(await submitted(api_key, { prompt: HELLO }));
    pass(HOUR);
  }
  const at = (n: number): string => encodeURIComponent(created[n]?.created_at ?? "");
  const ids = (from: number, to: number): string[] =>
    created
      .slice(from, to)
      .map(({ job_id }) => job_id)
      .reverse();
  const asked = async (query: string): Promise<string[]> =>
    (await list(api_key, query)).jobs.map(({ job_id }) => job_id);
  expect(await asked(`?created_after=${at(1)}`)).toEqual(ids(2, 5));
  expect(await asked(`?created_before=${at(3)}`)).toEqual(ids(0, 3));
  expect(await asked(`?created_after=${at(0)}&created_before=${at(4)}`)).toEqual(ids(1, 4));
  const first = await list(api_key, `?created_after=${at(0)}&limit=3`);
  expect(first.has_more).toBe(true);
  expect(await asked(`?created_after=${at(0)}&limit=3&cursor=${first.next_cursor}`)).toEqual(ids(1, 2));
  for (const bad of ["yesterday", "2026-13-01", "1700000000", "2026-01-31T09:00:00"]) {
    const error = await refused(await api(api_key, `/v1/jobs?created_after=${bad}`), "invalid_request");
    expect(error.details).toEqual({ field: "created_after" });
  }
});

it("gives 20 by default, at most 100, and refuses what is no positive integer", async () => {
  const { api_key } = await newAccount("enterprise");
  await submitMany(api_key, 105);
  const lengths: [query: string, length: number][] = [
    ["", 20],
    ["?limit=1", 1],
    ["?limit=100", 100],
    ["?limit=101", 100],
    ["?limit=999999", 100],
  ];
  for (const [query, length] of lengths) expect((await list(api_key, query)).jobs).toHaveLength(length);
  for (const bad of ["0", "-1", "1.5", "x", "", "1e2", "0x10", "%201"]) {
    const error = await refused(await api(api_key, `/v1/jobs?limit=${bad}`), "invalid_request");
    expect(error.details).toEqual({ field: "limit" });
  }
});

it("refuses a cursor that is not one of its own", async () => {
  const { api_key } = await newAccount("free");
  for (const bad of ["x", "LTE", "!!!", "", "9".repeat(40)]) {
    const error = await refused(await api(api_key, `/v1/jobs?cursor=${bad}`), "invalid_request");
    expect(error.details).toEqual({ field: "cursor" });
  }
});
