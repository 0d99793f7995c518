import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import {
  type CryptoKey,
  decodeJwt,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  SignJWT,
  UnsecuredJWT,
} from "jose";
import { type Context, Provider } from "oidc-provider";
import type { Page } from "playwright-core";

/** A real OpenID provider on loopback: authorization code with PKCE, people to sign in as, and faults on demand. */

/** Who somebody is. `email` and `email_verified` need the scope email, `name` profile, everything else openid. */
export interface Claims {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly name?: string;
  readonly roles?: readonly string[];
  readonly [claim: string]: unknown;
}

export type IdTokenFault =
  | "wrong-nonce"
  | "no-nonce"
  | "wrong-issuer"
  | "wrong-audience"
  | "expired"
  /** Signed by a key that is not published, under the name of the one that is. */
  | "other-key"
  /** `alg: none` */
  | "unsigned";

/** What a relying party asks without a browser. */
export type Endpoint = "discovery" | "jwks" | "token" | "userinfo";

export interface Faults {
  readonly idToken?: IdTokenFault;
  /** The error, such as `access_denied`, that the browser returns with; there is no login page then. */
  readonly authorization?: string;
  /** The `iss` that the browser returns with. */
  readonly responseIssuer?: string;
  /** Given in place of the right answer; an object is JSON, a string HTML. */
  readonly answers?: Readonly<Partial<Record<Endpoint, { readonly status: number; readonly body: object | string }>>>;
  /** How long an answer waits. */
  readonly delay_ms?: Readonly<Partial<Record<Endpoint, number>>>;
}

export interface ProviderOptions {
  /** By what is typed on the login page. A claim that is not in `Claims` is given only if somebody has it here. */
  readonly people: Readonly<Record<string, Claims>>;
  readonly clientId?: string;
  /** Without one the client is public. */
  readonly clientSecret?: string;
  readonly clientAuth?: "client_secret_basic" | "client_secret_post";
  /**
   * Cookies do not tell ports apart and SameSite does not either: `localhost` is another site than a service on
   * 127.0.0.1, as a provider is in life.
   */
  readonly host?: "127.0.0.1" | "localhost";
  /** False leaves them to userinfo, as the specification has it; most providers put them into the ID token as well. */
  readonly claimsInIdToken?: boolean;
}

export interface RunningProvider {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  /** Where a browser may return to after signing in or out: the whole address. */
  allowRedirect(uri: string): void;
  /** Adds somebody, or changes what is said of them from now on. */
  setPerson(login: string, claims: Claims): void;
  /** From now on; nothing, to behave again. */
  misbehave(faults?: Faults): void;
  stop(): Promise<void>;
}

const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  "/.well-known/openid-configuration": "discovery",
  "/jwks": "jwks",
  "/token": "token",
  "/me": "userinfo",
};

const STANDARD = { email: ["email", "email_verified"], profile: ["name", "preferred_username", "picture"] };
const STANDARD_NAMES: readonly string[] = Object.values(STANDARD).flat();

const HOUR_S = 3600;

const TTL_S = { AccessToken: HOUR_S, AuthorizationCode: 60, Grant: HOUR_S, IdToken: HOUR_S, Interaction: HOUR_S };

const escaped = (value: string): string => value.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

