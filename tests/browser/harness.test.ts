import { once } from "node:events";
import { readdir, readFile, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import sharp from "sharp";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { launchChromium } from "./chromium.ts";
import { type Faults, type RunningProvider, signInAs, startOpenIdProvider } from "./oidc-provider.ts";
import { bytesOfFirstPaint, LOOKS, openPage, screenshot, seriousViolations } from "./page.ts";
import { type RelyingParty, startRelyingParty } from "./relying-party.ts";

const POLICY = "default-src 'none'; style-src 'self'; font-src 'self'; script-src 'self'; img-src 'self'";

const page = (main: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Darkroom</title><link rel="stylesheet" href="/style.css">
<main><h1>Jobs</h1>${main}</main></html>`;

const STYLE = `
@font-face { font-family: Own; src: url(/own.woff2) }
:root { color-scheme: light dark; background: #fff; color: #000 }
@media (prefers-color-scheme: dark) { :root { background: #111; color: #fff } }
h1 { font-family: Own, sans-serif }
.pale { color: #ccc }`;

const FILES: Readonly<Record<string, readonly [type: string, body: string]>> = {
  "/good": ["text/html", page(`<p>3 → 4 <code>job_1</code></p><button>Cancel</button>`)],
  "/style.css": ["text/css", STYLE],
  "/own.woff2": ["font/woff2", "not really a font".repeat(100)],
  "/inline": ["text/html", page(`<p style="color: red">red</p><script>document.title = "ran"</script>`)],
  "/script": ["text/html", page(`<script src="/broken.js"></script>`)],
  "/broken.js": ["text/javascript", `console.error("said"); throw new Error("thrown")`],
  "/resources": ["text/html", page(`<img src="/missing.png" alt=""><img src="/cut.png" alt="">`)],
  "/unlabelled": ["text/html", page(`<input><p class="pale">pale on white</p>`)],
};

let browser: Browser;
let server: Server;
let origin: string;
const sockets = new Set<Socket>();

beforeAll(async () => {
  server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", origin);
    if (pathname === "/cut.png") return request.socket.destroy();
    const [type, body] = FILES[pathname] ?? [];
    if (type === undefined || body === undefined)
      return response.writeHead(404, { "content-type": "text/html" }).end("");
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("content-type", type);
    if (type === "font/woff2") return response.end(body);
    return response.setHeader("content-encoding", "gzip").end(gzipSync(body));
  });
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  [browser] = await Promise.all([launchChromium(), once(server, "listening")]);
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(async () => {
  await browser?.close();
  server?.closeAllConnections();
  server?.close();
});

/** The processes under this one. */
async function descendants(): Promise<Set<number>> {
  const parents = new Map<number, number>();
  for (const name of await readdir("/proc")) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, "utf8").catch(() => "") : "";
    if (stat !== "") parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
  }
  const found = new Set([process.pid]);
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  }
  return found;
}

describe("a browser", () => {
  it("leaves no process and no profile when it is closed", async () => {
    const profiles = async () => (await readdir(tmpdir())).filter((name) => name.startsWith("playwright"));
    const [before, profilesBefore] = [await descendants(), await profiles()];
    const another = await launchChromium();
    const its = [...(await descendants())].filter((pid) => !before.has(pid));
    expect(its.length).toBeGreaterThan(1);
    await another.close();
    const alive = await Promise.all(its.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
    expect(alive.join("")).toBe("");
    expect((await profiles()).filter((name) => !profilesBefore.includes(name))).toEqual([]);
  });
});

describe("a page", () => {
  it.each(LOOKS)("that is good has no problem, no violation and a picture: $device, $scheme", async (look) => {
    const opened = await openPage(browser, look);
    await opened.page.goto(`${origin}/good`);
    expect(await seriousViolations(opened.page)).toEqual([]);
    const path = await screenshot(opened.page, "harness");
    expect(path).toMatch(new RegExp(`/test-results/screenshots/harness\\.${look.device}\\.${look.scheme}\\.png$`));
    const { channels } = await sharp(path).stats();
    const { width } = await sharp(path).metadata();
    expect(width).toBe(look.device === "phone" ? 780 : 1280);
    // Text on its ground: both are there, and mostly the ground.
    for (const { min, max, mean } of channels.slice(0, 3)) {
      expect(max - min).toBeGreaterThan(200);
      if (look.scheme === "light") expect(mean).toBeGreaterThan(200);
      else expect(mean).toBeLessThan(55);
    }
    expect(await opened.problems()).toEqual([]);
    await opened.close();
    await rm(path);
  });

  it.each([true, false])(
    "that breaks its content security policy is noticed, javaScriptEnabled %s",
    async (scripts) => {
      const { page, problems, close } = await openPage(browser, {}, { javaScriptEnabled: scripts });
      await page.goto(`${origin}/inline`);
      expect(await page.title()).toBe("Darkroom");
      const kinds = (await problems()).map(({ kind }) => kind);
      expect(kinds).toEqual(scripts ? ["csp", "csp"] : ["csp"]);
      await close();
    },
  );

  it("that logs an error and throws another is noticed", async () => {
    const { page, problems, close } = await openPage(browser);
    await page.goto(`${origin}/script`);
    expect(await problems()).toEqual([
      { kind: "console", text: "said", url: `${origin}/broken.js` },
      { kind: "exception", text: expect.stringContaining("thrown"), url: `${origin}/script` },
    ]);
    await close();
  });

  it("that asks for what fails is noticed, and being an error page is no problem", async () => {
    const { page, problems, close } = await openPage(browser);
    expect((await page.goto(`${origin}/nowhere`))?.status()).toBe(404);
    expect(await problems()).toEqual([]);
    await page.goto(`${origin}/resources`);
    expect(new Set(await problems())).toEqual(
      new Set([
        { kind: "request", text: "status 404", url: `${origin}/missing.png` },
        { kind: "request", text: "net::ERR_EMPTY_RESPONSE", url: `${origin}/cut.png` },
      ]),
    );
    await close();
  });

  it("that shuts people out is noticed, in the scheme where it does", async () => {
    const dark = await openPage(browser, { scheme: "dark" });
    await dark.page.goto(`${origin}/unlabelled`);
    const label = expect.stringMatching(/^label \(critical\) at input: Fix any of/);
    expect(await seriousViolations(dark.page)).toEqual([label]);
    await dark.close();
    const { page, problems, close } = await openPage(browser);
    await page.goto(`${origin}/unlabelled`);
    const contrast = expect.stringMatching(/^color-contrast \(serious\) at p: .* contrast of 1\.6 /);
    expect(await seriousViolations(page)).toEqual([contrast, label]);
    expect(await page.evaluate(() => "axe" in window)).toBe(false);
    expect(await problems()).toEqual([]);
    await close();
    const without = await openPage(browser, {}, { javaScriptEnabled: false });
    await expect(seriousViolations(without.page)).rejects.toThrow("JavaScript");
    await without.close();
  });

  it("is weighed as it is sent: document, style sheets and fonts", async () => {
    const { page, close } = await openPage(browser, { device: "phone" });
    const sent = () => [...sockets].reduce((sum, socket) => sum + socket.bytesWritten, 0);
    const before = sent();
    const { total, resources } = await bytesOfFirstPaint(page, `${origin}/good`);
    // In the order of their ends, which is the browser's affair.
    expect(resources.map(({ url, kind }) => `${kind} ${new URL(url).pathname}`).sort()).toEqual([
      "document /good",
      "font /own.woff2",
      "stylesheet /style.css",
    ]);
    await expect.poll(() => sent() - before).toBe(total);
    expect(page.url()).toBe("about:blank");
    await close();
  });
});

const ADA = { sub: "ada-1", email: "ada@example.com", email_verified: true, name: "Ada", roles: ["operator"] };

describe.each([
  { client: "a public client", claimsInIdToken: false },
  { client: "a client with a secret", clientSecret: "a-secret-of-some-length" },
])("a provider for $client", ({ client: _, ...options }) => {
  it("signs somebody in, once for several visits, and out again", async () => {
    const provider = await startOpenIdProvider({ people: { ada: ADA }, host: "localhost", ...options });
    const party = await startRelyingParty(provider);
    const { page, problems, close } = await openPage(browser);
    await page.goto(party.origin);
    await page.getByRole("link", { name: "Sign in" }).click();
    expect(await seriousViolations(page)).toEqual([]);
    await signInAs(page, "nobody");
    await page.getByText("Nobody has this user name.").waitFor();
    await signInAs(page, "ada");
    const shown = async () => JSON.parse((await page.locator("pre").textContent()) ?? "");
    expect(await shown()).toMatchObject({ ...ADA, iss: provider.issuer });
    provider.setPerson("ada", { ...ADA, email_verified: false });
    provider.misbehave({ delay_ms: { discovery: 20, jwks: 20, token: 20, userinfo: 20 } });
    await page.goto(`${party.origin}/sign-in`);
    expect(await shown()).toMatchObject({ email_verified: false });
    provider.misbehave({ authorization: "login_required" });
    await page.goto(`${party.origin}/sign-in`);
    expect(await page.getByRole("alert").textContent()).toBe("OAUTH_AUTHORIZATION_RESPONSE_ERROR");
    provider.misbehave();
    provider.allowRedirect(`${party.origin}/`);
    const signOut = new URLSearchParams({
      client_id: provider.clientId,
      post_logout_redirect_uri: `${party.origin}/`,
    });
    await page.goto(`${provider.issuer}/session/end?${signOut}`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(`${party.origin}/`);
    await page.getByRole("link", { name: "Sign in" }).click();
    await page.getByLabel("User name").waitFor();
    expect(await problems()).toEqual([]);
    await close();
    await party.stop();
    await provider.stop();
    await expect(fetch(provider.issuer)).rejects.toThrow();
  });
});

describe("a provider", () => {
  let provider: RunningProvider;
  let party: RelyingParty;
  let impatient: RelyingParty;

  beforeAll(async () => {
    provider = await startOpenIdProvider({ people: { ada: ADA } });
    party = await startRelyingParty(provider);
    impatient = await startRelyingParty(provider, 1_000);
  });
  afterEach(() => provider.misbehave());
  afterAll(async () => {
    await party?.stop();
    await impatient?.stop();
    await provider?.stop();
  });

  it("lets somebody cancel", async () => {
    const { page, close } = await openPage(browser);
    await page.goto(`${party.origin}/sign-in`);
    await page.getByRole("button", { name: "Cancel" }).click();
    expect(await page.getByRole("alert").textContent()).toBe("OAUTH_AUTHORIZATION_RESPONSE_ERROR");
    await close();
  });

  const FAULTS: readonly (readonly [Faults, code: string])[] = [
    [{ idToken: "wrong-nonce" }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED"],
    [{ idToken: "no-nonce" }, "OAUTH_INVALID_RESPONSE"],
    [{ idToken: "wrong-issuer" }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED"],
    [{ idToken: "wrong-audience" }, "OAUTH_JWT_CLAIM_COMPARISON_FAILED"],
    [{ idToken: "expired" }, "OAUTH_JWT_TIMESTAMP_CHECK_FAILED"],
    [{ idToken: "other-key" }, "OAUTH_INVALID_RESPONSE"],
    [{ idToken: "unsigned" }, "OAUTH_INVALID_RESPONSE"],
    [{ responseIssuer: "https://other.example" }, "OAUTH_INVALID_RESPONSE"],
    [{ answers: { token: { status: 400, body: { error: "invalid_grant" } } } }, "OAUTH_RESPONSE_BODY_ERROR"],
    [{ answers: { token: { status: 502, body: "<h1>Bad gateway</h1>" } } }, "OAUTH_RESPONSE_IS_NOT_CONFORM"],
    [{ answers: { jwks: { status: 200, body: { keys: [] } } } }, "OAUTH_KEY_SELECTION_FAILED"],
    [{ delay_ms: { token: 60_000 } }, "TimeoutError"],
  ];

  it.each(FAULTS)("is refused after its login page: %j", async (faults, code) => {
    const { page, close } = await openPage(browser);
    provider.misbehave(faults);
    await page.goto(`${(faults.delay_ms ? impatient : party).origin}/sign-in`);
    await signInAs(page, "ada");
    expect(await page.getByRole("alert").textContent()).toBe(code);
    await close();
  });

  const EARLY_FAULTS: readonly (readonly [Faults, code: string])[] = [
    [{ authorization: "temporarily_unavailable" }, "OAUTH_AUTHORIZATION_RESPONSE_ERROR"],
    [
      { answers: { discovery: { status: 200, body: { issuer: "https://other.example" } } } },
      "OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED",
    ],
    [{ answers: { discovery: { status: 500, body: {} } } }, "OAUTH_RESPONSE_IS_NOT_CONFORM"],
    [{ delay_ms: { discovery: 60_000 } }, "TimeoutError"],
  ];

  it.each(EARLY_FAULTS)("is refused before anybody signs in: %j", async (faults, code) => {
    const { page, close } = await openPage(browser);
    provider.misbehave(faults);
    await page.goto(`${(faults.delay_ms ? impatient : party).origin}/sign-in`);
    expect(await page.getByRole("alert").textContent()).toBe(code);
    await close();
  });
});
