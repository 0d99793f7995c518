import { env, exports } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { AccountObject } from "../../worker/index.ts";
import type { WebhookMessage } from "../../worker/webhooks/message.ts";
import { consumeWebhooks } from "../../worker/webhooks/consumer.ts";
import { failedJob, PlayedReceiver } from "./played-receiver.ts";
import { playInternet } from "./played-runner.ts";
import { newAccount, readJob, type TestAccount } from "./service.ts";

/** What a slow receiver or an absent account costs the messages beside and behind its own: nothing. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const status = async ({ api_key }: TestAccount, job_id: string) => (await readJob(api_key, job_id)).webhook?.status;

/** An answer that comes when it is let out. */
function held(answer: () => Response): { readonly answer: () => Promise<Response>; letOut(): void } {
  let letOut = () => {};
  const out = new Promise<void>((resolve) => {
    letOut = resolve;
  });
  return { answer: () => out.then(answer), letOut: () => letOut() };
}

it("delivers to others while more receivers than fit into a batch are silent", async () => {
  const slow = await newAccount();
  const silent = new PlayedReceiver();
  const answer = held(() => new Response("at last"));
  silent.answer = answer.answer;
  const waiting: string[] = [];
  for (let n = 0; n < 12; n++) waiting.push(await failedJob(slow, silent.url));
  await vi.waitFor(() => expect(silent.received).toHaveLength(12), { timeout: 5_000 });

  const quick = await newAccount();
  const receiver = new PlayedReceiver();
  const job_id = await failedJob(quick, receiver.url);
  await vi.waitFor(async () => expect(await status(quick, job_id)).toBe("delivered"), { timeout: 5_000 });
  for (const id of waiting) expect(await status(slow, id)).toBe("pending");
  answer.letOut();
  for (const id of waiting) {
    await vi.waitFor(async () => expect(await status(slow, id)).toBe("delivered"), { timeout: 5_000 });
  }
});

it("tries again in time after a failure that came when the message was long acknowledged", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  const answer = held(() => new Response("no", { status: 500 }));
  receiver.answer = answer.answer;
  const job_id = await failedJob(account, receiver.url);
  await vi.waitFor(() => expect(receiver.received).toHaveLength(1));
  await scheduler.wait(500);
  receiver.answer = () => new Response("ok");
  const failedAt = Date.now();
  answer.letOut();
  await vi.waitFor(() => expect(receiver.received).toHaveLength(2), { timeout: 5_000 });
  expect(Number(receiver.received[1]?.at) - failedAt).toBeGreaterThanOrEqual(1_000 - 20);
  await vi.waitFor(async () => expect(await status(account, job_id)).toBe("delivered"));
});

/** One message by hand; resolves with what it was told. */
async function consumed(body: WebhookMessage): Promise<"ack" | number | undefined> {
  let told: "ack" | number | undefined;
  const message = {
    body,
    ack: () => (told = "ack"),
    retry: (options?: { delaySeconds?: number }) => (told = options?.delaySeconds),
  };
  const batch = { messages: [message] } as unknown as MessageBatch<WebhookMessage>;
  await consumeWebhooks(batch, exports.Courier, { ownHosts: [], loopback: false });
  return told;
}

it("brings a message again in 5 s when the account can't be asked", async () => {
  const logged = vi.spyOn(console, "warn").mockImplementation(() => {});
  const account = env.ACCOUNT.getByName("acc_that_fails");
  vi.spyOn(env.ACCOUNT, "getByName").mockReturnValue({
    ...account,
    beginDelivery: () => Promise.reject(new Error("away")),
  } as unknown as typeof account);
  expect(await consumed({ account: "acc_that_fails", job: "x", round: 1 })).toBe(5);
  expect(logged).toHaveBeenCalledWith(expect.stringContaining("webhook_not_begun"));
});

it("brings a message again in 5 s when the account is silent, and does not wait for its word", async () => {
  const account = env.ACCOUNT.getByName("acc_that_is_silent");
  let spoken = false;
  vi.spyOn(env.ACCOUNT, "getByName").mockReturnValue({
    ...account,
    beginDelivery: () => scheduler.wait(6_000).then(() => (spoken = true)),
  } as unknown as typeof account);
  expect(await consumed({ account: "acc_that_is_silent", job: "x", round: 1 })).toBe(5);
  expect(spoken).toBe(false);
});

it("settles each message of a batch although a courier is lost", async () => {
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const told: unknown[] = [];
  const message = (job: string) => ({
    body: { account: "acc", job, round: 1 },
    ack: () => told.push([job, "ack"]),
    retry: (options?: { delaySeconds?: number }) => told.push([job, options?.delaySeconds]),
  });
  const batch = { messages: [message("lost"), message("kept")] } as unknown as MessageBatch<WebhookMessage>;
  const deliver = ({ job }: WebhookMessage) =>
    job === "lost" ? Promise.reject(new Error("isolate gone")) : Promise.resolve({ kind: "ack" as const });
  await consumeWebhooks(batch, { deliver }, { ownHosts: [], loopback: false });
  expect(told.sort()).toEqual([
    ["kept", "ack"],
    ["lost", 5],
  ]);
});

it("lets a message of a job that is gone go", async () => {
  const { account_id } = await newAccount();
  expect(await consumed({ account: account_id, job: "01900000-0000-7000-8000-00000000000f", round: 1 })).toBe("ack");
});

it("tells the account what came of an attempt as soon as that is there again", async () => {
  const account = await newAccount();
  const receiver = new PlayedReceiver();
  const finish = vi.spyOn(AccountObject.prototype, "finishDelivery");
  for (let times = 0; times < 2; times++) {
    finish.mockImplementationOnce(() => {
      throw new Error("away");
    });
  }
  const job_id = await failedJob(account, receiver.url);
  await vi.waitFor(async () => expect(await status(account, job_id)).toBe("delivered"), { timeout: 6_000 });
  expect(finish).toHaveBeenCalledTimes(3);
  expect(receiver.received).toHaveLength(1);
});
