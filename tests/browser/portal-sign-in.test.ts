import { SignJWT, UnsecuredJWT } from "jose";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { newFolder, removeFolder, type Started, start } from "../e2e/stack.ts";
import { launchChromium } from "./chromium.ts";
import { type Faults, type RunningProvider, signInAs, startOpenIdProvider } from "./oidc-provider.ts";
import { notice, type Visitor, visitor } from "./portal.ts";

/** Signing in at a real OpenID provider, in strict starts: as in production, but for TLS. */

const ROLE = "darkroom-operator";
const PEOPLE = {
  ana: { sub: "ana-1", name: "Ana Example", email: "ana@example.com", email_verified: true },
  /** Somebody else, of whom the provider says the same address. */
  anna: { sub: "ana-2", name: "Anna Other", email: "ana@example.com", email_verified: true },
  third: { sub: "third-1", email: "third@example.com", email_verified: false },
  fourth: { sub: "fourth-1" },
  stranger: { sub: "stranger-1", name: "A Stranger" },
  ivan: { sub: "ivan-1", name: "Ivan Invited" },
  igor: { sub: "igor-1", name: "Igor Late" },
  nina: { sub: "nina-1", name: "Nina New" },
  olga: { sub: "olga-1", name: "Olga Listed" },
  rolf: { sub: "rolf-1", name: "Rolf Role", roles: ["reader", ROLE] },
  mallory: { sub: "mallory-1", name: "Mallory", roles: [`${ROLE}s`, "operator"] },
} as const;
type Login = keyof typeof PEOPLE;

let browser: Browser;
let provider: RunningProvider;
let folder: string;
let service: Started | undefined;
let origin = "";
const open: Visitor[] = [];

/** Starts, or starts again with other settings, on the same state. */
async function serve(env: Readonly<Record<string, string>>): Promise<Started> {
  await service?.signal("SIGINT");
  const port = origin === "" ? [] : ["--port", new URL(origin).port];
  service = await start(folder, ["--strict", ...port], env);
  origin = service.local.base_url;
  return service;
}

const providerSettings = (): Record<string, string> => ({
  OIDC_ISSUER: provider.issuer,
  OIDC_CLIENT_ID: provider.clientId,
  OIDC_CLIENT_SECRET: provider.clientSecret ?? "",
  OPERATORS: JSON.stringify([[provider.issuer, PEOPLE.olga.sub]]),
  OPERATOR_ROLE: `roles=${ROLE}`,
});

beforeAll(async () => {
  folder = await newFolder();
  [browser, provider] = await Promise.all([
    launchChromium(),
    startOpenIdProvider({ people: PEOPLE, host: "localhost", clientSecret: "a-secret-of-the-client" }),
  ]);
});

afterEach(async () => {
  provider.misbehave();
  await Promise.all(open.splice(0).map((one) => one.close()));
});

afterAll(async () => {
  await browser?.close();
  await service?.signal("SIGINT");
  await provider?.stop();
  if (folder) await removeFolder(folder);
});

/** A browser that nobody has used before. */
async function fresh(options: Parameters<typeof visitor>[3] = {}): Promise<Visitor> {
  const one = await visitor(browser, origin, {}, options);
  open.push(one);
  return one;
}

/** Wants to see a page and signs in on the way to it. */
async function signIn(at: Visitor, login: Login, path = "/portal/jobs"): Promise<void> {
  await at.go(path);
  await at.page.getByRole("link", { name: "Sign in" }).click();
  await signInAs(at.page, login);
  await at.page.waitForURL(`${origin}/portal/**`);
}

async function signedIn(login: Login, path?: string): Promise<Visitor> {
  const one = await fresh();
  await signIn(one, login, path);
  return one;
}

const title = (at: Visitor) => at.page.getByRole("heading", { level: 1 }).textContent();
const operatorNav = (at: Visitor) => at.page.getByRole("navigation", { name: "Operator" }).count();

