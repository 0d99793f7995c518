import type * as v from "valibot";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { WebhookState as WebhookStateSchema } from "../../schemas/job.ts";
import { eventIdOf, type WebhookDelivery } from "../../schemas/webhook.ts";
import { SWEEP_MS } from "../../worker/account/deliveries.ts";
import { Customer } from "./customer.ts";
import { type BehaviourName, type OddReceiver, OddReceivers, type Received } from "./odd-receivers.ts";
import { newFolder, removeFolder, type Started, start, waitFor } from "./stack.ts";

/** The runtime is killed twice while deliveries are under way; its queue is memory here, and is lost with it. */

/** Spec section 6.5: in a round, and before the third. */
const MOST_ATTEMPTS = 4;
const THIRD_AFTER_MS = 5_000;

type WebhookState = v.InferOutput<typeof WebhookStateSchema>;

/** A job that has ended. */
interface Case {
  readonly receiver: OddReceiver;
  readonly job_id: string;
}

/** An account's clock against the log's: a message up to 20 ms early, and milliseconds cut off. */
const CLOCK_MS = 30;

let folder: string;
let started: Started;
let customer: Customer;
const receivers = new OddReceivers();
/** Have failed twice: the third attempt's message waits in the queue. */
let recovering: readonly Case[];
let hopeless: readonly Case[];
let down: Case;
/** The first attempt is in flight. */
let silent: readonly Case[];
/** Were delivered, and then a redelivery was accepted as the runtime died. */
let again: readonly Case[];
/** Ended as the runtime died. */
let fresh: readonly Case[];
/** Of those, the ones whose end the customer was told of. */
let told: readonly string[];
const all = (): Case[] => [...recovering, ...hopeless, down, ...silent, ...again, ...fresh];
/** As they were when all was over. */
const webhooks = new Map<string, WebhookDelivery>();

/** So many jobs, each with a receiver of its own. */
const ended = (count: number, ...names: readonly BehaviourName[]): Promise<Case[]> =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const receiver = await receivers.behaving(...names);
      return { receiver, job_id: await customer.endedJob(receiver.url) };
    }),
  );

const NOT_TRIED: WebhookState = { status: "pending", attempts: 0 };

const until = (what: string, cases: readonly Case[], holds: (webhook: WebhookState) => boolean): Promise<true> =>
  waitFor(
    what,
    async () => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      const jobs = await customer.jobs();
      return cases.every(({ job_id }) => holds(jobs.get(job_id)?.webhook ?? NOT_TRIED)) || undefined;
    },
    90_000,
  );

/** What of these came true; what the runtime took with it is left out. */
async function fulfilled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const settled = await Promise.allSettled(promises);
  return settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
}

async function killWorkerd(restarted: RegExp): Promise<void> {
  for (const pid of await started.pids("workerd")) process.kill(pid, "SIGKILL");
  await started.printed(restarted);
  await waitFor("an answer", () => customer.webhook(down.job_id).catch(() => undefined));
}

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
  customer = await Customer.create(started.local, { idle: true });
  const delivered = await ended(4, "200");
  await until("the first deliveries", delivered, ({ status }) => status === "delivered");
  const refusing = await receivers.refusing();
  [recovering, hopeless, silent, down] = await Promise.all([
    ended(4, "500", "hangs up", "200"),
    ended(2, "503"),
    ended(3, "silent", "200"),
    customer.endedJob(refusing.url).then((job_id) => ({ receiver: refusing, job_id })),
  ]);
  const waiting = [...recovering, ...hopeless, down];
  await until("two attempts each", waiting, ({ attempts }) => attempts >= 2);
  for (const { job_id } of waiting)
    await waitFor("two failures each", async () => (await customer.webhook(job_id)).log[1]);

  const receiver = await receivers.behaving("200");
  const endings = Array.from({ length: 16 }, () => customer.endedJob(receiver.url));
  const askings = delivered.map((one) => customer.redeliver(one.job_id).then(() => one));
  const [ends, redeliveries] = [fulfilled(endings), fulfilled(askings)];
  await Promise.any(endings);
  await killWorkerd(/was started again/);
  [told, again] = await Promise.all([ends, redeliveries]);
  const known = new Set([...waiting, ...silent, ...delivered].map(({ job_id }) => job_id));
  fresh = [...(await customer.jobs()).values()]
    .filter(({ job_id, status }) => status === "cancelled" && !known.has(job_id))
    .map(({ job_id }) => ({ receiver, job_id }));

  await killWorkerd(/was started again[\s\S]*was started again/);
  await until("all to be over", all(), ({ status }) => status !== "pending");
  for (const { job_id } of all()) webhooks.set(job_id, await customer.webhook(job_id));
});

