import * as oauth from "oauth4webapi";
import * as v from "valibot";
import { isLoopbackHost } from "../../schemas/targets.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import type { Identity } from "./session.ts";

/** Sign-in by OpenID Connect: authorization code with PKCE, at the one provider that a deployment names. */

/** What a sign-in under way has to remember, in a signed cookie. */
export const PendingSignIn = v.object({
  state: v.string(),
  nonce: v.string(),
  code_verifier: v.string(),
  return_to: v.string(),
});
export type PendingSignIn = v.InferOutput<typeof PendingSignIn>;

export interface SignedIn {
  readonly identity: Identity;
  /** For people: a name, else an address that the provider has verified, else the subject. */
  readonly name: string;
  /** Where the provider has verified it. For people alone: it decides nothing. */
  readonly address?: string;
  /** The provider's role claim says so. */
  readonly operator: boolean;
}

/** The provider answered what it must not, or the browser came back with what was not asked. */
export class SignInError extends Error {
  override readonly name = "SignInError";
}

/** A provider's documents are asked again after this long. */
const DISCOVERY_MS = 3_600_000;
const TIMEOUT_MS = 10_000;

interface Provider {
  readonly server: oauth.AuthorizationServer;
  readonly client: oauth.Client;
  readonly authentication: oauth.ClientAuth;
  readonly options: { readonly [oauth.allowInsecureRequests]: boolean };
}

const discovered = new Map<string, { readonly server: oauth.AuthorizationServer; readonly until: number }>();

export const isConfigured = (env: Env): boolean => env.OIDC_ISSUER !== "" && env.OIDC_CLIENT_ID !== "";

const callbackOf = (env: Env): string => `${configOf(env).baseUrl}/portal/callback`;

/** Plain HTTP is for a provider on this very machine, and a service on it. */
const isLocal = (env: Env, issuer: URL): boolean =>
  isLoopbackHost(issuer.hostname) && isLoopbackHost(new URL(configOf(env).baseUrl).hostname);

const within = () => ({ signal: AbortSignal.timeout(TIMEOUT_MS) });

async function provider(env: Env): Promise<Provider> {
  const issuer = new URL(env.OIDC_ISSUER);
  const options = { [oauth.allowInsecureRequests]: isLocal(env, issuer) };
  const known = discovered.get(issuer.href);
  let server = known && known.until > Date.now() ? known.server : undefined;
  if (!server) {
    const response = await oauth.discoveryRequest(issuer, { ...options, ...within() });
    server = await oauth.processDiscoveryResponse(issuer, response);
    discovered.set(issuer.href, { server, until: Date.now() + DISCOVERY_MS });
  }
  const secret = env.OIDC_CLIENT_SECRET ?? "";
  const authentication = secret === "" ? oauth.None() : oauth.ClientSecretBasic(secret);
  return { server, client: { client_id: env.OIDC_CLIENT_ID }, authentication, options };
}

/** Where to send the browser, and what to remember until it comes back. */
export async function beginSignIn(env: Env, return_to: string): Promise<{ url: URL; pending: PendingSignIn }> {
  const { server, client } = await provider(env);
  if (server.authorization_endpoint === undefined) throw new SignInError("The provider has no authorization endpoint.");
  const pending = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    code_verifier: oauth.generateRandomCodeVerifier(),
    return_to,
  };
  const url = new URL(server.authorization_endpoint);
  for (const [name, value] of Object.entries({
    client_id: client.client_id,
    redirect_uri: callbackOf(env),
    response_type: "code",
    scope: "openid profile email",
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(pending.code_verifier),
    code_challenge_method: "S256",
  }))
    url.searchParams.set(name, value);
  return { url, pending };
}

/** `claim=value`: whoever's ID token has that value in that claim (text, or a list of texts) is an operator. */
function hasRole(claims: oauth.IDToken, rule: string): boolean {
  const at = rule.indexOf("=");
  if (at < 1) return false;
  const value = claims[rule.slice(0, at)];
  const wanted = rule.slice(at + 1);
  return Array.isArray(value) ? value.includes(wanted) : value === wanted;
}

const text = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim().slice(0, 100) : undefined;

/**
 * The browser came back. Checks state, nonce, PKCE, issuer, audience, times and the token's signature.
 * @throws SignInError in words for the person who signs in
 */
export async function endSignIn(env: Env, url: URL, pending: PendingSignIn): Promise<SignedIn> {
  try {
    const { server, client, authentication, options } = await provider(env);
    const parameters = oauth.validateAuthResponse(server, client, url, pending.state);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authentication,
      parameters,
      callbackOf(env),
      pending.code_verifier,
      { ...options, ...within() },
    );
    const result = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: pending.nonce,
      requireIdToken: true,
    });
    await oauth.validateApplicationLevelSignature(server, response, { ...options, ...within() });
    const claims = oauth.getValidatedIdTokenClaims(result);
    if (!claims) throw new SignInError("The provider sent no ID token.");
    const address = claims.email_verified === true ? text(claims.email) : undefined;
    return {
      identity: { iss: claims.iss, sub: claims.sub },
      name: text(claims.name) ?? address ?? claims.sub.slice(0, 100),
      ...(address === undefined ? {} : { address }),
      operator: hasRole(claims, env.OPERATOR_ROLE),
    };
  } catch (error) {
    if (error instanceof oauth.AuthorizationResponseError)
      throw new SignInError(
        error.error === "access_denied" ? "You did not sign in." : "The provider did not let you in.",
        { cause: error },
      );
    throw new SignInError("The provider's answer was not what it must be. Try again.", { cause: error });
  }
}

const Operators = v.array(v.strictTuple([v.string(), v.string()]));

/** Whether the configuration names this identity among the operators. */
export function isNamedOperator(env: Env, { iss, sub }: Identity): boolean {
  if (env.OPERATORS === "") return false;
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), Operators), env.OPERATORS);
  if (!parsed.success) throw new Error("OPERATORS must be a JSON list of [issuer, subject] pairs.");
  return parsed.output.some(([issuer, subject]) => issuer === iss && subject === sub);
}
