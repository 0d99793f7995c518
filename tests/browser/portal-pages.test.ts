import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
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
import { type ClosedRunner, startClosedRunner } from "./closed-runner.ts";
import { bytesOfFirstPaint, type Look, LOOKS, screenshot, seriousViolations } from "./page.ts";
import { notice, signInForDevelopment, type Visitor, visitor } from "./portal.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

/** How every page looks, with much on it and with nothing, and what operators do. */

/** Of a first visit, without script (issue 7). */
const FIRST_PAINT_BYTES = 50_000;
const CLOSED_POOL = "closed-classes";
const LONG_NAME = `a-key-with-a-name-that-is-as-long-as-names-may-be-${"x".repeat(50)}`;

interface Account extends LocalFile, DevelopmentAccount {}

let browser: Browser;
let folder: string;
let service: Started;
let receiver: Receiver;
/** With much of everything. */
let busy: Account;
/** As it was made. */
let idle: Account;
let picture: string;
let broken: string;
/** With closed node classes, in a pool of its own. */
let closed: ClosedRunner;
const open: Visitor[] = [];

const operatorCall = <T>(path: string, body: Record<string, unknown> = {}): Promise<T> =>
  callOperator(service.local.base_url, service.local.operator_token, "POST", path, body) as Promise<T>;

async function newAccount(settings: Record<string, unknown> = {}): Promise<Account> {
  const given = { email: "owner@example.com", tier: "pro", ...settings };
  return { ...service.local, ...(await operatorCall<DevelopmentAccount>("/accounts", given)) };
}

async function furnish(): Promise<void> {
  const email = `${"somebody.with.a.very.long.name".repeat(2)}@${"department.of.an.organisation.".repeat(4)}example.com`;
  busy = await newAccount({ email, tier: "enterprise" });
  idle = await newAccount({ tier: "free" });
  const keys = `/accounts/${busy.account_id}/keys`;
  const { api_key } = await operatorCall<{ api_key: string }>(keys, { name: LONG_NAME });
  for (let n = 1; n <= 6; n += 1) await operatorCall(keys, { name: `machine ${n}` });
  await operatorCall(`${keys}/revoke`, { key: api_key.slice(0, 12) });
  const metadata = { order: "7".repeat(300), note: "a note" };
  const jobs = await Promise.all(
    Array.from({ length: 12 }, () => submitPrompt(busy, QUICK_PROMPT, { webhook_url: receiver.url, metadata })),
  );
  const wrong = JSON.stringify({
    "1": { class_type: "LoadImage", inputs: { image: `no-such-picture${"-with-a-long-name".repeat(8)}.png` } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "x" } },
  });
  broken = (await submitPrompt(busy, wrong, { webhook_url: receiver.url })).job_id;
  picture = jobs[0]?.job_id ?? "";
  await Promise.all([...jobs.map(({ job_id }) => job_id), broken].map((job_id) => untilTerminal(busy, job_id)));
  for (let n = 1; n <= 3; n += 1)
    await operatorCall("/invitations", { tier: "free", note: `${"for-somebody-".repeat(12)}${n}` });
  await operatorCall("/invitations", { account_id: idle.account_id });
  const { token } = await operatorCall<{ token: string }>("/runner-tokens", { pool: CLOSED_POOL, max_seats: 4 });
  closed = await startClosedRunner(service.local.base_url, token);
}

beforeAll(async () => {
  folder = await newFolder();
  [browser, service, receiver] = await Promise.all([launchChromium(), start(folder), startReceiver()]);
  await furnish();
});

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

afterAll(async () => {
  await browser?.close();
  await closed?.close();
  await service?.signal("SIGINT");
  await receiver?.stop();
  if (folder) await removeFolder(folder);
});

interface AsWhom {
  readonly account_id?: string;
  readonly role?: "owner" | "operator";
}

async function somebody(whom: AsWhom, look: Partial<Look> = {}): Promise<Visitor> {
  const one = await visitor(browser, service.local.base_url, look);
  open.push(one);
  if (whom.account_id !== undefined) await signInForDevelopment(one, whom);
  return one;
}

interface Shown {
  readonly name: string;
  readonly path: string;
  /** 200 unless told. */
  readonly status?: number;
}

const accountPages = (what: string): readonly Shown[] =>
  ["jobs", "deliveries", "usage", "keys", "webhooks", "limits"].map((name) => ({
    name: `${name}-${what}`,
    path: `/portal/${name}`,
  }));

/** Where the page has to be scrolled sideways: how wide it is. */
async function tooWide(page: Page): Promise<string | undefined> {
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  const there = page.viewportSize()?.width ?? 0;
  return width > there ? `${width} px wide on ${there}` : undefined;
}

/** Both widths and both schemes, each once: axe is slow. */
const isChecked = ({ device, scheme }: Look): boolean => (device === "desktop") === (scheme === "light");

