import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import type { Browser, Page } from "playwright-core";
import sharp from "sharp";
import { launchChromium } from "../tests/browser/chromium.ts";
import { type Look, type Opened, openPage } from "../tests/browser/page.ts";
import { getJob, isTerminal, submitJob } from "./local/client.ts";
import { callOperator } from "./local/operator.ts";
import { freePort } from "./local/ports.ts";
import { type LocalService, startService } from "./local/service.ts";
import { onStopSignal } from "./local/signals.ts";
import { makeFolder, newSecrets, type Secrets } from "./local/state.ts";

/**
 * The pictures of docs/portal.md, made anew: a local service in a folder of its own, two accounts with some jobs, and a browser that
 * looks at it. What is older than the run (usage, the age of keys) is made up. No secret is in a picture.
 */

const root = join(import.meta.dirname, "..");
const PICTURES = join(root, "docs", "pictures");
const MOST_BYTES = 60_000;
const DAY_MS = 86_400_000;
const USAGE_DAYS = 30;

const say = (line: string): void => console.log(`  ${line}`);

interface Account {
  readonly account_id: string;
  readonly base_url: string;
  /** Keys by their names. */
  readonly keys: Readonly<Record<string, string>>;
}

const stops: (() => Promise<unknown>)[] = [];
async function stop(): Promise<void> {
  for (const one of stops.splice(0).reverse()) await one().catch((error: unknown) => say(String(error)));
}