/** What the operator's script calls. */
async function operatorCall<T>(path: string, body: object): Promise<{ status: number; answer: T }> {
  const response = await fetch(`${origin}/operator${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${service?.local.operator_token}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, answer: (await response.json()) as T };
}

describe("with open sign-up", () => {
  beforeAll(async () => {
    await serve({ ...providerSettings(), SIGN_UP: "open" });
    provider.allowRedirect(`${origin}/portal/callback`);
  });

  it("a first sign-in makes a Free account and leads on; signing out and in again finds the same account", async () => {
    const ana = await fresh();
    await ana.go("/portal/limits");
    expect(ana.at()).toBe(`/portal/sign-in?return_to=${encodeURIComponent("/portal/limits")}`);
    await signIn(ana, "ana", "/portal/limits");
    expect(ana.at()).toBe("/portal/limits");
    expect(await ana.page.locator("dl.tiles").textContent()).toContain("Free");
    expect(await ana.page.locator(".who").textContent()).toContain("Ana Example");
    expect(await operatorNav(ana)).toBe(0);
    const cookies = await ana.context.cookies(origin);
    const session = await ana.session();
    expect(session).toMatchObject({ httpOnly: true, secure: true, sameSite: "Lax", path: "/", domain: "127.0.0.1" });
    expect((session?.expires ?? 0) - Date.now() / 1000).toBeLessThanOrEqual(12 * 3600);
    // Nothing of the sign-in is left.
    expect(cookies.map(({ name }) => name).filter((name) => name.startsWith("__Host-"))).toEqual(["__Host-session"]);

    await ana.go("/portal/keys");
    await ana.page.getByLabel("Name of the new key").fill("the key of Ana");
    await ana.page.getByRole("button", { name: "Create key" }).click();
    await ana.page.locator("#key").waitFor();

    await ana.page.getByRole("button", { name: "Sign out", exact: true }).click();
    await ana.page.waitForURL(`${origin}/portal/sign-in`);
    expect(await ana.session()).toBeUndefined();
    await ana.go("/portal/keys");
    expect(ana.at()).toMatch(/^\/portal\/sign-in\?/);
    // The provider still knows her.
    await ana.page.getByRole("link", { name: "Sign in" }).click();
    await ana.page.waitForURL(`${origin}/portal/keys`);
    expect(await ana.page.getByRole("table").textContent()).toContain("the key of Ana");
    expect(await ana.problems()).toEqual([]);
  });

  it("an identity is issuer and subject: the same address under another subject is somebody else", async () => {
    const anna = await signedIn("anna", "/portal/keys");
    expect(await anna.page.locator(".who").textContent()).toContain("Anna Other");
    expect(await anna.page.locator(".empty").textContent()).toContain("no key yet");
  });

  it("only so many new accounts come from one address in a day", async () => {
    const third = await signedIn("third");
    expect(third.at()).toBe("/portal/jobs");
    const fourth = await signedIn("fourth");
    expect(await title(fourth)).toBe("Too many new accounts");
    expect(await fourth.session()).toBeUndefined();
    // An operator needs none.
    const olga = await signedIn("olga");
    expect(await title(olga)).toBe("Fleet");
    // Neither is anybody in the way who has one.
    expect((await signedIn("ana")).at()).toBe("/portal/jobs");
  });

  it("signing out everywhere ends the session of another browser at its next page", async () => {
    const [here, there] = [await signedIn("ana"), await signedIn("ana")];
    expect(await there.go("/portal/keys")).toBe(200);
    expect(there.at()).toBe("/portal/keys");
    const before = await there.session();
    await here.page.getByRole("button", { name: /everywhere/ }).click();
    await here.page.waitForURL(`${origin}/portal/sign-in`);
    for (const path of ["/portal/keys", "/portal/jobs", "/portal/webhooks"]) {
      if (before) await there.context.addCookies([before]);
      await there.go(path);
      expect(there.at()).toMatch(/^\/portal\/sign-in/);
      expect(await there.session()).toBeUndefined();
    }
    await here.page.getByRole("link", { name: "Sign in" }).click();
    await here.page.waitForURL(`${origin}/portal/jobs`);
  });

  it("a forged, altered or borrowed cookie is no session", async () => {
    const ana = await signedIn("ana");
    const cookie = await ana.session();
    if (!cookie) throw new Error("There is no session.");
    const [head = "", claims = "", signature = ""] = cookie.value.split(".");
    const payload = JSON.parse(Buffer.from(claims, "base64url").toString()) as Record<string, unknown>;
    expect(JSON.stringify(payload)).not.toContain("ana@example.com");
    const asOperator = { ...payload, operator: true };
    // One that was sealed for something else: a sign-in under way.
    const begun = await fresh();
    await begun.go("/portal/sign-in/start");
    const pending = (await begun.context.cookies()).find(({ name }) => name === "__Host-sign-in");
    expect(pending?.value).toMatch(/\./);
    const forged = {
      altered: [head, Buffer.from(JSON.stringify(asOperator)).toString("base64url"), signature].join("."),
      unsigned: new UnsecuredJWT(asOperator).encode(),
      "of another key": await new SignJWT(asOperator)
        .setProtectedHeader({ alg: "HS256", typ: "portal-session+jwt" })
        .sign(new Uint8Array(32)),
      "of another purpose": pending?.value ?? "",
      empty: "",
      noise: "a.b.c",
    };
    for (const [what, value] of Object.entries(forged)) {
      const mallory = await fresh();
      await mallory.context.addCookies([{ ...cookie, value }]);
      for (const path of ["/portal/keys", "/portal/operator"]) {
        await mallory.go(path);
        expect(mallory.at(), `${what} at ${path}`).toMatch(/^\/portal\/sign-in/);
      }
    }
    // The one that was copied is good.
    const same = await fresh();
    await same.context.addCookies([cookie]);
    await same.go("/portal/keys");
    expect(same.at()).toBe("/portal/keys");
  });

  it("a way back to another host is not followed", async () => {
    const ana = await signedIn("ana");
    for (const wanted of [
      "https://evil.example/",
      "//evil.example/portal/",
      "/\\evil.example",
      "/portal/..//evil.example/",
      "/portal/%2e%2e/%2F/evil.example",
      "/portal/\r\nLocation: https://evil.example/",
      "javascript:alert(1)",
      "/v1/jobs",
    ]) {
      await ana.go(`/portal/sign-in/start?return_to=${encodeURIComponent(wanted)}`);
      expect(ana.at(), wanted).toBe("/portal/jobs");
    }
    await ana.go(`/portal/sign-in/start?return_to=${encodeURIComponent("/portal/jobs?status=failed")}`);
    expect(ana.at()).toBe("/portal/jobs?status=failed");
  });

  const FAULTS: Readonly<Record<string, Faults>> = {
    "a wrong nonce": { idToken: "wrong-nonce" },
    "no nonce": { idToken: "no-nonce" },
    "a wrong issuer in the token": { idToken: "wrong-issuer" },
    "a wrong audience": { idToken: "wrong-audience" },
    "an expired token": { idToken: "expired" },
    "a token of another key": { idToken: "other-key" },
    "an unsigned token": { idToken: "unsigned" },
    "another issuer on the way back": { responseIssuer: "https://other.example" },
    "a token endpoint that fails": { answers: { token: { status: 500, body: "<h1>Oops</h1>" } } },
    "a token endpoint that answers something else": { answers: { token: { status: 200, body: { hello: "world" } } } },
  };
  it.each(Object.entries(FAULTS))("refuses %s with a clear page and no session", async (_, faults) => {
    provider.misbehave(faults);
    const ana = await signedIn("ana");
    expect(await title(ana)).toBe("Sign in");
    expect(await notice(ana.page).textContent()).toMatch(/The provider's answer was not what it must be/);
    expect(await ana.session()).toBeUndefined();
    // Nothing stands in the way of trying again.
    provider.misbehave();
    await ana.page.getByRole("link", { name: "Sign in" }).click();
    await ana.page.waitForURL(`${origin}/portal/jobs`);
    expect(await ana.session()).toBeDefined();
  });

  it.each([
    ["access_denied", "You did not sign in."],
    ["server_error", "The provider did not let you in."],
  ])("says what %s means", async (authorization, words) => {
    provider.misbehave({ authorization });
    const ana = await fresh();
    await ana.go("/portal/sign-in/start");
    expect(await notice(ana.page).textContent()).toBe(words);
    expect(await ana.session()).toBeUndefined();
  });

  it("takes an answer only in the browser that asked, and once", async () => {
    const ana = await fresh();
    const callbacks: string[] = [];
    ana.page.on("request", (request) => {
      if (request.url().includes("/portal/callback")) callbacks.push(request.url());
    });
    await signIn(ana, "ana");
    const [callback = ""] = callbacks;
    const path = callback.slice(origin.length);
    expect(path).toMatch(/^\/portal\/callback\?/);
    const other = await fresh();
    expect(await other.go(path)).toBe(400);
    expect(await notice(other.page).textContent()).toMatch(/begun in another browser/);
    expect(await other.session()).toBeUndefined();
    await other.go("/portal/sign-in/start");
    expect(await other.go(path)).toBe(400);
    expect(await other.session()).toBeUndefined();
    await ana.context.clearCookies({ name: "__Host-session" });
    expect(await ana.go(path)).toBe(400);
    expect(await ana.session()).toBeUndefined();
  });
});

describe("with closed sign-up", () => {
  beforeAll(async () => {
    await serve({ ...providerSettings(), SIGN_UP: "closed" });
  });

  it("a provider that can't be reached is named, and used again when it is back", async () => {
    provider.misbehave({ answers: { discovery: { status: 503, body: "gone" } } });
    const ana = await fresh();
    expect(await ana.go("/portal/sign-in/start")).toBe(400);
    expect(await notice(ana.page).textContent()).toMatch(/can't be reached/);
    // The keys that its tokens are checked with, neither.
    provider.misbehave({ answers: { jwks: { status: 503, body: "" } } });
    await signIn(ana, "ana", "/portal/keys");
    expect(await notice(ana.page).textContent()).toMatch(/The provider's answer was not what it must be/);
    expect(await ana.session()).toBeUndefined();
    provider.misbehave();
    await ana.go("/portal/keys");
    await ana.page.getByRole("link", { name: "Sign in" }).click();
    await ana.page.waitForURL(`${origin}/portal/keys`);
    // Her account of before the restart.
    expect(await ana.page.getByRole("table").textContent()).toContain("the key of Ana");
  });

  it("somebody without an invitation gets a clear page and no account", async () => {
    const stranger = await signedIn("stranger");
    expect(await title(stranger)).toBe("An invitation is needed");
    expect(await stranger.session()).toBeUndefined();
    await stranger.go("/portal/keys");
    expect(stranger.at()).toMatch(/^\/portal\/sign-in/);
    expect(await stranger.problems()).toEqual([]);
  });

  it("an invitation claims an account, once", async () => {
    const { answer: account } = await operatorCall<{ account_id: string }>("/accounts", {
      email: "ivan@example.com",
      tier: "pro",
    });
    const invite = () => operatorCall<{ url: string }>("/invitations", { account_id: account.account_id });
    const [{ answer: first }, { answer: second }] = [await invite(), await invite()];
    const path = first.url.slice(origin.length);
    expect(path).toMatch(/^\/portal\/invitations\/[\w-]{43}$/);

    // Igor opens the link as well, but signs in later.
    const igor = await fresh();
    await igor.go(path);
    const ivan = await fresh();
    expect(await ivan.go(path)).toBe(200);
    expect(ivan.at()).toBe("/portal/sign-in");
    await ivan.page.getByRole("link", { name: "Sign in" }).click();
    await signInAs(ivan.page, "ivan");
    await ivan.page.waitForURL(`${origin}/portal/jobs`);
    await ivan.go("/portal/keys");
    expect(await ivan.page.getByRole("table").textContent()).toContain("first key");
    await ivan.go("/portal/limits");
    expect(await ivan.page.locator("dl.tiles").textContent()).toContain("Pro");
    expect((await ivan.context.cookies()).filter(({ name }) => name === "__Host-invitation")).toEqual([]);

    await igor.page.getByRole("link", { name: "Sign in" }).click();
    await signInAs(igor.page, "igor");
    await igor.page.waitForURL(`${origin}/portal/**`);
    expect(await title(igor)).toBe("An invitation is needed");
    expect(await igor.session()).toBeUndefined();
    for (const url of [first.url, second.url]) {
      expect(await igor.go(url.slice(origin.length))).toBe(404);
      expect(await title(igor)).toBe("No such invitation");
    }
    expect((await invite()).status).toBe(400);
    expect(await igor.go("/portal/invitations/nonsense")).toBe(404);
  });

  it("an invitation opens a new account of its tier", async () => {
    const { answer } = await operatorCall<{ url: string }>("/invitations", { tier: "enterprise", note: "for Nina" });
    const nina = await fresh();
    await nina.go(answer.url.slice(origin.length));
    await nina.page.getByRole("link", { name: "Sign in" }).click();
    await signInAs(nina.page, "nina");
    await nina.page.waitForURL(`${origin}/portal/jobs`);
    await nina.go("/portal/limits");
    expect(await nina.page.locator("dl.tiles").textContent()).toContain("Enterprise");
  });

  it.each(["olga", "rolf"] as const)("%s is an operator, with no account", async (login) => {
    const operator = await signedIn(login, "/portal/operator/audit");
    expect(operator.at()).toBe("/portal/operator/audit");
    expect(await operator.go("/portal/operator")).toBe(200);
    expect(await title(operator)).toBe("Fleet");
    expect(await operatorNav(operator)).toBe(1);
    await operator.go("/portal/operator/accounts");
    const accounts = await operator.page.getByRole("table").textContent();
    expect(accounts).toContain("developer@example.com");
    expect(await operator.go("/portal/keys")).toBe(404);
    expect(await title(operator)).toBe("No account");

    const copied = await operator.session();
    await operator.page.getByRole("button", { name: /everywhere/ }).click();
    await operator.page.waitForURL(`${origin}/portal/sign-in`);
    if (copied) await operator.context.addCookies([copied]);
    expect(await operator.go("/portal/operator")).not.toBe(500);
    expect(await operator.page.content()).not.toContain("Enrolment");
    expect(await title(operator)).not.toBe("Fleet");
    expect(await operator.problems()).toEqual([]);
  });

  it("nobody else sees the console", async () => {
    const mallory = await signedIn("mallory");
    expect(await title(mallory)).toBe("An invitation is needed");
    const ana = await signedIn("ana");
    expect(await operatorNav(ana)).toBe(0);
    for (const path of ["", "/accounts", "/deliveries", "/invitations", "/audit", "/live", "/runners/x/drain"]) {
      expect(await ana.go(`/portal/operator${path}`), path).toBe(404);
      expect(await title(ana)).toBe("Nothing here");
    }
    const nobody = await fresh();
    await nobody.go("/portal/operator/accounts");
    expect(nobody.at()).toMatch(/^\/portal\/sign-in\?/);
  });
});

describe("without a provider", () => {
  beforeAll(async () => {
    await serve({});
  });

  it("the portal says that no sign-in is configured, and offers none", async () => {
    const somebody = await fresh();
    for (const path of ["/portal", "/portal/", "/portal/sign-in", "/portal/keys", "/portal/sign-in/start"]) {
      expect(await somebody.go(path), path).toBe(200);
      expect(await notice(somebody.page).textContent(), path).toMatch(/No sign-in is configured/);
    }
    expect(await somebody.page.getByRole("button").count()).toBe(0);
    const response = await fetch(`${origin}/portal/sign-in/development`, {
      method: "POST",
      headers: { origin, "content-type": "application/x-www-form-urlencoded" },
      body: "role=operator",
    });
    expect(response.status).toBe(404);
    expect(response.headers.get("set-cookie")).toBeNull();
    expect(await somebody.problems()).toEqual([]);
  });
});
