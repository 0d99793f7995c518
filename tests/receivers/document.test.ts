import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import * as v from "valibot";
import { expect, it } from "vitest";
import {
  CancelledNotification,
  CompletedNotification,
  DeliveryFailure,
  FailedNotification,
  JobEventList,
  WebhookDelivery,
} from "../../schemas/webhook.ts";
import { deliveryHeaders } from "../../worker/webhooks/signature.ts";
import { delivery, newEvent, newSecret } from "./deliveries.ts";
import { block, blocks, folderOf, ROOT, removeFolder } from "./document.ts";
import { RECEIVERS } from "./receivers.ts";

/** The rest of docs/webhooks.md: the examples and the check of X-Webhook-Signature. */

const run = promisify(execFile);

/** The secret that the page gives for its example. */
const SECRET = "0123456789abcdef".repeat(4);

/** The example of a delivery. */
async function example(): Promise<{ headers: Record<string, string>; body: string }> {
  const [head = "", body = ""] = (await block("delivery.http")).split("\n\n");
  const headers = head
    .split("\n")
    .slice(1)
    .map((line): [string, string] => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]);
  return { headers: Object.fromEntries(headers), body: body.trimEnd() };
}

type IsAuthentic = (
  headers: Readonly<Record<string, string | undefined>>,
  body: Buffer,
  secrets: readonly string[],
  now?: number,
) => boolean;

async function documentedCheck(): Promise<IsAuthentic> {
  const folder = await folderOf("x-webhook-signature.mjs");
  const { isAuthentic } = await import(join(folder, "x-webhook-signature.mjs"));
  await removeFolder(folder);
  return isAuthentic;
}

const lowerCase = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

it("has no titled block that no test knows", async () => {
  expect([...(await blocks()).keys()].sort()).toEqual(
    [
      ...RECEIVERS.map(({ title }) => title),
      "wrangler.toml",
      "x-webhook-signature.mjs",
      "delivery.http",
      "completed.json",
      "failed.json",
      "cancelled.json",
      "delivery-log.json",
      "events.json",
    ].sort(),
  );
});

it("shows the delivery that the service would send", async () => {
  const { headers, body } = await example();
  const now = Date.parse(headers["X-Webhook-Timestamp"] ?? "");
  const { job_id, status } = JSON.parse(body);
  const sent = await deliveryHeaders({
    body,
    secrets: [SECRET],
    now,
    attempt_id: headers["X-Webhook-ID"] ?? "",
    event_id: `evt_${job_id}`,
    event: `job.${status}`,
  });
  expect(headers).toEqual(sent);
  expect((await documentedCheck())(lowerCase(headers), Buffer.from(body), [SECRET], now)).toBe(true);
});

it.each([
  ["completed.json", CompletedNotification],
  ["failed.json", FailedNotification],
  ["cancelled.json", CancelledNotification],
  ["delivery-log.json", WebhookDelivery],
  ["events.json", JobEventList],
])("shows in %s a body as the service sends it", async (title, schema) => {
  const body = JSON.parse(await block(title));
  expect(v.parse(schema, body)).toEqual(body);
});

it("explains each failure that a log may name", async () => {
  const page = await readFile(join(ROOT, "docs", "webhooks.md"), "utf8");
  expect(DeliveryFailure.options.filter((failure) => !page.includes(`\`${failure}\``))).toEqual([]);
});

it("checks X-Webhook-Signature by the newest secret, in time, over the bytes", async () => {
  const isAuthentic = await documentedCheck();
  const [fresh, old] = [newSecret(), newSecret()];
  const now = Date.now();
  const { headers: sent, body } = await delivery(newEvent(), { secrets: [fresh, old], now });
  const headers = lowerCase(sent);
  const check = (change: Record<string, string | undefined>, at = now, secrets = [fresh, old], bytes = body) =>
    isAuthentic({ ...headers, ...change }, bytes, secrets, at);
  const given = headers["x-webhook-signature"] ?? "";

  expect(check({})).toBe(true);
  expect(check({}, now, [old, fresh])).toBe(true);
  expect(check({}, now, [old])).toBe(false);
  expect(check({}, now, [])).toBe(false);
  expect(check({}, now, [fresh], Buffer.concat([body, Buffer.from(" ")]))).toBe(false);
  for (const offset of [-300_000, 300_000]) expect(check({}, now + offset)).toBe(true);
  for (const offset of [-300_001, 300_001]) expect(check({}, now + offset)).toBe(false);
  for (const timestamp of [undefined, "", "soon", "NaN", String(now), "2026-01-15"])
    expect(check({ "x-webhook-timestamp": timestamp })).toBe(false);
  for (const signature of [
    undefined,
    "",
    "sha256=",
    given.slice(0, -1),
    `${given}0`,
    given.slice("sha256=".length),
    given.toUpperCase(),
    given.replace(/.$/, (last) => (last === "0" ? "1" : "0")),
    `${given.slice(0, -1)}é`,
  ])
    expect(check({ "x-webhook-signature": signature })).toBe(false);
});

it("has a Worker that compiles strictly", async () => {
  const folder = await folderOf("worker.ts");
  const compilerOptions = {
    target: "ES2024",
    lib: ["ES2024"],
    module: "ESNext",
    moduleResolution: "Bundler",
    types: ["@cloudflare/workers-types"],
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
  };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["worker.ts"] }));
  const tsc = join(ROOT, "node_modules", "typescript", "bin", "tsc");
  const compiled = await run(process.execPath, [tsc, "-p", folder]).then(
    () => "",
    ({ stdout }: { stdout: string }) => stdout,
  );
  await removeFolder(folder);
  expect(compiled).toBe("");
});
