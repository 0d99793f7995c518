import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import * as oauth from "oauth4webapi";
import type { RunningProvider } from "./oidc-provider.ts";

/** The least that signs somebody in with OpenID: code, PKCE, state, nonce and the token's signature are all checked. */

export interface RelyingParty {
  readonly origin: string;
  stop(): Promise<void>;
}

const page = (title: string, body: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title><main><h1>${title}</h1>${body}</main></html>`;

/**
 * A site with a link to sign in. Where that ends well it shows the claims as JSON, else an alert with the code or
 * the name of the error.
 * @param patience_ms how long it waits for each answer of the provider
 */
export async function startRelyingParty(provider: RunningProvider, patience_ms = 5_000): Promise<RelyingParty> {
  const client: oauth.Client = { client_id: provider.clientId };
  const clientAuth =
    provider.clientSecret === undefined ? oauth.None() : oauth.ClientSecretBasic(provider.clientSecret);
  const options = { [oauth.allowInsecureRequests]: true, signal: () => AbortSignal.timeout(patience_ms) };
  const begun = new Map<string, { nonce: string; verifier: string }>();

  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const redirect_uri = `${origin}/callback`;
  provider.allowRedirect(redirect_uri);

  async function discover(): Promise<oauth.AuthorizationServer> {
    const issuer = new URL(provider.issuer);
    return oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, options));
  }

  async function signIn(): Promise<URL> {
    const { authorization_endpoint = "" } = await discover();
    const state = oauth.generateRandomState();
    const nonce = oauth.generateRandomNonce();
    const verifier = oauth.generateRandomCodeVerifier();
    begun.set(state, { nonce, verifier });
    const url = new URL(authorization_endpoint);
    url.search = new URLSearchParams({
      client_id: provider.clientId,
      response_type: "code",
      scope: "openid email profile",
      redirect_uri,
      state,
      nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    }).toString();
    return url;
  }

  async function claimsOf(callback: URL): Promise<object> {
    const as = await discover();
    const state = callback.searchParams.get("state") ?? "";
    const { nonce = "", verifier = "" } = begun.get(state) ?? {};
    begun.delete(state);
    const parameters = oauth.validateAuthResponse(as, client, callback, state);
    const response = await oauth.authorizationCodeGrantRequest(
      as,
      client,
      clientAuth,
      parameters,
      redirect_uri,
      verifier,
      options,
    );
    const tokens = await oauth.processAuthorizationCodeResponse(as, client, response, {
      expectedNonce: nonce,
      requireIdToken: true,
    });
    // Without it any key will do.
    await oauth.validateApplicationLevelSignature(as, response, options);
    const claims = oauth.getValidatedIdTokenClaims(tokens);
    if (!claims) throw new Error("There is no ID token.");
    const answer = await oauth.userInfoRequest(as, client, tokens.access_token, options);
    return { ...(await oauth.processUserInfoResponse(as, client, claims.sub, answer)), ...claims };
  }

  async function answer(url: URL, response: ServerResponse): Promise<void> {
    if (url.pathname === "/sign-in") response.writeHead(303, { location: (await signIn()).href }).end();
    else if (url.pathname === "/callback")
      response.end(page("Signed in", `<pre>${JSON.stringify(await claimsOf(url))}</pre>`));
    else response.end(page("Welcome", `<a href="/sign-in">Sign in</a>`));
  }

  server.on("request", async (request, response) => {
    response.setHeader("content-type", "text/html");
    await answer(new URL(request.url ?? "/", origin), response).catch((error: Error & { code?: unknown }) => {
      console.info("Refused:", error);
      const code = typeof error.code === "string" ? error.code : error.name;
      response.end(page("Refused", `<p role="alert">${code}</p>`));
    });
  });

  return {
    origin,
    stop: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
