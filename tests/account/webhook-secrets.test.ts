import { expect, test } from "vitest";
import { beginDelivery } from "../../worker/account/notifications.ts";
import { RETIRED_SECRET_MS, replaceWebhookSecret, signingSecrets } from "../../worker/account/webhook-secrets.ts";
import { completed, ended, jobId, NOW, openAccount, place, SECRET, send } from "./fixture.ts";

const secret = (n: number): string => String(n).repeat(64);

test("a replaced secret signs beside the new one for 24 h, and not a millisecond longer", () => {
  const { account, restart } = openAccount();
  replaceWebhookSecret(account, secret(6), NOW);
  for (const one of [account, restart()]) {
    expect(signingSecrets(one.mustSettings, NOW)).toEqual([secret(6), SECRET]);
    expect(signingSecrets(one.mustSettings, NOW + RETIRED_SECRET_MS - 1)).toEqual([secret(6), SECRET]);
    expect(signingSecrets(one.mustSettings, NOW + RETIRED_SECRET_MS)).toEqual([secret(6)]);
  }
});

test("a repeated call replaces nothing", () => {
  const { account } = openAccount();
  replaceWebhookSecret(account, secret(6), NOW);
  replaceWebhookSecret(account, secret(6), NOW + 1);
  expect(signingSecrets(account.mustSettings, NOW + 2)).toEqual([secret(6), SECRET]);
});

test("of several replaced within a day three go on signing, the latest; what is over a day old is forgotten", () => {
  const { account } = openAccount();
  for (const n of [6, 7, 8, 9]) replaceWebhookSecret(account, secret(n), NOW + n);
  expect(signingSecrets(account.mustSettings, NOW + 10)).toEqual([secret(9), secret(8), secret(7), secret(6)]);
  replaceWebhookSecret(account, secret(1), NOW + 2 * RETIRED_SECRET_MS);
  expect(account.mustSettings.retired_webhook_secrets?.map((retired) => retired.secret)).toEqual([secret(9)]);
});

test("an attempt is signed with the secrets of its own time", () => {
  const { account } = openAccount();
  send(account, 1, { webhook_url: "https://hooks.example/a" });
  place(account, 1);
  ended(account, 1, 1, completed());
  replaceWebhookSecret(account, secret(6), NOW + 5);
  expect(beginDelivery(account, jobId(1), 1, NOW + 10)).toMatchObject({
    kind: "granted",
    secrets: [secret(6), SECRET],
  });
});
