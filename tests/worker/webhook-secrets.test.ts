import { Webhook } from "standardwebhooks";
import { beforeEach, expect, it, vi } from "vitest";
import { failedJob, hmacHex, PlayedReceiver, type Received } from "./played-receiver.ts";
import { playInternet } from "./played-runner.ts";
import { newAccount, operator, type TestAccount } from "./service.ts";

/** Signatures as stock libraries check them, and the day on which two secrets sign (contract section 5). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

interface Replaced {
  readonly webhook_secret: string;
  readonly standard_webhooks_secret: string;
}

const replaceSecret = ({ account_id }: TestAccount): Promise<Replaced> =>
  operator(`/accounts/${account_id}/webhook-secret`, {});

async function delivered(account: TestAccount): Promise<Received> {
  const receiver = new PlayedReceiver();
  await failedJob(account, receiver.url);
  return vi.waitFor(() => {
    const [first] = receiver.received;
    if (!first) throw new Error("Nothing was delivered.");
    return first;
  });
}

const verifies = (secret: string, { headers, body }: Received): boolean => {
  try {
    new Webhook(btoa(secret)).verify(body, Object.fromEntries(headers));
    return true;
  } catch {
    return false;
  }
};

const isSignedBy = async (secret: string, { headers, body }: Received): Promise<boolean> =>
  headers.get("x-webhook-signature") ===
  `sha256=${await hmacHex(secret, `${headers.get("x-webhook-timestamp")}.${body}`)}`;

const signatures = ({ headers }: Received): number => headers.get("webhook-signature")?.split(" ").length ?? 0;

it("is verified by the Standard Webhooks library, and no altered body is", async () => {
  const account = await newAccount();
  const delivery = await delivered(account);
  expect(verifies(account.webhook_secret, delivery)).toBe(true);
  const altered = { ...delivery, body: delivery.body.replace("queue_timeout", "queue-timeout") };
  expect(verifies(account.webhook_secret, altered)).toBe(false);
  expect(verifies("0".repeat(64), delivery)).toBe(false);
  expect(signatures(delivery)).toBe(1);
});

it("signs with both secrets for a day after the secret was replaced, its own header by the new one", async () => {
  const account = await newAccount();
  const { webhook_secret, standard_webhooks_secret } = await replaceSecret(account);
  expect(webhook_secret).toMatch(/^[0-9a-f]{64}$/);
  expect(webhook_secret).not.toBe(account.webhook_secret);
  expect(standard_webhooks_secret).toBe(`whsec_${btoa(webhook_secret)}`);

  const both = await delivered(account);
  expect(signatures(both)).toBe(2);
  expect([verifies(webhook_secret, both), verifies(account.webhook_secret, both)]).toEqual([true, true]);
  new Webhook(standard_webhooks_secret).verify(both.body, Object.fromEntries(both.headers));
  expect(await isSignedBy(webhook_secret, both)).toBe(true);
});
