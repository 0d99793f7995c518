import { expect, it } from "vitest";
import { TIER_LIMITS, Tier } from "../../schemas/limits.ts";
import { api, newAccount, operator, submit } from "../worker/service.ts";
import { refused, statuses, use } from "./account.ts";

/** From an idle key, with no runner enrolled, the outcome of a burst depends on nothing but the tier (contract section 3). */

const CASES: readonly (readonly [Tier, number])[] = Tier.options.map((tier) => {
  const { concurrent_jobs, queue_depth } = TIER_LIMITS[tier];
  return [tier, concurrent_jobs + queue_depth];
});

it.each(CASES)(
  "accepts exactly the slots and places of tier %s: %i jobs",
  async (tier, accepted) => {
    const { api_key } = await newAccount(tier);
    const { requests_per_minute, concurrent_jobs, queue_depth } = TIER_LIMITS[tier];
    const sent = Math.min(accepted + 50, requests_per_minute);
    const responses = await Promise.all(Array.from({ length: sent }, () => submit(api_key)));
    expect(statuses(responses)).toEqual({ 202: accepted, 429: sent - accepted });
    for (const response of responses.filter(({ status }) => status === 429)) {
      const error = await refused(response, "queue_full");
      expect(error.details).toEqual({ limit: queue_depth, queued: queue_depth });
      expect(Number(response.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }
    if (sent < requests_per_minute) {
      expect(await use(api_key)).toEqual({ running: concurrent_jobs, queued: queue_depth });
    }
  },
  30_000,
);

it.each([
  ["free", 60],
  ["pro", 200],
] as const)("lets exactly the limit of tier %s through when 200 requests come at once", async (tier, passed) => {
  const { api_key } = await newAccount(tier);
  const responses = await Promise.all(Array.from({ length: 200 }, () => api(api_key, "/v1/limits")));
  expect(statuses(responses)).toEqual(passed === 200 ? { 200: 200 } : { 200: passed, 429: 200 - passed });
  const left = responses
    .filter(({ status }) => status === 200)
    .map(({ headers }) => Number(headers.get("x-ratelimit-remaining")));
  const { requests_per_minute } = TIER_LIMITS[tier];
  expect(left.sort((a, b) => b - a)).toEqual(Array.from({ length: passed }, (_, n) => requests_per_minute - 1 - n));
});

it("keeps the numbers of two keys of one account apart", async () => {
  const { account_id, api_key } = await newAccount("free");
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  expect(statuses(await Promise.all(Array.from({ length: 20 }, () => submit(api_key))))).toEqual({ 202: 7, 429: 13 });
  expect(await use(second.api_key)).toEqual({ running: 0, queued: 0 });
  expect(statuses(await Promise.all(Array.from({ length: 10 }, () => submit(second.api_key))))).toEqual({
    202: 7,
    429: 3,
  });
  const windows = [await api(api_key, "/v1/limits"), await api(second.api_key, "/v1/limits")];
  expect(windows.map(({ headers }) => headers.get("x-ratelimit-remaining"))).toEqual(["39", "48"]);
});