const html = (title: string, body: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
  `<title>${title}</title><main><h1>${title}</h1>${body}</main></html>`;

const loginPage = (said: string, hint: string): string =>
  html(
    "Sign in to the test provider",
    `<p role="status">${escaped(said)}</p><form method="post">
<p><label>User name <input name="login" autocomplete="username" value="${escaped(hint)}"></label></p>
<p><button name="answer" value="sign-in">Sign in</button> <button name="answer" value="cancel">Cancel</button></p></form>`,
  );

/** Signs the token again with a fault in it. */
async function faulty(token: string, fault: IdTokenFault, key: CryptoKey, otherKey: CryptoKey): Promise<string> {
  const { nonce, ...claims } = decodeJwt(token);
  const now = Math.floor(Date.now() / 1000);
  const altered: Record<IdTokenFault, Record<string, unknown>> = {
    "wrong-nonce": { ...claims, nonce: "another-nonce" },
    "no-nonce": claims,
    "wrong-issuer": { ...claims, nonce, iss: "https://other.example" },
    "wrong-audience": { ...claims, nonce, aud: "another-client" },
    expired: { ...claims, nonce, iat: now - 2 * HOUR_S, exp: now - HOUR_S },
    "other-key": { ...claims, nonce },
    unsigned: { ...claims, nonce },
  };
  if (fault === "unsigned") return new UnsecuredJWT(altered[fault]).encode();
  const { kid } = decodeProtectedHeader(token);
  return new SignJWT(altered[fault])
    .setProtectedHeader({ alg: "RS256", ...(kid === undefined ? {} : { kid }) })
    .sign(fault === "other-key" ? otherKey : key);
}

export async function startOpenIdProvider({
  people: given,
  clientId = "darkroom",
  clientSecret,
  clientAuth = "client_secret_basic",
  host = "127.0.0.1",
  claimsInIdToken = true,
}: ProviderOptions): Promise<RunningProvider> {
  const people = new Map(Object.entries(given));
  const redirects = new Set<string>();
  let faults: Faults = {};
  const stopping = new AbortController();
  const [key, otherKey] = await Promise.all([
    generateKeyPair("RS256", { extractable: true }),
    generateKeyPair("RS256", { extractable: true }),
  ]);
  const jwk = { ...(await exportJWK(key.privateKey)), kid: "test-provider", alg: "RS256", use: "sig" };

  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://${host}:${(server.address() as AddressInfo).port}`;

  const ownNames = [...people.values()].flatMap((claims) => Object.keys(claims));
  const provider = new Provider(issuer, {
    claims: {
      ...STANDARD,
      openid: [...new Set(["sub", "roles", ...ownNames])].filter((name) => !STANDARD_NAMES.includes(name)),
    },
    clients: [
      {
        client_id: clientId,
        ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
        token_endpoint_auth_method: clientSecret === undefined ? "none" : clientAuth,
        // It wants one; `redirects` is what counts.
        redirect_uris: ["http://127.0.0.1/"],
        response_types: ["code"],
        grant_types: ["authorization_code"],
      },
    ],
    conformIdTokenClaims: !claimsInIdToken,
    // A service on the same host gets them too, under names that it does not use.
    cookies: {
      keys: [randomBytes(32).toString("hex")],
      names: { session: "provider_session", interaction: "provider_interaction", resume: "provider_resume" },
    },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: {
        logoutSource: (context, form) => {
          const button = `<button form="op.logoutForm" name="logout" value="yes">Sign out</button>`;
          context.body = html("Sign out of the test provider", form + button);
        },
        postLogoutSuccessSource: (context) => {
          context.body = html("Signed out of the test provider", "");
        },
      },
    },
    findAccount: async (_, sub) => {
      const claims = [...people.values()].find((person) => person.sub === sub);
      return claims && { accountId: sub, claims: async () => claims };
    },
    interactions: { url: (_, { uid }) => `/interaction/${uid}` },
    jwks: { keys: [jwk] },
    // Nobody is asked what they consent to.
    loadExistingGrant: async ({ oidc }) => {
      const grant = new provider.Grant({ accountId: oidc.session.accountId, clientId: oidc.client.clientId });
      grant.addOIDCScope(oidc.params.scope ?? "openid");
      await grant.save();
      return grant;
    },
    pkce: { required: () => true },
    renderError: (context, out) => {
      context.type = "html";
      context.body = html("The test provider refuses this", `<pre>${escaped(JSON.stringify(out, null, 2))}</pre>`);
    },
    ttl: { ...TTL_S, Session: HOUR_S },
  });
  provider.Client.prototype.redirectUriAllowed = (uri) => redirects.has(uri);
  provider.Client.prototype.postLogoutRedirectUriAllowed = (uri) => redirects.has(uri);
  provider.on("server_error", (_, error) => console.error("The test provider:", error));

  async function interact(context: Context): Promise<void> {
    const { params } = await provider.interactionDetails(context.req, context.res);
    const proceed = async (result: Parameters<typeof provider.interactionResult>[2]): Promise<void> => {
      context.redirect(await provider.interactionResult(context.req, context.res, result));
      context.status = 303;
    };
    if (faults.authorization !== undefined)
      return proceed({ error: faults.authorization, error_description: "as the test wants it" });
    context.type = "html";
    context.body = loginPage("", params.login_hint ?? "");
    if (context.method !== "POST") return;
    const form = new URLSearchParams(await text(context.req));
    if (form.get("answer") === "cancel") return proceed({ error: "access_denied", error_description: "cancelled" });
    const login = form.get("login") ?? "";
    const person = people.get(login);
    if (person) return proceed({ login: { accountId: person.sub } });
    context.body = loginPage("Nobody has this user name.", login);
  }

  provider.use(async (context, next) => {
    if (context.path.startsWith("/interaction/")) return interact(context);
    const endpoint = ENDPOINTS[context.path];
    const delay_ms = endpoint && faults.delay_ms?.[endpoint];
    if (delay_ms) {
      await setTimeout(delay_ms, undefined, { signal: stopping.signal }).catch(() => undefined);
      // Nobody waits for the answer any more.
      if (context.req.socket.destroyed) return;
    }
    const answer = endpoint && faults.answers?.[endpoint];
    if (answer) {
      context.status = answer.status;
      context.body = answer.body;
      return;
    }
    // Even somebody who is signed in is sent to the page that returns the error.
    if (context.path === "/auth" && faults.authorization !== undefined)
      context.query = { ...context.query, prompt: "login" };
    await next();
    const body = context.body as { id_token?: string } | undefined;
    if (endpoint === "token" && faults.idToken && body?.id_token)
      context.body = {
        ...body,
        id_token: await faulty(body.id_token, faults.idToken, key.privateKey, otherKey.privateKey),
      };
    const location = URL.parse(context.response.get("location"));
    if (faults.responseIssuer !== undefined && location?.searchParams.has("iss")) {
      location.searchParams.set("iss", faults.responseIssuer);
      context.set("location", location.href);
    }
  });
  server.on("request", provider.callback());

  return {
    issuer,
    clientId,
    clientSecret,
    allowRedirect: (uri) => void redirects.add(uri),
    setPerson: (login, claims) => void people.set(login, claims),
    misbehave: (wanted = {}) => {
      faults = wanted;
    },
    stop: async () => {
      stopping.abort();
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Signs in on the provider's login page, which the browser has been sent to. */
export async function signInAs(page: Page, login: string): Promise<void> {
  await page.getByLabel("User name").fill(login);
  await page.getByRole("button", { name: "Sign in" }).click();
}
