import { Hono } from "hono";
import { getCookie } from "hono/cookie";
import * as v from "valibot";
import { DEFAULT_POOL } from "../../schemas/ids.ts";
import { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { addressGroup } from "../address-limiter.ts";
import { createAccount } from "../accounts.ts";
import {
  countSignUp,
  endSessions,
  findIdentity,
  findInvitation,
  putIdentity,
  useInvitation,
} from "../directory/identities.ts";
import { log, reasonOf } from "../log.ts";
import { localPath, ownForms, type PortalContext, type PortalEnv, PortalError, sessionOf, signedIn } from "./guard.ts";
import {
  beginSignIn,
  endSignIn,
  isConfigured,
  isNamedOperator,
  PendingSignIn,
  SignInError,
  type SignedIn,
} from "./identity-provider.ts";
import { Notice, page } from "./layout.tsx";
import { cookie, open, random, SESSION_COOKIE, SESSION_S, seal, sealSession } from "./session.ts";

/** Signing in and out, and the first time. */

const PENDING_COOKIE = "__Host-sign-in";
const PENDING_PURPOSE = "portal-sign-in+jwt";
/** From leaving for the provider to coming back. */
const PENDING_S = 900;
const INVITATION_COOKIE = "__Host-invitation";
const INVITATION_PURPOSE = "portal-invitation+jwt";
const INVITATION_S = 3600;
/** Accounts that one client address may open in a day. */
const SIGN_UPS_A_DAY = 3;

const Invited = v.object({ token_hash: v.string() });

/** A way in that a deployment does not have: `worker/local.ts` brings one. */
export interface DevelopmentSignIn {
  /** Whether it works here and now. */
  allowed(c: PortalContext): boolean;
  /** The part of the sign-in page that offers it. */
  offer(c: PortalContext): Promise<unknown>;
  /** Whom its form names. */
  identify(c: PortalContext): Promise<{ readonly who: SignedIn; readonly account_id?: string }>;
}

const INVITATION_NEEDED = new PortalError(
  403,
  "An invitation is needed",
  "You are who you say you are, but no account belongs to you yet. Open the invitation link that your operator gave you, then sign in.",
);

/** The account of someone who signs in for the first time; null for an operator, who needs none. */
async function firstAccount(c: PortalContext, who: SignedIn, operator: boolean): Promise<string | null> {
  const { env } = c;
  const now = Date.now();
  const email = who.address ?? "";
  const invited = await open(env, INVITATION_PURPOSE, Invited, getCookie(c, INVITATION_COOKIE));
  const invitation = invited && (await findInvitation(env.DIRECTORY, invited.token_hash, now));
  if (invitation) {
    if (!(await useInvitation(env.DIRECTORY, invitation.token_hash, now))) throw INVITATION_NEEDED;
    c.header("Set-Cookie", cookie(INVITATION_COOKIE, "", 0), { append: true });
    if (invitation.account_id !== null) return invitation.account_id;
    return (await createAccount(env, { email, tier: v.parse(Tier, invitation.tier), pool: DEFAULT_POOL })).account_id;
  }
  if (env.SIGN_UP === "open") {
    const day = new Date(now).toISOString().slice(0, 10);
    const address = addressGroup(c.req.header("cf-connecting-ip"));
    if (!(await countSignUp(env.DIRECTORY, address, day, SIGN_UPS_A_DAY))) {
      if (operator) return null;
      throw new PortalError(
        429,
        "Too many new accounts",
        "Too many accounts were opened from your address today. Try again tomorrow.",
      );
    }
    return (await createAccount(env, { email, tier: "free", pool: DEFAULT_POOL })).account_id;
  }
  if (operator) return null;
  throw INVITATION_NEEDED;
}

/** Opens a session for whoever the provider has vouched for. */
async function welcome(c: PortalContext, who: SignedIn, return_to: string, account_id?: string): Promise<Response> {
  const { env } = c;
  const operator = who.operator || isNamedOperator(env, who.identity);
  const known = await findIdentity(env.DIRECTORY, who.identity);
  const own = known?.account_id ?? account_id ?? (await firstAccount(c, who, operator));
  await putIdentity(env.DIRECTORY, who.identity, { account_id: own, name: who.name }, Date.now());
  const stored = await findIdentity(env.DIRECTORY, who.identity);
  const account = account_id ?? stored?.account_id ?? undefined;
  const session = {
    identity: who.identity,
    name: who.name,
    ...(account === undefined ? {} : { account }),
    account_epoch: account === undefined ? 0 : ((await env.ACCOUNT.getByName(account).ownerEpoch()) ?? 0),
    identity_epoch: stored?.epoch ?? 0,
    operator: who.operator,
    csrf: random(),
  };
  log("info", "signed_in", { account, operator });
  c.header("Set-Cookie", cookie(SESSION_COOKIE, await sealSession(env, session), SESSION_S), { append: true });
  // Without an account there is the console alone.
  const leads = account !== undefined || return_to.startsWith("/portal/operator");
  return c.redirect(leads ? return_to : "/portal/operator", 303);
}

async function signInPage(c: PortalContext, development: DevelopmentSignIn | undefined, problem?: string) {
  const return_to = localPath(c.req.query("return_to"));
  const configured = isConfigured(c.env);
  const invited = await open(c.env, INVITATION_PURPOSE, Invited, getCookie(c, INVITATION_COOKIE));
  const offered = development?.allowed(c) ? await development.offer(c) : undefined;
  return page(c, {
    title: "Sign in",
    status: problem === undefined ? 200 : 400,
    children: (
      <>
        {problem === undefined ? null : <Notice kind="error">{problem}</Notice>}
        {invited ? (
          <Notice>
            You have been invited. Sign in, and the account is yours.
            {offered === undefined ? "" : " For development: choose “a new one”."}
          </Notice>
        ) : null}
        {configured ? (
          <p>
            <a class="button" href={`/portal/sign-in/start?return_to=${encodeURIComponent(return_to)}`}>
              Sign in
            </a>
          </p>
        ) : null}
        {offered as never}
        {configured || offered !== undefined ? null : (
          <Notice kind="warning">
            No sign-in is configured for this service. Its operator sets an OpenID provider; the API works without one.
          </Notice>
        )}
      </>
    ),
  });
}

async function startSignIn(c: PortalContext): Promise<Response> {
  if (!isConfigured(c.env)) return c.redirect("/portal/sign-in", 303);
  const { url, pending } = await beginSignIn(c.env, localPath(c.req.query("return_to")));
  const sealed = await seal(c.env, PENDING_PURPOSE, pending, PENDING_S);
  c.header("Set-Cookie", cookie(PENDING_COOKIE, sealed, PENDING_S), { append: true });
  return c.redirect(url.href, 303);
}

export function signInRoutes(development: DevelopmentSignIn | undefined) {
  const routes = new Hono<PortalEnv>()
    .get("/sign-in", (c) => signInPage(c, development))
    .get("/sign-in/start", async (c) => {
      try {
        return await startSignIn(c);
      } catch (error) {
        log("error", "provider_unavailable", { reason: reasonOf(error) });
        return signInPage(c, development, "The sign-in provider can't be reached. Try again in a moment.");
      }
    })
    .get("/callback", async (c) => {
      const pending = await open(c.env, PENDING_PURPOSE, PendingSignIn, getCookie(c, PENDING_COOKIE));
      c.header("Set-Cookie", cookie(PENDING_COOKIE, "", 0), { append: true });
      if (!pending)
        return signInPage(c, development, "That sign-in took too long, or was begun in another browser. Try again.");
      try {
        const who = await endSignIn(c.env, new URL(c.req.url), pending);
        return await welcome(c, who, localPath(pending.return_to));
      } catch (error) {
        if (!(error instanceof SignInError)) throw error;
        log("warn", "sign_in_refused", { reason: reasonOf(error.cause ?? error) });
        return signInPage(c, development, error.message);
      }
    })
    .get("/invitations/:token", async (c) => {
      const token_hash = await sha256(c.req.param("token"));
      const good = await findInvitation(c.env.DIRECTORY, token_hash, Date.now());
      if (!good)
        throw new PortalError(
          404,
          "No such invitation",
          "This invitation is unknown, was used already or is older than 7 days.",
        );
      const sealed = await seal(c.env, INVITATION_PURPOSE, { token_hash }, INVITATION_S);
      c.header("Set-Cookie", cookie(INVITATION_COOKIE, sealed, INVITATION_S), { append: true });
      // On to an address without the token.
      return c.redirect("/portal/sign-in", 303);
    })
    .post("/sign-out", signedIn(), ownForms(), (c) => {
      c.header("Set-Cookie", cookie(SESSION_COOKIE, "", 0), { append: true });
      return c.redirect("/portal/sign-in", 303);
    })
    .post("/sign-out-everywhere", signedIn(), ownForms(), async (c) => {
      const { account, account_epoch, identity } = sessionOf(c);
      if (account !== undefined) await c.env.ACCOUNT.getByName(account).ownerSignOut(account_epoch);
      await endSessions(c.env.DIRECTORY, identity);
      c.header("Set-Cookie", cookie(SESSION_COOKIE, "", 0), { append: true });
      return c.redirect("/portal/sign-in", 303);
    });
  if (development)
    routes.post("/sign-in/development", ownForms(), async (c) => {
      if (!development.allowed(c)) throw new PortalError(404, "Nothing here", "There is no page at this address.");
      const { who, account_id } = await development.identify(c);
      return welcome(c, who, localPath(c.req.query("return_to")), account_id);
    });
  return routes;
}
