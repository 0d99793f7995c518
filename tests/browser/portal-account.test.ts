import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { Webhook } from "standardwebhooks";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { JobRecord } from "../../schemas/job.ts";
import { getJob, submitJob } from "../../scripts/local/client.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import type { DevelopmentAccount, LocalFile } from "../../scripts/local/state.ts";
import {
  newFolder,
  QUICK_PROMPT,
  removeFolder,
  SLOW_PROMPT,
  type Started,
  start,
  submitPrompt,
  untilTerminal,
  waitFor,
} from "../e2e/stack.ts";
import { launchChromium } from "./chromium.ts";
import { notice, signInForDevelopment, type Visitor, visitor } from "./portal.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** An owner and the pages of an account, against the API that the pages are about. */

const run = promisify(execFile);

const BROKEN_PROMPT = JSON.stringify({
  "7": { class_type: "LoadImage", inputs: { image: "no-such-picture.png" } },
  "8": { class_type: "SaveImage", inputs: { images: ["7", 0], filename_prefix: "x" } },
});
/** As slow as the square of its width. */
const slow = (width: number): string => SLOW_PROMPT.replace("2560", String(width));

const EVIL_NAME = `<img src=x onerror="document.title='owned'"><b>bold</b> & "quoted"`;

let browser: Browser;
let folder: string;
let service: Started;
let receiver: Receiver;
let failing: Receiver;
const open: Visitor[] = [];

/** An account with a key, as a client of the API has it. */
interface Account extends LocalFile, DevelopmentAccount {}

/** @param pool one without runners keeps jobs waiting */
async function newAccount(pool?: string): Promise<Account> {
  const { base_url, operator_token } = service.local;
  const settings = { email: "owner@example.com", tier: "pro", ...(pool === undefined ? {} : { pool }) };
  const account = await callOperator<Record<string, unknown>>(base_url, operator_token, "POST", "/accounts", settings);
  return { ...service.local, ...(account as unknown as DevelopmentAccount) };
}

/** Jobs whose webhooks fail: all four attempts take half a minute, so they begin first. */
let unlucky: { account: Account; jobs: readonly string[] };

beforeAll(async () => {
  folder = await newFolder();
  [browser, service, receiver, failing] = await Promise.all([
    launchChromium(),
    start(folder),
    startReceiver(),
    startReceiver(503),
  ]);
  const account = await newAccount("nobody");
  const jobs = await Promise.all(
    [1, 2, 3].map(async () => (await submitPrompt(account, QUICK_PROMPT, { webhook_url: failing.url })).job_id),
  );
  for (const job_id of jobs) await api(account.api_key, `/jobs/${job_id}/cancel`, "POST");
  unlucky = { account, jobs };
});

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

afterAll(async () => {
  await browser?.close();
  await service?.signal("SIGINT");
  await Promise.all([receiver?.stop(), failing?.stop()]);
  if (folder) await removeFolder(folder);
});

interface Answer {
  readonly status: number;
  readonly code?: string | undefined;
}