/** Visits them, takes their pictures; what is wrong with them. */
async function look(at: Visitor, pages: readonly Shown[], check: boolean): Promise<string[]> {
  const wrong: string[] = [];
  for (const { name, path, status = 200 } of pages) {
    const answer = await at.go(path);
    if (answer !== status) wrong.push(`${name}: status ${answer}`);
    const wide = await tooWide(at.page);
    if (wide !== undefined) wrong.push(`${name}: ${wide}`);
    await screenshot(at.page, name);
    if (check) for (const violation of await seriousViolations(at.page)) wrong.push(`${name}: ${violation}`);
  }
  for (const { kind, text, url } of await at.problems()) wrong.push(`${kind}: ${text} at ${url}`);
  return wrong;
}

const named = ({ device, scheme }: Look): string => `${device}, ${scheme}`;

describe.each(LOOKS.map((one) => [named(one), one] as const))("on a %s screen", (_, as) => {
  it("the pages of an account in use are well", async () => {
    const ana = await somebody({ account_id: busy.account_id }, as);
    await ana.go("/portal/keys");
    const revoke =
      (await ana.page
        .getByRole("link", { name: /^Revoke/ })
        .first()
        .getAttribute("href")) ?? "";
    const pages: readonly Shown[] = [
      ...accountPages("busy"),
      { name: "job-completed", path: `/portal/jobs/${picture}` },
      { name: "job-failed", path: `/portal/jobs/${broken}` },
      { name: "key-revoke", path: revoke },
      { name: "webhooks-regenerate", path: "/portal/webhooks/regenerate" },
      { name: "no-such-job", path: "/portal/jobs/nonsense", status: 404 },
    ];
    expect(await look(ana, pages, isChecked(as))).toEqual([]);
  });

  it("the pages of a fresh account and the sign-in are well", async () => {
    const nobody = await somebody({}, as);
    expect(await look(nobody, [{ name: "sign-in", path: "/portal/sign-in" }], isChecked(as))).toEqual([]);
    const ana = await somebody({ account_id: idle.account_id }, as);
    expect(await look(ana, accountPages("empty"), isChecked(as))).toEqual([]);
  });

  it("what is shown once is well", async () => {
    const ana = await somebody({ account_id: idle.account_id }, as);
    await ana.go("/portal/keys");
    await ana.page.getByLabel("Name of the new key").fill(LONG_NAME.slice(0, 90) + as.device + as.scheme.slice(0, 1));
    await ana.page.getByRole("button", { name: "Create key" }).click();
    await ana.page.locator("#key").waitFor();
    await screenshot(ana.page, "key-created");
    expect(await seriousViolations(ana.page)).toEqual([]);
    await ana.go("/portal/webhooks");
    await ana.page.getByRole("button", { name: "Show the secret" }).click();
    await ana.page.locator("#secret").waitFor();
    await screenshot(ana.page, "webhooks-secret");
    expect(await seriousViolations(ana.page)).toEqual([]);
    expect(await tooWide(ana.page)).toBeUndefined();
  });

  it("the pages of an operator are well", async () => {
    const olga = await somebody({ account_id: busy.account_id, role: "operator" }, as);
    await olga.go("/portal/operator");
    const drain =
      (await olga.page
        .getByRole("link", { name: /^Drain/ })
        .first()
        .getAttribute("href")) ?? "";
    const account = `/portal/operator/accounts/${busy.account_id}`;
    const local =
      (await olga.page.getByRole("link", { name: "local", exact: true }).first().getAttribute("href")) ?? "";
    const pages: readonly Shown[] = [
      { name: "operator-fleet", path: "/portal/operator" },
      { name: "operator-fleet-empty", path: "/portal/operator?pool=nothing-here" },
      { name: "operator-fleet-closed", path: `/portal/operator?pool=${CLOSED_POOL}` },
      { name: "operator-runner", path: local },
      { name: "operator-runner-closed", path: `/portal/operator/runners/${closed.runner_id}?pool=${CLOSED_POOL}` },
      { name: "operator-drain", path: drain },
      { name: "operator-accounts", path: "/portal/operator/accounts" },
      { name: "operator-accounts-none", path: "/portal/operator/accounts?q=nobody-has-this" },
      { name: "operator-account", path: account },
      { name: "operator-suspend", path: `${account}/suspend` },
      { name: "operator-deliveries", path: "/portal/operator/deliveries" },
      { name: "operator-invitations", path: "/portal/operator/invitations" },
      { name: "operator-audit", path: "/portal/operator/audit" },
      { name: "operator-no-pool", path: "/portal/operator?pool=No%20Pool!", status: 400 },
    ];
    expect(await look(olga, pages, isChecked(as))).toEqual([]);
    // The names unfolded.
    await olga.go(`/portal/operator/runners/${closed.runner_id}?pool=${CLOSED_POOL}`);
    for (const summary of await olga.page.locator("summary").all()) await summary.click();
    await screenshot(olga.page, "operator-runner-closed-unfolded");
    expect(await tooWide(olga.page)).toBeUndefined();
    if (isChecked(as)) expect(await seriousViolations(olga.page)).toEqual([]);
  });
});

