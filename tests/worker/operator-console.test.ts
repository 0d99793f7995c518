import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { sha256 } from "../../schemas/signed-request.ts";
import { listAudit } from "../../worker/directory/audit.ts";
import { insertAccount, listPools, searchAccounts } from "../../worker/directory/directory.ts";
import { listFailedDeliveries, noteFailedDelivery } from "../../worker/directory/failed-deliveries.ts";
import {
  countSignUp,
  endSessions,
  findInvitation,
  ownersOf,
  putIdentity,
  signUpsSince,
  useInvitation,
} from "../../worker/directory/identities.ts";
import { failedJob, PlayedReceiver } from "./played-receiver.ts";
import { CSRF, ISS, Person } from "./person.ts";
import { PlayedRunner, playInternet } from "./played-runner.ts";
import { accountObject, api, BASE, call, newAccount, operator, submitted, type TestAccount } from "./service.ts";

/** The operators' console, as a browser without script uses it. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const auditLines = async (actor: string): Promise<string[]> =>
  (await listAudit(env.DIRECTORY, undefined, 1_000))
    .filter((entry) => entry.actor === actor)
    .map(({ action, subject, failed }) => `${action}: ${subject}${failed === 1 ? " (failed)" : ""}`)
    .reverse();

const actorOf = ({ session }: Person): string => `${session.name} (${session.identity.sub})`;

const tokenIn = (html: string): string => /dre_[\w-]+/.exec(html)?.[0] ?? "";
const linkIn = (html: string): string => /\/portal\/invitations\/([\w-]{43})/.exec(html)?.[1] ?? "";

describe("the console", () => {
  it("is not there for those who are no operators, and sends strangers to the sign-in", async () => {
    const owner = await Person.make({ operator: false });
    for (const path of ["", "/accounts", "/deliveries", "/invitations", "/audit", "/live"])
      expect((await owner.get(path)).status, path).toBe(404);
    expect((await owner.post("/enrol", { pool: "default", seats: "1" })).status).toBe(404);
    const stranger = await call("/portal/operator/accounts", { redirect: "manual" });
    expect(stranger.status).toBe(303);
    expect(stranger.headers.get("location")).toBe("/portal/sign-in?return_to=%2Fportal%2Foperator%2Faccounts");
  });

  it("lets in whom the provider gave the role, until their sessions are ended", async () => {
    const ada = await Person.make();
    expect((await ada.get("")).status).toBe(200);
    await endSessions(env.DIRECTORY, ada.session.identity);
    expect((await ada.get("")).status).toBe(404);
    expect((await ada.post("/enrol", { pool: "default", seats: "1" })).status).toBe(404);
  });

  it("keeps out an operator whom the directory does not know", async () => {
    const identity = { iss: ISS, sub: "never seen" };
    const ghost = await Person.make({ identity });
    expect((await ghost.get("")).status).toBe(404);
  });

  it("refuses forms without this session's token, with another's, and from elsewhere", async () => {
    const ada = await Person.make();
    const { account_id } = await newAccount("free");
    const path = `/accounts/${account_id}/suspend`;
    expect((await ada.post(path, { csrf: "" })).status).toBe(403);
    expect((await ada.post(path, { csrf: "csrf-of-another-session" })).status).toBe(403);
    expect((await ada.post(path, {}, { origin: "https://evil.example" })).status).toBe(403);
    expect((await ada.post(path, {}, { origin: "null" })).status).toBe(403);
    expect((await ada.post(path, { form: "" })).status).toBe(400);
    expect((await searchAccounts(env.DIRECTORY, { text: account_id }, 1))[0]?.suspended).toBe(0);
    expect(await auditLines(actorOf(ada))).toEqual([]);
  });

  it("sends its pages with headers that let nothing else run or keep them", async () => {
    const response = await (await Person.make()).get("");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
    const html = await response.text();
    expect(html).not.toMatch(/ style=|<style|<script(?! src="\/portal\/assets\/)/);
  });
});

describe("the fleet's page", () => {
  it("shows an empty fleet for a pool that nobody has used, and says no to what is no name", async () => {
    const ada = await Person.make();
    const html = await ada.page("?pool=nobody-was-here");
    expect(html).toContain("No runner is enrolled in the pool nobody-was-here");
    expect(html).toContain("Nothing ran in the last 24 hours");
    expect((await ada.get("?pool=../default")).status).toBe(400);
  });

  it("makes a token that enrols, shows it once for a form however often it is sent, and never lists it", async () => {
    const ada = await Person.make();
    const form = crypto.randomUUID();
    const pool = "console-enrol";
    const responses = await Promise.all([1, 2].map(() => ada.post("/enrol", { pool, seats: "3", form })));
    const [first = "", second = ""] = await Promise.all(responses.map((response) => response.text()));
    expect(responses.map(({ status }) => status)).toEqual([201, 201]);
    const token = tokenIn(first);
    expect(token).toMatch(/^dre_console-enrol_[\w-]{43}$/);
    expect(tokenIn(second)).toBe(token);
    expect(first).toContain(`--edge ${BASE} --url https://RUNNER.EXAMPLE.NET --seats 3 --token ${token}`);
    expect(await auditLines(actorOf(ada))).toEqual(["enrolment token made: pool console-enrol, most seats 3"]);
    const runner = await PlayedRunner.make(pool);
    const enrolled = await runner.enrol(token);
    expect(enrolled.status).toBe(200);
    expect(await enrolled.json()).toMatchObject({ pool, max_seats: 3 });
    // Spent it is shown no more, and the form gives it no second life.
    expect((await ada.post("/enrol", { pool, seats: "3", form })).status).toBe(409);
    const other = await PlayedRunner.make(pool);
    expect((await other.enrol(token)).status).toBe(403);
    expect(await ada.page("/audit")).not.toContain(token);
    expect((await ada.post("/enrol", { pool, seats: "65" })).status).toBe(400);
  });

  it("shows runners with what they run, and escapes their names", async () => {
    const ada = await Person.make();
    const pool = "console-shows";
    const runner = await PlayedRunner.make(pool);
    const token = tokenIn(await (await ada.post("/enrol", { pool, seats: "2" })).text());
    const name = `<img src=x onerror=alert(1)>${"long".repeat(15)}`;
    runner.take(await (await runner.enrol(token, { name })).json());
    await runner.start();
    const account = await newAccount("pro", pool);
    const { job_id } = await submitted(account.api_key);
    await runner.dispatched(job_id);
    await runner.beat();
    const html = await ada.page(`?pool=${pool}`);
    expect(html).not.toContain("<img");
    expect(html).toContain("&lt;img src=x onerror=alert(1)&gt;longlong");
    expect(html).toContain(job_id);
    expect(html).toContain(`/portal/operator/accounts/${account.account_id}`);
    expect(html).toContain("1 of 2");
    expect(html).toContain("played 1");
    // The plots: drawn, described, and as a table.
    expect(html).toContain('<svg viewBox="0 0 60 100"');
    expect(html).toContain("<desc");
    expect(html.length).toBeLessThan(45_000);
    expect(await env.FLEET.getByName(pool).history()).toMatchObject({ hour: { length: 60 }, day: { length: 288 } });
  });

  it("says when something has changed, and nothing else", async () => {
    const ada = await Person.make();
    const response = await ada.get("/live?pool=console-live");
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value)).toBe("event: changed\ndata: \n\n");
    await reader?.cancel();
  });

  it("asks before a drain and a revocation, does them once, and writes them down", async () => {
    const ada = await Person.make();
    const pool = "console-drains";
    const runner = await PlayedRunner.ready(pool);
    const { runner_id } = runner;
    const asked = await ada.page(`/runners/${runner_id}/drain?pool=${pool}`);
    expect(asked).toContain("Drain “played”?");
    expect(asked).toContain(`name="csrf" value="${CSRF}"`);
    const drained = await ada.post(`/runners/${runner_id}/drain`, { pool });
    expect(drained.status).toBe(303);
    expect(drained.headers.get("location")).toBe("/portal/operator?pool=console-drains&done=drained");
    expect(await ada.page("?pool=console-drains&done=drained")).toContain("The runner drains");
    expect((await runner.beat()).drain).toBe(true);
    const form = crypto.randomUUID();
    for (let times = 0; times < 2; times++)
      expect((await ada.post(`/runners/${runner_id}/revoke`, { pool, form })).status).toBe(303);
    expect(await env.FLEET.getByName(pool).runners()).toMatchObject([{ state: "revoked" }]);
    expect(await ada.page(`?pool=${pool}`)).toContain("One revoked runner");
    expect((await ada.post("/runners/rnr_00000000000000000000/drain", { pool })).status).toBe(404);
    expect((await ada.post("/runners/%3Cscript%3E/drain", { pool })).status).toBe(404);
    expect(await auditLines(actorOf(ada))).toEqual([
      `runner drained: ${runner_id}, pool ${pool}`,
      `runner revoked: ${runner_id}, pool ${pool}`,
      `runner drained: rnr_00000000000000000000, pool ${pool} (failed)`,
    ]);
  });
});

describe("the accounts' pages", () => {
  it("find accounts by a part of the address or the id, a page at a time, each once", async () => {
    const created_at = Date.UTC(2020, 0, 1);
    const ids = Array.from({ length: 53 }, (_, i) => `acc_${String(i).padStart(3, "0")}00000000000000000`);
    for (const account_id of ids)
      await insertAccount(env.DIRECTORY, {
        account_id,
        email: `somebody_${account_id.slice(4, 7)}@paged.example`,
        tier: "free",
        pool: "default",
        // All in one millisecond: the id tells them apart.
        created_at,
      });
    const ada = await Person.make();
    const first = await ada.page("/accounts?q=paged.example");
    const next = /href="(\/portal\/operator\/accounts\?[^"]*before=[^"]*)"/.exec(first)?.[1]?.replaceAll("&amp;", "&");
    const second = await ada.page((next ?? "").replace("/portal/operator", ""));
    const shown = [first, second].map((html) => [...html.matchAll(/accounts\/(acc_\w{20})"/g)].map(([, id]) => id));
    expect(shown.map(({ length }) => length)).toEqual([50, 3]);
    expect(new Set(shown.flat()).size).toBe(53);
    expect(await ada.page("/accounts?q=somebody%5F001")).toContain("somebody_001@paged.example");
    // What stands for anything elsewhere stands for itself here.
    expect(await ada.page("/accounts?q=%25paged")).toContain("No account has “%paged” in its address or id.");
  });

  it("escape what strangers chose, in addresses, key names, notes and searches", async () => {
    const ada = await Person.make({ name: "<b>Ada</b>" });
    const { account_id } = await operator<{ account_id: string }>("/accounts", {
      email: '"><script>alert(1)</script>@x.example',
      tier: "free",
    });
    await operator(`/accounts/${account_id}/keys`, { name: "<script>alert(2)</script>" });
    await ada.post("/invitations", { tier: "free", note: "<script>alert(3)</script>" });
    for (const path of [
      `/accounts/${account_id}`,
      "/accounts?q=script",
      `/accounts?q=${encodeURIComponent("<script>alert(4)</script>")}`,
      "/invitations",
      "/audit",
    ]) {
      const html = await ada.page(path);
      expect(html, path).not.toMatch(/<script>|<b>/);
      expect(html, path).toContain("&lt;script&gt;");
    }
  });

  it("set the tier, suspend and resume: the API obeys at once, and a form sent again does nothing", async () => {
    const ada = await Person.make();
    const account = await newAccount("free");
    const path = `/accounts/${account.account_id}`;
    const status = async () => (await api(account.api_key, "/v1/limits")).status;
    expect((await ada.post(`${path}/tier`, { tier: "pro" })).headers.get("location")).toContain("?done=tier");
    expect(await (await api(account.api_key, "/v1/limits")).json()).toMatchObject({ tier: "pro" });
    expect(await ada.page(`${path}/suspend`)).toContain("Suspend test@example.com?");
    const form = crypto.randomUUID();
    expect((await ada.post(`${path}/suspend`, { form })).status).toBe(303);
    expect(await status()).toBe(403);
    expect(await ada.page(path)).toContain("Resume the account");
    await ada.post(`${path}/resume`, {});
    expect(await status()).toBe(200);
    // The form of before, from the browser's memory.
    expect((await ada.post(`${path}/suspend`, { form })).status).toBe(303);
    expect(await status()).toBe(200);
    expect((await ada.post(`${path}/tier`, { tier: "gold" })).status).toBe(400);
    expect((await ada.get("/accounts/acc_00000000000000zzzzzz")).status).toBe(404);
    expect((await ada.get("/accounts/nonsense")).status).toBe(404);
    expect(await auditLines(actorOf(ada))).toEqual([
      `tier set to pro: ${account.account_id}`,
      `account suspended: ${account.account_id}`,
      `account resumed: ${account.account_id}`,
    ]);
  });

  it("show keys by their beginning only", async () => {
    const ada = await Person.make();
    const account = await newAccount("pro");
    const html = await ada.page(`/accounts/${account.account_id}`);
    expect(html).toContain(account.api_key.slice(0, 12));
    expect(html).not.toContain(account.api_key);
    expect(html).not.toContain(account.webhook_secret);
    expect(html).toContain("first key");
  });
});

describe("invitations", () => {
  it("are shown once, stored as a hash, good for 7 days and for one", async () => {
    const ada = await Person.make();
    const form = crypto.randomUUID();
    const fields = { tier: "enterprise", note: "for Grace", form };
    const made = await (await ada.post("/invitations", fields)).text();
    const token = linkIn(made);
    expect(token).not.toBe("");
    expect(linkIn(await (await ada.post("/invitations", fields)).text())).toBe(token);
    const token_hash = await sha256(token);
    const now = Date.now();
    const invitation = await findInvitation(env.DIRECTORY, token_hash, now);
    expect(invitation).toMatchObject({ account_id: null, tier: "enterprise", note: "for Grace" });
    expect((invitation?.expires_at ?? 0) - (invitation?.created_at ?? 0)).toBe(7 * 86_400_000);
    const listed = await ada.page("/invitations");
    expect(listed).toContain("for Grace");
    expect(listed).not.toContain(token);
    expect(await auditLines(actorOf(ada))).toEqual(["invitation made: new enterprise account, for Grace"]);
    expect(await findInvitation(env.DIRECTORY, token_hash, now + 8 * 86_400_000)).toBeNull();
    const used = await Promise.all([1, 2].map(() => useInvitation(env.DIRECTORY, token_hash, now)));
    expect(used.filter((one) => one)).toHaveLength(1);
    expect((await ada.post("/invitations", fields)).status).toBe(409);
    expect((await ada.post("/invitations", { tier: "free", note: "x".repeat(201) })).status).toBe(400);
  });

  it("to an account are refused once somebody signs in to it, and earlier ones lead nowhere then", async () => {
    const ada = await Person.make();
    const { account_id } = await newAccount("pro");
    expect(await ada.page(`/accounts/${account_id}`)).toContain("Nobody signs in to this account yet");
    const token = linkIn(await (await ada.post("/invitations", { account: account_id })).text());
    const { url } = await operator<{ url: string }>("/invitations", { account_id, note: "second" });
    const hashes = await Promise.all([token, linkIn(url)].map((one) => sha256(one)));
    for (const hash of hashes)
      expect(await findInvitation(env.DIRECTORY, hash, Date.now())).toMatchObject({ account_id, tier: "pro" });
    const grace = { iss: ISS, sub: "grace" };
    expect(await useInvitation(env.DIRECTORY, hashes[0] ?? "", Date.now())).toBe(true);
    await putIdentity(env.DIRECTORY, grace, { account_id, name: "Grace Hopper" }, Date.now());
    expect(await findInvitation(env.DIRECTORY, hashes[1] ?? "", Date.now())).toBeNull();
    expect(await useInvitation(env.DIRECTORY, hashes[1] ?? "", Date.now())).toBe(false);
    expect(await ownersOf(env.DIRECTORY, account_id)).toEqual([{ ...grace, name: "Grace Hopper" }]);
    expect(await ada.page(`/accounts/${account_id}`)).toContain("Grace Hopper");
    expect((await ada.post("/invitations", { account: account_id })).status).toBe(409);
    expect((await ada.post("/invitations", { account: "acc_00000000000000zzzzzz" })).status).toBe(404);
    expect((await auditLines(actorOf(ada))).at(-2)).toBe(`invitation made: ${account_id} (failed)`);
  });

  it("can be withdrawn", async () => {
    const ada = await Person.make();
    const hash = await sha256(linkIn(await (await ada.post("/invitations", { tier: "free" })).text()));
    expect(await ada.page(`/invitations/${hash}/withdraw`)).toContain("a new free account");
    expect((await ada.post(`/invitations/${hash}/withdraw`, {})).status).toBe(303);
    expect(await findInvitation(env.DIRECTORY, hash, Date.now())).toBeNull();
    expect((await ada.get(`/invitations/${hash}/withdraw`)).status).toBe(404);
    expect((await ada.post(`/invitations/${hash}/withdraw`, {})).status).toBe(404);
  });

  it("come from the script too, for an account or a tier, not both", async () => {
    const { url, expires_at } = await operator<{ url: string; expires_at: string }>("/invitations", { tier: "pro" });
    expect(url).toMatch(new RegExp(`^${BASE}/portal/invitations/[\\w-]{43}$`));
    expect(Date.parse(expires_at)).toBeGreaterThan(Date.now() + 6.9 * 86_400_000);
    const { account_id } = await newAccount("free");
    await expect(operator("/invitations", { tier: "pro", account_id })).rejects.toThrow("not both");
    await expect(operator("/invitations", { account_id: "acc_00000000000000zzzzzz" })).rejects.toThrow("404");
    expect((await auditLines("script")).filter((line) => line.startsWith("invitation made: new pro"))).toHaveLength(1);
  });
});

it("counts open sign-ups of the last days, and forgets addresses after a month", async () => {
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  for (const [address, ago] of [
    ["192.0.2.1", 40],
    ["192.0.2.1", 2],
    ["192.0.2.2", 2],
    ["192.0.2.1", 0],
  ] as const)
    expect(await countSignUp(env.DIRECTORY, address, day(ago), 3)).toBe(true);
  expect(await signUpsSince(env.DIRECTORY, day(60))).toEqual([
    { day: day(2), count: 2 },
    { day: day(0), count: 1 },
  ]);
  for (let times = 0; times < 2; times++) await countSignUp(env.DIRECTORY, "192.0.2.1", day(0), 3);
  expect(await countSignUp(env.DIRECTORY, "192.0.2.1", day(0), 3)).toBe(false);
  expect(await (await Person.make()).page("/invitations")).toContain("Sign-ups a day, without an invitation");
});

it("knows the pools that accounts live in", async () => {
  await newAccount("free", "pool-b");
  await newAccount("free", "pool-a");
  await newAccount("pro", "pool-b");
  const pools = await listPools(env.DIRECTORY);
  expect(pools.filter((pool) => pool.startsWith("pool-"))).toEqual(["pool-a", "pool-b"]);
});

describe("the audit list", () => {
  it("has what the script did, each deed once, and no secret", async () => {
    const account = await newAccount("pro");
    const { account_id } = account;
    await operator(`/accounts/${account_id}/tier`, { tier: "free" });
    await operator(`/accounts/${account_id}/suspend`, {});
    await operator(`/accounts/${account_id}/resume`, {});
    const { webhook_secret } = await operator<{ webhook_secret: string }>(`/accounts/${account_id}/webhook-secret`, {});
    const { api_key } = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "laptop" });
    await operator(`/accounts/${account_id}/keys/revoke`, { key: api_key.slice(0, 12) });
    const lines = (await auditLines("script")).filter((line) => line.includes(account_id));
    expect(lines).toEqual([
      `account created: ${account_id}, pro, pool default`,
      `key created: ${account_id}, first key`,
      `tier set to free: ${account_id}`,
      `account suspended: ${account_id}`,
      `account resumed: ${account_id}`,
      `webhook secret replaced: ${account_id}`,
      `key created: ${account_id}, laptop`,
      `key revoked: ${account_id}, ${api_key.slice(0, 12)}…`,
    ]);
    const all = JSON.stringify(await listAudit(env.DIRECTORY, undefined, 1_000));
    for (const secret of [api_key, webhook_secret, account.api_key, account.webhook_secret])
      expect(all).not.toContain(secret);
  });

  it("is paged, the latest first", async () => {
    const ada = await Person.make();
    const { account_id } = await newAccount("free");
    for (let times = 0; times < 51; times++) await operator(`/accounts/${account_id}/resume`, {});
    const first = await ada.page("/audit");
    const next = /\/audit\?before=\d+/.exec(first)?.[0] ?? "";
    expect(next).not.toBe("");
    const second = await ada.page(next);
    expect(first.split("account resumed").length - 1).toBe(50);
    expect(second).toContain("account resumed");
    expect(second).toContain("Back to the newest");
  });
});

/** The next attempt of a job's only webhook, at once; resolves when the account knows what became of it. */
async function attempt(account: TestAccount, job: string, n: number): Promise<void> {
  const rows = () =>
    runInDurableObject(accountObject(account), (_, { storage }) =>
      storage.sql.exec("SELECT n FROM attempts ORDER BY n").toArray(),
    );
  await runInDurableObject(accountObject(account), (_, { storage }) => {
    storage.sql.exec("UPDATE deliveries SET due_at = 1000, body = json_set(body, '$.due_at', 1000)");
  });
  await exports.Courier.deliver({ account: account.account_id, job, round: 1 }, { ownHosts: [], loopback: false });
  await vi.waitFor(async () => expect(await rows()).toHaveLength(n));
}