async function api(key: string, path = "/limits", method = "GET"): Promise<Answer> {
  const response = await fetch(`${service.local.base_url}/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
  });
  const answer = (await response.json()) as { error?: { code: string } };
  return { status: response.status, code: answer.error?.code };
}

interface Owner extends Visitor {
  /** The address of every request that the browser made. */
  readonly urls: readonly string[];
}

async function owner(account_id: string, options: Parameters<typeof visitor>[3] = {}): Promise<Owner> {
  const one = await visitor(browser, service.local.base_url, {}, options);
  open.push(one);
  const urls: string[] = [];
  one.context.on("request", (request) => urls.push(request.url()));
  await signInForDevelopment(one, { account_id });
  return { ...one, urls };
}

const title = (at: Visitor) => at.page.getByRole("heading", { level: 1 }).textContent();

/** Presses the page's first button to copy, and sees it say so. */
async function copy({ page }: Visitor): Promise<void> {
  await page.getByRole("button", { name: "Copy" }).first().click();
  await page.locator("button[data-copy]", { hasText: "Copied" }).waitFor();
}

/** A form as a program would send it. */
async function send(
  at: Visitor,
  path: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; text: string; location: string | null }> {
  const { base_url } = service.local;
  const response = await fetch(`${base_url}${path}`, {
    method: "POST",
    redirect: "manual",
    headers: { cookie: `__Host-session=${(await at.session())?.value}`, origin: base_url, ...headers },
    body: new URLSearchParams(fields),
  });
  return { status: response.status, text: await response.text(), location: response.headers.get("location") };
}

const csrfOf = (at: Visitor) => at.page.locator("input[name=csrf]").first().getAttribute("value");
const rows = (at: Visitor) => at.page.locator("tbody tr");

/** Nothing went wrong in the browser, and no address had one of these in it. */
async function allIsWell(at: Owner, ...secrets: readonly string[]): Promise<void> {
  expect(await at.problems()).toEqual([]);
  for (const secret of secrets) expect(at.urls.filter((url) => url.includes(secret))).toEqual([]);
}

describe("a key", () => {
  it("is made, shown once, copied, used, and revoked at once", async () => {
    const { account_id } = await newAccount();
    const ana = await owner(account_id, { permissions: ["clipboard-read", "clipboard-write"] });
    await ana.page.getByRole("link", { name: "Keys" }).click();
    await ana.page.getByLabel("Name of the new key").fill("  production server ");
    await ana.page.getByRole("button", { name: "Create key" }).click();
    const key = (await ana.page.locator("#key").textContent())?.trim() ?? "";
    expect(await notice(ana.page).textContent()).toMatch(/shown this once/);
    await copy(ana);
    expect(await ana.page.evaluate(() => navigator.clipboard.readText())).toBe(key);
    expect(await api(key)).toEqual({ status: 200 });

    await ana.page.getByRole("link", { name: "I have copied it" }).click();
    await ana.page.waitForURL("**/portal/keys");
    const row = ana.page.getByRole("row", { name: /production server/ });
    expect(await row.textContent()).toContain(`${key.slice(0, 12)}…`);
    expect(await row.textContent()).toContain("active");
    expect(await row.textContent()).not.toContain("never");
    expect(await ana.page.content()).not.toContain(key);

    await row.getByRole("link", { name: "Revoke production server" }).click();
    expect(await title(ana)).toBe("Revoke “production server”?");
    await ana.page.getByRole("link", { name: "Keep it" }).click();
    expect(await api(key)).toEqual({ status: 200 });
    await row.getByRole("link", { name: "Revoke production server" }).click();
    await ana.page.getByRole("button", { name: "Revoke the key" }).click();
    expect(await notice(ana.page).textContent()).toMatch(/is revoked/);
    expect(await api(key)).toEqual({ status: 401, code: "revoked_api_key" });
    expect(await row.textContent()).toContain("revoked");
    expect(await row.getByRole("link").count()).toBe(0);
    // The other key of the account goes on.
    expect(await ana.page.getByRole("row", { name: /first key/ }).textContent()).toContain("active");
    await allIsWell(ana, key);
  });

  it("the same without script, where a double click makes one key", async () => {
    const { account_id } = await newAccount();
    const ana = await owner(account_id, { javaScriptEnabled: false });
    await ana.page.getByRole("link", { name: "Keys" }).click();
    await ana.page.getByLabel("Name of the new key").fill("twice");
    await ana.page.getByRole("button", { name: "Create key" }).dblclick();
    const key = (await ana.page.locator("#key").textContent())?.trim() ?? "";
    // It needs the script.
    expect(await ana.page.getByRole("button", { name: "Copy" }).count()).toBe(0);
    expect(await api(key)).toEqual({ status: 200 });
    await ana.page.getByRole("link", { name: "I have copied it" }).click();
    await ana.page.waitForURL("**/portal/keys");
    expect(await ana.page.getByRole("row", { name: /twice/ }).count()).toBe(1);
    await ana.page.getByRole("link", { name: "Revoke twice" }).click();
    await ana.page.getByRole("button", { name: "Revoke the key" }).dblclick();
    await ana.page.waitForURL("**/portal/keys?done=revoked");
    expect(await api(key)).toEqual({ status: 401, code: "revoked_api_key" });
    await allIsWell(ana, key);
  });

  it("a form that is sent twice at the same time makes one, and both answers show it", async () => {
    const { account_id } = await newAccount();
    const ana = await owner(account_id);
    await ana.go("/portal/keys");
    const csrf = (await csrfOf(ana)) ?? "";
    const form = (await ana.page.locator("input[name=form]").getAttribute("value")) ?? "";
    const answers = await Promise.all([1, 2, 3].map(() => send(ana, "/portal/keys", { csrf, form, name: "double" })));
    const shown = answers.map(({ text }) => /id="key"[^>]*>([^<]+)</.exec(text)?.[1]?.trim());
    expect(new Set(shown).size).toBe(1);
    expect(shown[0]).toBeDefined();
    await ana.go("/portal/keys");
    expect(await ana.page.getByRole("row", { name: /double/ }).count()).toBe(1);
  });

  it("with HTML in its name is shown as text; without a name or with a very long one it is refused", async () => {
    const { account_id } = await newAccount();
    const ana = await owner(account_id);
    await ana.go("/portal/keys");
    await ana.page.getByLabel("Name of the new key").fill(EVIL_NAME);
    await ana.page.getByRole("button", { name: "Create key" }).click();
    expect(await ana.page.locator("main").textContent()).toContain(EVIL_NAME);
    for (const path of ["/portal/keys", "/portal/limits", "/portal/usage", "/portal/jobs"]) {
      await ana.go(path);
      expect(await ana.page.locator("main img, main b").count(), path).toBe(0);
    }
    await ana.go("/portal/keys");
    expect(await rows(ana).filter({ hasText: EVIL_NAME }).count()).toBe(1);
    await rows(ana).filter({ hasText: EVIL_NAME }).getByRole("link").click();
    expect(await title(ana)).toBe(`Revoke “${EVIL_NAME}”?`);

    await ana.go("/portal/keys");
    for (const name of ["x".repeat(10_000), "🙂".repeat(3000), "   "]) {
      // As somebody whose browser minds neither maxlength nor required.
      await ana.page.getByLabel("Name of the new key").evaluate((input, value) => {
        for (const attribute of ["maxlength", "required"]) input.removeAttribute(attribute);
        (input as HTMLInputElement).value = value;
      }, name);
      await ana.page.getByRole("button", { name: "Create key" }).click();
      expect(await notice(ana.page).textContent()).toBe("Give the key a name of 1 to 100 characters.");
      expect((await ana.page.content()).length).toBeLessThan(20_000);
    }
    expect(await rows(ana).count()).toBe(2);
    await allIsWell(ana);
  });

  it("of a form that is no form of this session is not made", async () => {
    const [mine, another] = [await newAccount(), await newAccount()];
    const [ana, bert] = [await owner(mine.account_id), await owner(another.account_id)];
    await ana.go("/portal/keys");
    await bert.go("/portal/keys");
    const csrf = (await csrfOf(ana)) ?? "";
    const form = "abcdefghijklmnopqrst";
    const key = { csrf, form, name: "forged" };
    const { csrf: _, ...without } = key;
    const cases: Readonly<Record<string, [number, Parameters<typeof send>[2], Record<string, string>?]>> = {
      "no token": [403, without],
      "another session's token": [403, { ...key, csrf: (await csrfOf(bert)) ?? "" }],
      "an empty token": [403, { ...key, csrf: "" }],
      "another origin": [403, key, { origin: "https://evil.example" }],
      "another port": [403, key, { origin: "http://127.0.0.1:1" }],
      "an opaque origin": [403, key, { origin: "null" }],
      "no origin": [403, key, { origin: "" }],
      "no form": [400, { ...key, form: "" }],
      "a form of megabytes": [400, { ...key, filler: "x".repeat(1_000_000) }],
      "no session": [303, key, { cookie: "" }],
    };
    for (const [what, [status, fields, headers]] of Object.entries(cases))
      expect((await send(ana, "/portal/keys", fields, headers)).status, what).toBe(status);
    for (const path of ["/portal/webhooks/secret", "/portal/webhooks/regenerate", "/portal/sign-out-everywhere"])
      expect((await send(ana, path, { seen: "0" })).status, path).toBe(403);
    await ana.go("/portal/keys");
    expect(await rows(ana).count()).toBe(1);
    // Neither does anything of another account.
    const hash = (await bert.page.getByRole("link", { name: /^Revoke/ }).getAttribute("href")) ?? "";
    expect(await ana.go(hash)).toBe(404);
    expect((await send(ana, hash, { csrf })).status).toBe(404);
    expect(await api(another.api_key)).toEqual({ status: 200 });
  });
});

it("the webhook secret is shown on demand and regenerated once; for a day both sign", async () => {
  const account = await newAccount();
  const { account_id, webhook_secret } = account;
  const ana = await owner(account_id);
  await ana.page.getByRole("link", { name: "Webhooks" }).click();
  expect(await ana.page.content()).not.toContain(webhook_secret);
  await ana.page.getByRole("button", { name: "Show the secret" }).click();
  const shown = async () => (await ana.page.locator("#secret").textContent())?.trim();
  expect(await shown()).toBe(webhook_secret);
  await ana.page.getByRole("link", { name: "Hide" }).click();
  expect(await ana.page.content()).not.toContain(webhook_secret);

  await ana.page.getByRole("link", { name: "Regenerate…" }).click();
  const stale = {
    csrf: (await csrfOf(ana)) ?? "",
    seen: (await ana.page.locator("input[name=seen]").getAttribute("value")) ?? "",
  };
  await ana.page.getByRole("button", { name: "Regenerate" }).click();
  expect(await notice(ana.page).textContent()).toMatch(/new secret/);
  await ana.page.getByRole("button", { name: "Show the secret" }).click();
  const current = (await shown()) ?? "";
  expect(current).toMatch(/^[0-9a-f]{64}$/);
  expect(current).not.toBe(webhook_secret);
  const standard = (await ana.page.locator("#standard").textContent())?.trim() ?? "";

  const { job_id } = await submitPrompt(account, QUICK_PROMPT, { webhook_url: receiver.url });
  const got = await waitFor("the webhook", () => receiver.got.find((one) => one.job_id === job_id));
  const header = (name: string): string => String(got.headers[name]);
  const hmac = createHmac("sha256", current)
    .update(`${header("x-webhook-timestamp")}.${got.body}`)
    .digest("hex");
  expect(header("x-webhook-signature")).toBe(`sha256=${hmac}`);
  expect(header("webhook-signature").split(" ")).toHaveLength(2);
  const headers = Object.fromEntries(
    ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => [name, header(name)]),
  );
  for (const secret of [standard, `whsec_${Buffer.from(webhook_secret).toString("base64")}`])
    expect(new Webhook(secret).verify(got.body, headers)).toMatchObject({ job_id });

  // A page that was open since before changes nothing.
  expect((await send(ana, "/portal/webhooks/regenerate", stale)).location).toBe("/portal/webhooks?done=stale");
  expect((await send(ana, "/portal/webhooks/regenerate", { csrf: stale.csrf, seen: "many" })).status).toBe(400);
  await ana.go("/portal/webhooks?done=stale");
  expect(await notice(ana.page).textContent()).toMatch(/nothing was changed/);
  await ana.page.getByRole("button", { name: "Show the secret" }).click();
  expect(await shown()).toBe(current);
  await allIsWell(ana, webhook_secret, current);
});

describe("a job", () => {
  it("is watched from the queue to its picture, without a reload", async () => {
    const account = await newAccount();
    const ana = await owner(account.account_id);
    const list = await owner(account.account_id);
    expect(await list.page.locator(".empty").textContent()).toMatch(/no job yet/);
    // The runner has two seats: the third waits.
    for (const width of [1280, 1280]) await submitPrompt(account, slow(width));
    const { job_id: last } = await submitPrompt(account, slow(1800));
    await ana.go(`/portal/jobs/${last}`);
    await ana.page.evaluate(() => Object.assign(window, { mark: "not reloaded" }));
    const state = ana.page.locator("#job .state").first();
    expect(await state.textContent()).toBe("queued");
    await list.page.locator("tbody tr").nth(2).waitFor();
    await ana.page.locator("#job .state", { hasText: "running" }).waitFor({ timeout: 60_000 });
    await ana.page.locator("#job .state", { hasText: "completed" }).waitFor({ timeout: 60_000 });
    const picture = ana.page.locator("#job img");
    await picture.waitFor();
    await picture.scrollIntoViewIfNeeded();
    await waitFor("the picture", async () =>
      (await picture.evaluate((img) => (img as HTMLImageElement).naturalWidth)) > 0 ? true : undefined,
    );
    expect(await ana.page.evaluate(() => (window as unknown as { mark?: string }).mark)).toBe("not reloaded");
    expect(await ana.page.locator("ol.timeline li").allTextContents()).toEqual([
      expect.stringMatching(/submitted$/),
      expect.stringMatching(/started:? after/),
      expect.stringMatching(/completed: .* in the engine/),
    ]);
    expect(await ana.page.getByRole("button", { name: "Cancel the job" }).count()).toBe(0);
    await waitFor("the list to follow", async () =>
      (await list.page.locator("tbody .state", { hasText: "completed" }).count()) === 3 ? true : undefined,
    );
    await allIsWell(ana, account.api_key);
    await allIsWell(list, account.api_key);
  });

  it("that failed names its node, and is copied as the call that reads it", async () => {
    const account = await newAccount();
    const { job_id } = await submitPrompt(account, BROKEN_PROMPT);
    await untilTerminal(account, job_id);
    const ana = await owner(account.account_id, { permissions: ["clipboard-read", "clipboard-write"] });
    await ana.page.locator(`a[title="${job_id}"]`).click();
    await ana.page.locator("#job").waitFor();
    expect(await notice(ana.page).textContent()).toMatch(/^invalid_prompt at node 7: /);
    await copy(ana);
    const curl = await ana.page.evaluate(() => navigator.clipboard.readText());
    expect(curl.trim()).toBe(`curl -s ${account.base_url}/v1/jobs/${job_id} -H "Authorization: Bearer $KEY"`);
    await ana.go("/portal/jobs?status=failed");
    expect(await rows(ana).count()).toBe(1);
    await ana.go("/portal/jobs?status=completed");
    expect(await ana.page.locator(".empty").textContent()).toBe("No job of this kind.");
    await allIsWell(ana);
  });

  it("that waits is cancelled, also without script, and can be submitted again as shown", async () => {
    const account = await newAccount("nobody");
    const awkward = `{"prompt":${QUICK_PROMPT},"metadata":{"note":"it's <b>odd</b> $HOME \`id\`"}}`;
    const { job_id } = await submitJob(account, awkward);
    const ana = await owner(account.account_id, { javaScriptEnabled: false });
    await ana.go(`/portal/jobs/${job_id}`);
    const curl = (await ana.page.locator("#curl").textContent()) ?? "";
    const { stdout } = await run("bash", ["-c", curl.trim()], {
      env: { ...process.env, KEY: account.api_key },
    });
    const copy = await getJob(account, (JSON.parse(stdout) as JobRecord).job_id);
    expect(copy.metadata).toEqual({ note: "it's <b>odd</b> $HOME `id`" });
    await ana.page.getByRole("button", { name: "Cancel the job" }).dblclick();
    await ana.page.locator(".state", { hasText: "cancelled" }).first().waitFor();
    expect((await getJob(account, job_id)).status).toBe("cancelled");
    expect((await getJob(account, copy.job_id)).status).toBe("queued");
    await allIsWell(ana);
  });

  it("of another account is not there", async () => {
    const [mine, another] = [await newAccount("nobody"), await newAccount("nobody")];
    const { job_id } = await submitPrompt(another, QUICK_PROMPT, { webhook_url: receiver.url });
    const ana = await owner(mine.account_id);
    for (const id of [job_id, "00000000-0000-4000-8000-000000000000", "nonsense", "%3Cscript%3E"]) {
      expect(await ana.go(`/portal/jobs/${id}`)).toBe(404);
      expect(await title(ana)).toBe("No such job");
    }
    await ana.go("/portal/webhooks");
    const csrf = (await csrfOf(ana)) ?? "";
    expect((await send(ana, `/portal/jobs/${job_id}/cancel`, { csrf })).status).toBe(404);
    expect((await send(ana, "/portal/deliveries/redeliver", { csrf, job: job_id, request: "r1" })).status).toBe(404);
    expect((await getJob(another, job_id)).status).toBe("queued");
    await allIsWell(ana);
  });
});

it("usage and limits show the numbers", async () => {
  const account = await newAccount("nobody");
  const ana = await owner(account.account_id);
  await ana.go("/portal/usage");
  expect(await ana.page.locator(".empty").textContent()).toMatch(/Nothing was used/);
  for (let n = 0; n < 3; n += 1) await submitPrompt(account, QUICK_PROMPT);
  await ana.go("/portal/usage?days=7");
  const row = ana.page.getByRole("row", { name: /first key/ });
  expect(await row.getByRole("cell").allTextContents()).toEqual([
    expect.stringContaining("first key"),
    "3",
    "3",
    expect.any(String),
  ]);
  expect(await ana.page.locator("main svg").count()).toBe(3);
  await ana.go("/portal/limits");
  expect(await ana.page.locator("dl.tiles").textContent()).toMatch(/Pro.*1 of 20.*1 of 20/s);
  const [, left] = await ana.page
    .getByRole("row", { name: /first key/ })
    .getByRole("cell")
    .allTextContents();
  expect(left).toMatch(/^\d+ of \d+$/);
  const [remaining = 0, limit = 0] = (left ?? "").split(" of ").map(Number);
  expect(limit - remaining).toBe(3);
  await allIsWell(ana);
});

it("pages are kept nowhere, and carry their policy", async () => {
  const ana = await owner(service.local.account_id);
  const paths = [
    "jobs",
    "deliveries",
    "usage",
    "keys",
    "webhooks",
    "webhooks/regenerate",
    "limits",
    "sign-in",
    "nothing",
  ];
  for (const path of paths) {
    const response = await ana.page.goto(`${service.local.base_url}/portal/${path}`);
    const headers = response?.headers() ?? {};
    expect(headers["cache-control"], path).toBe("no-store");
    const policy = headers["content-security-policy"] ?? "";
    expect(policy, path).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(policy, path).not.toMatch(/unsafe/);
  }
  await allIsWell(ana);
});

describe("a delivery that failed", () => {
  it("is delivered again from the page, one and then all, without script", async () => {
    const { account, jobs } = unlucky;
    const ana = await owner(account.account_id, { javaScriptEnabled: false });
    const failed = async () => {
      await ana.go("/portal/deliveries?state=failed");
      return rows(ana).count();
    };
    await waitFor("the deliveries to fail", async () => ((await failed()) === 3 ? true : undefined), 60_000);
    expect(await rows(ana).first().textContent()).toMatch(/failed \(503\)/);
    const before = failing.got.length;
    expect(before).toBe(12);
    failing.answer(204);
    const [first = ""] = jobs;
    await ana.page.getByRole("button", { name: `Deliver again: job ${first}` }).dblclick();
    expect(await notice(ana.page).textContent()).toMatch(/is being delivered/);
    await waitFor("it to come", () => failing.got.slice(before).find(({ job_id }) => job_id === first));
    await waitFor("one less", async () => ((await failed()) === 2 ? true : undefined));

    await ana.page.getByRole("button", { name: "Deliver all failed again" }).click();
    expect(await notice(ana.page).textContent()).toBe("2 failed deliveries are being made again.");
    await waitFor("all to come", () => (failing.got.length === before + 3 ? true : undefined));
    await waitFor("no more", async () => ((await failed()) === 0 ? true : undefined));
    await ana.page.getByRole("button", { name: "Deliver all failed again" }).click();
    expect(await notice(ana.page).textContent()).toBe("There was no failed delivery.");
    await ana.go(`/portal/jobs/${first}`);
    expect((await ana.page.locator("ol.timeline li").allTextContents()).at(-1)).toMatch(/webhook delivered/);
    expect(failing.got.length).toBe(before + 3);
    await allIsWell(ana, "webhooks?", account.webhook_secret);
  });
});