async function until<T>(what: string, look: () => Promise<T | undefined>, timeout_ms = 70_000): Promise<T> {
  const deadline = Date.now() + timeout_ms;
  for (;;) {
    const seen = await look();
    if (seen !== undefined) return seen;
    if (Date.now() > deadline) throw new Error(`Waited ${timeout_ms / 1000} s for ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

// The service and its data.

async function receiver(status: number, text: string): Promise<string> {
  const server: Server = createServer((request, response) => {
    request.resume().once("end", () => response.writeHead(status, { "content-type": "text/plain" }).end(text));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stops.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`;
}

async function account(
  base_url: string,
  token: string,
  email: string,
  tier: string,
  names: readonly string[],
): Promise<Account> {
  const { account_id, api_key } = await callOperator<{ account_id: string; api_key: string }>(
    base_url,
    token,
    "POST",
    "/accounts",
    { email, tier },
  );
  const keys: Record<string, string> = { first: api_key };
  for (const name of names) {
    const path = `/accounts/${account_id}/keys`;
    keys[name] = (await callOperator<{ api_key: string }>(base_url, token, "POST", path, { name })).api_key;
  }
  return { account_id, base_url, keys };
}

const tablesOf = (db: DatabaseSync): Set<unknown> =>
  new Set(
    db
      .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
      .all()
      .map(({ name }) => name),
  );

/** Gives accounts and keys an age, and the keys some use. The service must not run. */
async function pretendAges(storage: string): Promise<void> {
  const now = Date.now();
  const files = await readdir(storage, { recursive: true });
  for (const file of files.filter((name) => name.endsWith(".sqlite"))) {
    const db = new DatabaseSync(join(storage, file));
    const tables = tablesOf(db);
    if (tables.has("accounts")) db.prepare("UPDATE accounts SET created_at = created_at - ?").run(41 * DAY_MS);
    if (tables.has("keys") && tables.has("usage")) {
      const keys = db.prepare("SELECT key_hash FROM keys WHERE revoked_at IS NULL ORDER BY created_at").all();
      db.prepare("UPDATE keys SET created_at = created_at - ?").run(USAGE_DAYS * DAY_MS);
      const add = db.prepare("INSERT INTO usage (day, key_hash, requests, jobs, gpu_ms) VALUES (?, ?, ?, ?, ?)");
      for (const [at, { key_hash }] of keys.entries())
        for (let ago = 1; ago < USAGE_DAYS; ago++) {
          const day = Math.floor(now / DAY_MS) - ago;
          // 1970 began on a Thursday: the weekend is quieter.
          const quiet = [2, 3].includes(day % 7) ? 0.3 : 1;
          const jobs = Math.round((quiet * randomInt(60, 140)) / (at + 1) ** 2);
          add.run(day, key_hash ?? null, jobs * 6, jobs, jobs * randomInt(2_000, 4_000));
        }
    }
    db.close();
  }
}

async function service(folder: string, secrets: Secrets, port: number): Promise<LocalService> {
  const log = createWriteStream(join(folder, "log.txt"), { flags: "a", mode: 0o600 });
  return startService({
    root,
    storage: join(folder, "storage"),
    port,
    secrets,
    strict: false,
    log: (line) => void log.write(`${line}\n`),
    onRestart: () => say("workerd died and was started again"),
  });
}

/** A runner with a name of its own; the local start calls all of them "local". */
async function runner(folder: string, base_url: string, operator_token: string, name: string, seats: number) {
  const { token } = await callOperator<{ token: string }>(base_url, operator_token, "POST", "/runner-tokens", {});
  const listen = `127.0.0.1:${await freePort(0, true, say)}`;
  const options = {
    "--edge": base_url,
    "--url": `http://${listen}`,
    "--listen": listen,
    "--name": name,
    "--token": token,
  };
  const places = { "--data": join(folder, name), "--inputs": join(root, "examples", "inputs") };
  const args = Object.entries({ ...options, ...places, "--seats": String(seats), "--grace": "1" }).flat();
  const child = spawn(process.execPath, [join("gpu-runner", "main.ts"), ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const ended = once(child, "exit");
  stops.push(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  const ready = (async () => {
    for await (const line of createInterface({ input: child.stdout })) if (line.includes(" ready at ")) return true;
    return false;
  })();
  if (!(await ready)) throw new Error(`The runner ${name} ended at its start.`);
}

const example = (name: string): Promise<string> => readFile(join(root, "examples", `${name}.json`), "utf8");

/** Keeps the engine busy for some seconds. */
const LONG = JSON.stringify({
  "1": { class_type: "LoadImage", inputs: { image: "dusk.png" } },
  "2": {
    class_type: "ImageScale",
    inputs: { image: ["1", 0], upscale_method: "lanczos", width: 2560, height: 0, crop: "disabled" },
  },
  ...Object.fromEntries(
    Array.from({ length: 6 }, (_, n) => [
      String(n + 3),
      { class_type: "ImageBlur", inputs: { image: [String(n + 2), 0], blur_radius: 31, sigma: 10 } },
    ]),
  ),
  "9": { class_type: "SaveImage", inputs: { images: ["8", 0], filename_prefix: "long" } },
});

const accessOf = ({ base_url, keys }: Account, key: string) => ({ base_url, api_key: keys[key] ?? "" });

async function submit(owner: Account, key: string, prompt: string, more: Record<string, unknown> = {}) {
  const rest = Object.entries(more).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return (await submitJob(accessOf(owner, key), `{"prompt":${prompt}${rest.join("")}}`)).job_id;
}

const ended = (owner: Account, key: string, job_id: string) =>
  until(`job ${job_id} to end`, async () => {
    const record = await getJob(accessOf(owner, key), job_id);
    return isTerminal(record) && record.webhook?.status !== "pending" ? record : undefined;
  });

async function cancelAll(owner: Account, key: string, job_ids: readonly string[]): Promise<void> {
  const { base_url, api_key } = accessOf(owner, key);
  const headers = { authorization: `Bearer ${api_key}` };
  for (const job_id of job_ids) await fetch(`${base_url}/v1/jobs/${job_id}/cancel`, { method: "POST", headers });
}

// The browser.

async function signIn(
  browser: Browser,
  { account_id, base_url }: Account,
  role: "owner" | "operator",
  look: Partial<Look> = {},
): Promise<Opened> {
  const viewport = look.device === "phone" ? {} : { viewport: { width: 1120, height: 900 } };
  const opened = await openPage(browser, look, { ...viewport, deviceScaleFactor: 1 });
  const { page } = opened;
  await page.goto(`${base_url}/portal/jobs`);
  await page.getByLabel("Account").selectOption(account_id);
  await page.getByLabel("As").selectOption(role);
  await page.getByRole("button", { name: "Sign in for development" }).click();
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
  return opened;
}

/** Dots in the place of all characters but the first ones. */
const mask = (page: Page, selector: string, shown: number): Promise<void> =>
  page.locator(selector).evaluate((element, length) => {
    const text = element.textContent;
    element.textContent = text.slice(0, length) + "•".repeat(text.length - length);
  }, shown);

interface Cut {
  /** With the bar and the links above the page. */
  readonly header?: boolean;
  /** The picture ends above what this selects. */
  readonly before?: string;
  readonly most?: number;
}

async function picture(page: Page, name: string, { header = false, before, most = 1000 }: Cut = {}): Promise<void> {
  await page.evaluate(() => document.fonts.ready.then(() => scrollTo(0, 0)));
  const main = await page.locator("main").boundingBox();
  const last = await page.locator("main > :last-child").boundingBox();
  const end = before === undefined ? undefined : await page.locator(before).first().boundingBox();
  const width = page.viewportSize()?.width;
  if (!main || !last || !width || (before !== undefined && !end)) throw new Error(`${name} has nothing to show.`);
  const top = header ? 0 : main.y;
  const bottom = end ? end.y - 8 : last.y + last.height + 24;
  const shot = await page.screenshot({
    fullPage: true,
    animations: "disabled",
    clip: { x: 0, y: top, width, height: Math.min(bottom - top, most) },
  });
  const path = join(PICTURES, `${name}.png`);
  for (const colours of [256, 128, 64, 32]) {
    const small = await sharp(shot).png({ palette: true, colours, effort: 10, dither: 0.5 }).toBuffer();
    if (small.length > MOST_BYTES && colours > 32) continue;
    await writeFile(path, small);
    say(`${relative(process.cwd(), path)}  ${Math.round(small.length / 1000)} kB`);
    return;
  }
}

async function close({ problems, close: end }: Opened): Promise<void> {
  const found = await problems();
  await end();
  if (found.length > 0) throw new Error(`The browser met problems: ${JSON.stringify(found)}`);
}

async function ownersPictures(browser: Browser, owner: Account, completed: string, failed: string): Promise<void> {
  const opened = await signIn(browser, owner, "owner");
  const { page } = opened;
  const show = (path: string) => page.goto(`${owner.base_url}/portal/${path}`);

  const long = [await submit(owner, "production server", LONG), await submit(owner, "laptop", LONG)];
  for (let i = 0; i < 3; i++) long.push(await submit(owner, "production server", LONG));
  await show("jobs");
  await page.locator("td progress").first().waitFor();
  await picture(page, "jobs", { header: true });
  const phone = await signIn(browser, owner, "owner", { device: "phone", scheme: "dark" });
  await phone.page.locator("progress").first().waitFor();
  await picture(phone.page, "phone", { header: true, most: 844 });
  await close(phone);
  await cancelAll(owner, "production server", long);

  await show(`jobs/${completed}`);
  await page.waitForFunction(() => [...document.images].every(({ naturalWidth }) => naturalWidth > 0));
  await picture(page, "job-completed", { before: "main > h2" });
  await show(`jobs/${failed}`);
  await picture(page, "job-failed", { before: "main > h2" });
  await show("keys");
  await picture(page, "keys");
  await page.getByLabel("Name of the new key").fill("render farm");
  await page.getByRole("button", { name: "Create key" }).click();
  await page.getByRole("heading", { name: "Your new key" }).waitFor();
  await mask(page, "#key", 12);
  await picture(page, "new-key");
  await show("webhooks");
  await page.getByRole("button", { name: "Show the secret" }).click();
  await page.locator("#secret").waitFor();
  await mask(page, "#secret", 0);
  await mask(page, "#standard", "whsec_".length);
  await picture(page, "webhooks");
  await show("deliveries");
  await picture(page, "deliveries");
  await show("usage");
  await picture(page, "usage", { before: "figure.plot:nth-of-type(3)" });
  await close(opened);
}

async function operatorsPictures(browser: Browser, owner: Account, other: Account): Promise<void> {
  const opened = await signIn(browser, owner, "operator");
  const { page } = opened;
  const theirs = [await submit(other, "catalogue", LONG), await submit(other, "catalogue", LONG)];
  const long: string[] = [];
  for (let i = 0; i < 4; i++) long.push(await submit(owner, "production server", LONG));
  await page.goto(`${owner.base_url}/portal/operator`);
  await page.locator("#fleet td ul li").first().waitFor();
  await picture(page, "fleet", { header: true, before: "main > h2:last-of-type" });
  await page.goto(`${owner.base_url}/portal/operator/accounts/${other.account_id}`);
  await picture(page, "account", { header: true });
  await cancelAll(owner, "production server", long);
  await cancelAll(other, "catalogue", theirs);
  await close(opened);
}

async function make(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-pictures-"));
  stops.push(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  await makeFolder(folder);
  await mkdir(PICTURES, { recursive: true });
  const secrets = await newSecrets();
  const { operator_token } = secrets;
  const port = await freePort(8787, false, () => {});

  say("makes accounts that are some weeks old");
  const before = await service(folder, secrets, port);
  stops.push(() => before.stop());
  const { baseUrl } = before;
  const names = ["production server", "laptop"];
  const owner = await account(baseUrl, operator_token, "mara@northlight.example", "pro", names);
  await callOperator(baseUrl, operator_token, "POST", `/accounts/${owner.account_id}/keys/revoke`, {
    key: owner.keys.first?.slice(0, 12),
  });
  const other = await account(baseUrl, operator_token, "studio@posters.example", "enterprise", ["catalogue"]);
  await before.stop();
  stops.pop();
  await pretendAges(join(folder, "storage"));

  say("starts the service, two runners and a browser");
  const after = await service(folder, secrets, port);
  stops.push(() => after.stop());
  const browser = await launchChromium();
  stops.push(() => browser.close());
  await Promise.all([1, 2].map((seats) => runner(folder, baseUrl, operator_token, `berlin-${seats}`, seats)));

  say("runs some jobs; a webhook needs 36 s to fail");
  const good = await receiver(204, "");
  const bad = await receiver(503, "Closed for maintenance until 14:00.");
  const key = "production server";
  const [poster, negative, hello] = [await example("poster"), await example("negative"), await example("hello")];
  const unanswered = await submit(owner, key, hello, { webhook_url: bad });
  const failed = await submit(owner, "laptop", poster.replace("dusk.png", "dawn.png"), { webhook_url: good });
  await ended(owner, "laptop", failed);
  await ended(owner, key, await submit(owner, "laptop", negative));
  const completed = await submit(owner, key, poster, { webhook_url: good, metadata: { order: 7 } });
  await ended(owner, key, completed);
  await ended(other, "catalogue", await submit(other, "catalogue", negative, { webhook_url: good }));
  await ended(owner, key, unanswered);
  await ownersPictures(browser, owner, completed, failed);
  await operatorsPictures(browser, owner, other);
}

onStopSignal(stop);
try {
  await make();
  await stop();
  process.exit(0);
} catch (error) {
  console.error(error instanceof Error ? (error.stack ?? error.message) : error);
  await stop();
  process.exit(1);
}