describe("failed deliveries", () => {
  it("of all accounts are listed when a round has failed, without the secret part of their URL", async () => {
    const ada = await Person.make();
    const account = await newAccount("pro");
    const receiver = new PlayedReceiver();
    receiver.answer = () => new Response("no", { status: 503 });
    // No message arrives: the test drives.
    vi.spyOn(env.WEBHOOKS, "send").mockResolvedValue({ metadata: { metrics: { backlogCount: 0, backlogBytes: 0 } } });
    const job_id = await failedJob(account, receiver.url);
    const noted = () => listFailedDeliveries(env.DIRECTORY, { account_id: account.account_id }, 10);
    for (let n = 1; n <= 4; n++) {
      expect(await noted()).toEqual([]);
      await attempt(account, job_id, n);
    }
    await vi.waitFor(async () => expect(await noted()).toHaveLength(1), { timeout: 5_000 });
    const [line] = await noted();
    const target = new URL(receiver.url).origin;
    expect(line).toMatchObject({ job_id, round: 1, target, failure: "http_5xx", status: 503 });
    for (const path of ["/deliveries", `/deliveries?account=${account.account_id}`]) {
      const html = await ada.page(path);
      expect(html).toContain(job_id);
      expect(html).toContain("the receiver failed (503)");
      expect(html).not.toContain("s3cret");
    }
    const { account_id: other } = await newAccount("free");
    expect(await ada.page(`/deliveries?account=${other}`)).toContain("There is nothing to do.");
    expect(await ada.page(`/accounts/${account.account_id}`)).toContain("Its failed deliveries");
  });

  it("are noted once a round, at most a hundred an hour for an account, and leave after 30 days", async () => {
    const now = Date.now();
    const line = (n: number, at: number, account_id = "acc_noisy") =>
      noteFailedDelivery(env.DIRECTORY, {
        account_id,
        job_id: `job-${n}`,
        round: 1,
        at,
        target: "https://down.example",
        failure: "timeout",
        status: null,
      });
    await line(0, now - 31 * 86_400_000);
    const noted = async (account_id = "acc_noisy") =>
      (await listFailedDeliveries(env.DIRECTORY, { account_id }, 1_000)).length;
    expect(await noted()).toBe(1);
    for (let n = 1; n <= 110; n++) await line(n, now);
    await line(1, now);
    expect(await noted()).toBe(100);
    await line(200, now, "acc_quiet");
    expect(await noted("acc_quiet")).toBe(1);
    await line(201, now + 3_600_001);
    expect(await noted()).toBe(101);
  });
});