afterAll(async () => {
  await receivers.close();
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

function webhookOf({ job_id }: Case): WebhookDelivery {
  const webhook = webhooks.get(job_id);
  if (!webhook) throw new Error(`no webhook of ${job_id}`);
  return webhook;
}

const receivedOf = ({ receiver, job_id }: Case): Received[] =>
  receiver.received.filter(({ headers }) => headers["webhook-id"] === eventIdOf(job_id));

it("loses none, of a customer who was told of the job's end or not", () => {
  expect(fresh.map(({ job_id }) => job_id)).toEqual(expect.arrayContaining([...told]));
  for (const one of [...recovering, ...silent, ...again, ...fresh]) {
    expect(webhookOf(one)).toMatchObject({ status: "delivered", last_status: 200 });
    expect(receivedOf(one).length).toBeGreaterThanOrEqual(1);
  }
});

it("makes no more than four attempts in a round, each of them in the log", () => {
  for (const one of all()) {
    const { log } = webhookOf(one);
    for (const round of new Set(log.map((attempt) => attempt.round))) {
      const made = log.filter((attempt) => attempt.round === round).map(({ attempt }) => attempt);
      expect(made).toEqual(Array.from({ length: made.length }, (_, n) => n + 1));
      expect(made.length).toBeLessThanOrEqual(MOST_ATTEMPTS);
    }
    // An attempt of which nobody can say what came of it may have been seen or not.
    const known = log.flatMap(({ webhook_id }) => webhook_id ?? []);
    const seen = receivedOf(one).map(({ headers }) => headers["x-webhook-id"] ?? "");
    expect(seen.filter((id) => !known.includes(id)).length).toBeLessThanOrEqual(log.length - known.length);
    expect(new Set(seen).size).toBe(seen.length);
  }
  for (const one of [...hopeless, down])
    expect(webhookOf(one)).toMatchObject({ status: "failed", attempts: MOST_ATTEMPTS });
});

it("sends again, by the account's sweep, what the queue has lost, and nothing before its time", () => {
  const waits = [...recovering, ...hopeless, down].map((one) => {
    const [, second, third] = webhookOf(one).log.map(({ at }) => Date.parse(at));
    return Number(third) - Number(second);
  });
  expect(Math.min(...waits)).toBeGreaterThanOrEqual(THIRD_AFTER_MS - CLOCK_MS);
  expect(Math.max(...waits)).toBeGreaterThanOrEqual(THIRD_AFTER_MS + SWEEP_MS - CLOCK_MS);
});

it("counts an attempt that was in flight, says that nobody knows what came of it, and makes the next", () => {
  for (const one of silent) {
    const { log } = webhookOf(one);
    expect(log.map(({ attempt, delivered, failure }) => [attempt, delivered, failure])).toEqual([
      [1, false, "claim_expired"],
      [2, true, undefined],
    ]);
    expect(receivedOf(one)).toHaveLength(2);
  }
});

it("goes on with a redelivery that was accepted as the runtime died", () => {
  for (const one of again) {
    const rounds = webhookOf(one).log.map(({ round, delivered }) => [round, delivered]);
    expect(rounds[0]).toEqual([1, true]);
    expect(rounds.at(-1)).toEqual([2, true]);
  }
});

it("lists every job that has ended once in the feed, in pages of any size, after any of them", async () => {
  const listed = [...(await customer.jobs()).values()].filter(({ status }) => status === "cancelled");
  const ids = (await customer.events(5)).map(({ id }) => id);
  expect(ids.toSorted()).toEqual(listed.map(({ job_id }) => eventIdOf(job_id)).sort());
  expect((await customer.events(100)).map(({ id }) => id)).toEqual(ids);
  for (const [n, id] of ids.entries()) {
    if (n % 5 > 0) continue;
    expect((await customer.events(7, id)).map((event) => event.id)).toEqual(ids.slice(n + 1));
  }
});

it("delivers again on request to a receiver that was down, with the words of the feed", async () => {
  const { job_id } = down;
  const receiver = await receivers.listeningAtLast(down.receiver, "204");
  expect(await customer.redeliver(job_id)).toMatchObject({ job_id, webhook: NOT_TRIED });
  await until("the redelivery", [down], ({ status }) => status === "delivered");
  const { log, ...state } = await customer.webhook(job_id);
  expect(state).toMatchObject({ status: "delivered", attempts: 1, last_status: 204 });
  expect(log.map(({ round, attempt, status }) => [round, attempt, status])).toEqual([
    [1, 1, undefined],
    [1, 2, undefined],
    [1, 3, undefined],
    [1, 4, undefined],
    [2, 1, 204],
  ]);
  const [delivery] = receiver.received;
  const event = (await customer.events(10)).find(({ id }) => id === delivery?.headers["webhook-id"]);
  expect(event).toMatchObject({ type: "job.cancelled", job: JSON.parse(String(delivery?.body)) as object });
});
