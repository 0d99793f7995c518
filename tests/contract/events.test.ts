import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import * as v from "valibot";
import { beforeEach, expect, it, vi } from "vitest";
import { JobEventList } from "../../schemas/webhook.ts";
import { failedJob, PlayedReceiver } from "../worker/played-receiver.ts";
import { output, PlayedRunner, playInternet } from "../worker/played-runner.ts";
import { accountObject, api, HELLO, newAccount, submitted, type TestAccount } from "../worker/service.ts";
import { cancel, refused, remove } from "./account.ts";

/** `GET /v1/events` (contract section 2). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

async function feed({ api_key }: TestAccount, query = ""): Promise<JobEventList> {
  const response = await api(api_key, `/v1/events${query}`);
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return v.parse(v.strictObject(JobEventList.entries), await response.json());
}

/** Submits that many jobs and cancels them in another order, which is the order of their ends. */
async function cancelled(account: TestAccount, count: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await submitted(account.api_key)).job_id);
  ids.reverse();
  for (const id of ids) expect((await cancel(account.api_key, id)).status).toBe(200);
  return ids;
}

const idsOf = ({ events }: JobEventList): string[] => events.map(({ job }) => job.job_id);

it("tells ends in their order, with the bodies that webhooks have", async () => {
  const runner = await PlayedRunner.ready("events-order");
  const account = await newAccount("pro", "events-order");
  const receiver = new PlayedReceiver();
  expect(await feed(account)).toEqual({ events: [], has_more: false });
  const first = await submitted(account.api_key, { prompt: HELLO, webhook_url: receiver.url });
  const second = await submitted(account.api_key, { prompt: HELLO, webhook_url: receiver.url, metadata: { order: 7 } });
  const dispatched = await runner.dispatched(first.job_id);
  await cancel(account.api_key, second.job_id);
  const { bytes, description } = await output("a picture");
  await runner.upload(dispatched, 0, bytes, description);
  await runner.end(dispatched, { outcome: "completed", outputs: [description] });
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2));

  const { events, has_more, next_after } = await feed(account);
  expect(events.map(({ type }) => type)).toEqual(["job.cancelled", "job.completed"]);
  expect({ has_more, next_after: typeof next_after }).toEqual({ has_more: false, next_after: "string" });
  for (const { id, type, job, occurred_at } of events) {
    const delivery = receiver.received.find(({ headers }) => headers.get("webhook-id") === id);
    expect(JSON.stringify(job)).toBe(delivery?.body);
    expect(type).toBe(delivery?.headers.get("x-webhook-event"));
    expect(occurred_at).toBe("completed_at" in job ? job.completed_at : job.cancelled_at);
  }
});

it("goes page by page to the end and on from there", async () => {
  const account = await newAccount();
  const ids = await cancelled(account, 5);
  const seen: string[] = [];
  let after = "";
  for (const more of [true, true, false]) {
    const page = await feed(account, `?limit=2${after}`);
    expect(page.has_more).toBe(more);
    seen.push(...idsOf(page));
    after = `&after=${page.next_after}`;
  }
  expect(seen).toEqual(ids);
  expect(await feed(account, `?limit=2${after}`)).toEqual({
    events: [],
    has_more: false,
    next_after: after.replace("&after=", ""),
  });
  await evictDurableObject(accountObject(account));
  const [later] = await cancelled(account, 1);
  expect(idsOf(await feed(account, `?limit=2${after}`))).toEqual([later]);
});

it("goes on after the last webhook that was received", async () => {
  const account = await newAccount();
  const ids = await cancelled(account, 3);
  expect(idsOf(await feed(account, `?after=evt_${ids[0]}`))).toEqual(ids.slice(1));
  expect(idsOf(await feed(account, `?after=evt_${ids[2]}`))).toEqual([]);
});

it("passes over what was deleted, and never gives its number again", async () => {
  const account = await newAccount();
  const ids = await cancelled(account, 3);
  const { next_after } = await feed(account);
  for (const id of ids) expect((await remove(account.api_key, id)).status).toBe(204);
  expect(idsOf(await feed(account))).toEqual([]);
  const [fresh] = await cancelled(account, 1);
  expect(idsOf(await feed(account, `?after=${next_after}`))).toEqual([fresh]);
  const { message, details } = await refused(
    await api(account.api_key, `/v1/events?after=evt_${ids[1]}`),
    "invalid_request",
  );
  expect(message).toBe("after names an event that is not kept any more. Leave it out to begin with the oldest one.");
  expect(details).toEqual({ field: "after" });
});

it("knows nothing of other accounts", async () => {
  const account = await newAccount();
  const [mine = ""] = await cancelled(account, 1);
  const stranger = await newAccount();
  expect((await feed(stranger)).events).toEqual([]);
  await refused(await api(stranger.api_key, `/v1/events?after=evt_${mine}`), "invalid_request");
});

it("has jobs that ended without a webhook and without a runner", async () => {
  const account = await newAccount();
  const id = await failedJob(account, new PlayedReceiver().url);
  const { events } = await feed(account);
  expect(events).toMatchObject([{ id: `evt_${id}`, type: "job.failed", job: { error: { code: "queue_timeout" } } }]);
});

it.each([
  ["limit=0", "limit"],
  ["limit=x", "limit"],
  ["limit=-1", "limit"],
  ["after=", "after"],
  ["after=%20", "after"],
  ["after=evt_", "after"],
  ["after=evt_none", "after"],
  ["after=LTE", "after"],
  // A cursor of the list of jobs.
  ["after=MTI4", "after"],
  [`after=${"M".repeat(300)}`, "after"],
])("refuses %s", async (query, field) => {
  const account = await newAccount();
  const { details } = await refused(await api(account.api_key, `/v1/events?${query}`), "invalid_request");
  expect(details).toEqual({ field });
});

it("passes over what can't be read, and goes on", async () => {
  const account = await newAccount();
  const ids = await cancelled(account, 3);
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  await runInDurableObject(accountObject(account), (_, { storage }) => {
    storage.sql.exec("UPDATE jobs SET body = '{' WHERE job_id IN (?, ?)", ids[0] ?? "", ids[1] ?? "");
  });
  const first = await feed(account, "?limit=2");
  expect({ ids: idsOf(first), has_more: first.has_more }).toEqual({ ids: [], has_more: true });
  expect(idsOf(await feed(account, `?limit=2&after=${first.next_after}`))).toEqual([ids[2]]);
  expect(logged).toHaveBeenCalledWith(expect.stringContaining("row_poisoned"));
});

it("takes a limit beyond 100 as 100, and allows GET alone", async () => {
  const account = await newAccount();
  expect(await feed(account, "?limit=1000000")).toEqual({ events: [], has_more: false });
  const response = await api(account.api_key, "/v1/events", { method: "POST" });
  expect(response.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
  await refused(response, "method_not_allowed");
});