it("every page paints at once: few bytes, no script needed", async () => {
  const { base_url } = service.local;
  const olga = await somebody({ account_id: busy.account_id, role: "operator" });
  const paths = [
    ...accountPages("").map(({ path }) => path),
    `/portal/jobs/${picture}`,
    ...["", "/accounts", "/deliveries", "/invitations", "/audit"].map((path) => `/portal/operator${path}`),
  ];
  const heavy: string[] = [];
  for (const path of paths) {
    const { total } = await bytesOfFirstPaint(olga.page, `${base_url}${path}`);
    if (total >= FIRST_PAINT_BYTES) heavy.push(`${path}: ${total} bytes`);
  }
  expect(heavy).toEqual([]);
});

async function refused({ base_url, api_key }: LocalFile): Promise<{ status: number; code?: string }> {
  const response = await fetch(`${base_url}/v1/limits`, { headers: { authorization: `Bearer ${api_key}` } });
  const { error } = (await response.json()) as { error?: { code: string } };
  return { status: response.status, ...(error === undefined ? {} : { code: error.code }) };
}

describe("an operator", () => {
  it("suspends an account, and the API refuses it at once; resumes it, and it answers", async () => {
    const account = await newAccount({ email: "naughty@example.com" });
    expect(await refused(account)).toEqual({ status: 200 });
    const olga = await somebody({ account_id: service.local.account_id, role: "operator" });
    await olga.go("/portal/operator/accounts");
    await olga.page.getByLabel("Address or account id").fill("naughty");
    await olga.page.getByRole("button", { name: "Search" }).click();
    await olga.page.getByRole("link", { name: "naughty@example.com" }).click();
    await olga.page.getByRole("link", { name: "Suspend…" }).click();
    expect(await refused(account)).toEqual({ status: 200 });
    await olga.page.getByRole("button", { name: "Suspend the account" }).click();
    expect(await notice(olga.page).textContent()).toMatch(/suspended/);
    expect(await refused(account)).toEqual({ status: 403, code: "account_suspended" });

    // Its owner is told, and makes no key.
    const naughty = await somebody({ account_id: account.account_id, role: "owner" });
    await naughty.go("/portal/limits");
    expect(await notice(naughty.page).textContent()).toMatch(/suspended/);
    await naughty.go("/portal/keys");
    await naughty.page.getByLabel("Name of the new key").fill("another");
    await naughty.page.getByRole("button", { name: "Create key" }).click();
    expect(await notice(naughty.page).textContent()).toMatch(/suspended/);

    await olga.page.getByRole("button", { name: "Resume the account" }).click();
    expect(await notice(olga.page).textContent()).toMatch(/active again/);
    expect(await refused(account)).toEqual({ status: 200 });

    await olga.page.getByLabel("Tier").selectOption("enterprise");
    await olga.page.getByRole("button", { name: "Set the tier" }).click();
    expect(await notice(olga.page).textContent()).toMatch(/tier is changed/);
    await naughty.go("/portal/limits");
    expect(await naughty.page.locator("dl.tiles").textContent()).toContain("Enterprise");
    await olga.go("/portal/operator/audit");
    const done = await olga.page.getByRole("table").textContent();
    for (const what of ["account suspended", "account resumed", "tier set to enterprise"]) expect(done).toContain(what);
    expect(await olga.problems()).toEqual([]);
  });

  it("drains a runner with the page, and the fleet obeys", async () => {
    const olga = await somebody({ account_id: service.local.account_id, role: "operator" });
    await olga.go("/portal/operator");
    const row = olga.page.getByRole("row", { name: /local/ });
    expect(await row.textContent()).toContain("active");
    const { job_id } = await submitPrompt(service.local, SLOW_PROMPT);
    // The page follows by itself.
    await waitFor("the page to show the job", async () =>
      (await row.locator("ul li").count()) > 0 ? true : undefined,
    );
    const watched = await somebody({ account_id: service.local.account_id, role: "operator" });
    await watched.go("/portal/operator");
    await row.getByRole("link", { name: "Drain local" }).click();
    expect(await olga.page.getByRole("heading", { level: 1 }).textContent()).toBe("Drain “local”?");
    await olga.page.getByRole("button", { name: "Drain the runner" }).click();
    expect(await notice(olga.page).textContent()).toMatch(/drains/);
    await watched.page.locator("#fleet .state", { hasText: /draining|stopped/ }).waitFor();
    await service.printed(/the runner ended/);
    // It is started again here, and has the job again.
    await watched.page.locator("#fleet .state", { hasText: "active" }).waitFor({ timeout: 30_000 });
    expect((await untilTerminal(service.local, job_id)).status).toBe("completed");
    await olga.go("/portal/operator/audit");
    expect(await olga.page.getByRole("table").textContent()).toContain("runner drained");
    expect(await olga.problems()).toEqual([]);
    expect(await watched.problems()).toEqual([]);
  });
});
