import { beforeEach, expect, it, vi } from "vitest";
import type { JobRecord } from "../../schemas/job.ts";
import { TIER_LIMITS, Tier } from "../../schemas/limits.ts";
import { PlayedRunner, playInternet } from "../worker/played-runner.ts";
import { api, HELLO, newAccount, operator, readJob, submit, submitted } from "../worker/service.ts";
import { cancel, refused, use } from "./account.ts";
import { pass, resetClock } from "./clock.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  resetClock();
  playInternet();
});

const setTier = (account_id: string, tier: Tier): Promise<unknown> =>
  operator(`/accounts/${account_id}/tier`, { tier });

it("tells each tier its limits, and the key its slots and places", async () => {
  for (const tier of Tier.options) {
    const { api_key } = await newAccount(tier);
    for (let n = 0; n < 4; n++) await submitted(api_key);
    const held = tier === "free" ? { running: 2, queued: 2 } : { running: 4, queued: 0 };
    expect(await (await api(api_key, "/v1/limits")).json()).toEqual({ tier, limits: TIER_LIMITS[tier], ...held });
  }
});

it("takes no slot after a downgrade until the use fits, and cancels nothing", async () => {
  const { api_key, account_id } = await newAccount("pro");
  const jobs: JobRecord[] = [];
  for (let n = 0; n < 12; n++) jobs.push(await submitted(api_key));
  await setTier(account_id, "free");
  expect(await use(api_key)).toEqual({ running: 10, queued: 2 });
  for (const { job_id } of jobs.slice(0, 8)) await cancel(api_key, job_id);
  expect(await use(api_key)).toEqual({ running: 2, queued: 2 });
  await cancel(api_key, jobs[8]?.job_id ?? "");
  expect(await use(api_key)).toEqual({ running: 2, queued: 1 });
  expect((await readJob(api_key, jobs[10]?.job_id ?? "")).queue_position).toBeUndefined();
});

it("refuses a submission after a downgrade while the places are more than the queue's depth", async () => {
  const { api_key, account_id } = await newAccount("pro");
  for (let n = 0; n < 17; n++) await submitted(api_key);
  await setTier(account_id, "free");
  const error = await refused(await submit(api_key), "queue_full");
  expect(error.details).toEqual({ limit: 5, queued: 7 });
});

it("shows the limit of the new tier at once, within the window that is open", async () => {
  const { api_key, account_id } = await newAccount("free");
  for (let n = 0; n < 10; n++) await api(api_key, "/v1/limits");
  await setTier(account_id, "pro");
  const { headers } = await api(api_key, "/v1/limits");
  expect([headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-remaining")]).toEqual(["300", "289"]);
});

it("orders waiting jobs by priority, then by age", async () => {
  const { api_key } = await newAccount("free");
  const [first, second] = [await submitted(api_key), await submitted(api_key)];
  const waiting: JobRecord[] = [];
  for (const priority of [0, -5, 0, -5]) waiting.push(await submitted(api_key, { prompt: HELLO, priority }));
  const positions = async (): Promise<(number | undefined)[]> => {
    const records = await Promise.all(waiting.map(({ job_id }) => readJob(api_key, job_id)));
    return records.map(({ queue_position }) => queue_position);
  };
  expect(await positions()).toEqual([1, 3, 2, 4]);
  await cancel(api_key, first.job_id);
  expect(await positions()).toEqual([undefined, 2, 1, 3]);
  await cancel(api_key, second.job_id);
  expect(await positions()).toEqual([undefined, 1, undefined, 2]);
});

it("gives no slot of a started job to a higher priority", async () => {
  const runner = await PlayedRunner.ready("priority", 2);
  const { api_key } = await newAccount("free", "priority");
  for (let n = 0; n < 2; n++) await runner.dispatched((await submitted(api_key)).job_id);
  const urgent = await submitted(api_key, { prompt: HELLO, priority: 10 });
  expect(urgent.queue_position).toBe(1);
  expect(await use(api_key)).toEqual({ running: 2, queued: 1 });
});

it("looks at no class while no runner is enrolled, and names the nearest of those that are", async () => {
  // What other tests' runners have is known for a minute; a fresh look finds this pool's list beside theirs.
  const { api_key } = await newAccount("pro", "catalogue");
  await PlayedRunner.ready("catalogue");
  pass(61_000);
  const prompt = { "1": { class_type: "EmptyImge", inputs: {} }, "2": { class_type: "SaveImage", inputs: {} } };
  const error = await vi.waitFor(async () => {
    pass(61_000);
    return refused(await submit(api_key, { prompt }), "invalid_prompt");
  });
  expect(error.details?.node_errors).toEqual({
    "1": [{ field: "class_type", reason: "unknown_class", message: expect.stringContaining("EmptyImage") }],
  });
  const many = Object.fromEntries(Array.from({ length: 8 }, (_, n) => [n, { class_type: `Odd${n}`, inputs: {} }]));
  const all = await refused(await submit(api_key, { prompt: many }), "invalid_prompt");
  const messages = Object.values(all.details?.node_errors ?? {}).flat() as { message: string }[];
  expect(messages).toHaveLength(8);
  expect(messages.filter(({ message }) => message.includes("nearest"))).toHaveLength(5);
  expect((await submit(api_key)).status).toBe(202);
});
