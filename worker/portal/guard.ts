import type { Context, MiddlewareHandler } from "hono";
import { getCookie } from "hono/cookie";
import type { AccountObject } from "../account/object.ts";
import { configOf } from "../config.ts";
import { findIdentity } from "../directory/identities.ts";
import type { Env } from "../env.ts";
import { isNamedOperator } from "./identity-provider.ts";
import { cookie, openSession, SESSION_COOKIE, type Session } from "./session.ts";

/** What stands before every page: headers, the session, and the check that a form is one of ours. */

export interface PortalVariables {
  /** Who is signed in; absent on pages that anybody may see. */
  session?: Session;
}
export type PortalEnv = { Bindings: Env; Variables: PortalVariables };
export type PortalContext = Context<PortalEnv>;

/** A page that says what is wrong. */
export class PortalError extends Error {
  override readonly name = "PortalError";
  readonly status: 400 | 403 | 404 | 409 | 429;
  readonly title: string;

  constructor(status: PortalError["status"], title: string, message: string) {
    super(message);
    this.status = status;
    this.title = title;
  }
}

const policy = (env: Env): string =>
  [
    "default-src 'none'",
    "style-src 'self'",
    "script-src 'self'",
    "connect-src 'self'",
    `img-src 'self' ${new URL(configOf(env).outputsBaseUrl).origin}`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

/** On every answer of the portal: nothing of it is kept, framed, or runs what is not its own. */
export const pageHeaders = (): MiddlewareHandler<PortalEnv> =>
  async function pageHeadersMiddleware(c, next) {
    await next();
    const { headers } = c.res;
    headers.set("Content-Security-Policy", policy(c.env));
    headers.set("X-Content-Type-Options", "nosniff");
    // `no-referrer` would make the Origin of our own forms "null".
    headers.set("Referrer-Policy", "same-origin");
    headers.set("Cross-Origin-Opener-Policy", "same-origin");
    if (!headers.has("Cache-Control")) headers.set("Cache-Control", "no-store");
  };

/** A path of the portal to come back to; anything else leads to its start. */
export function localPath(text: string | undefined): string {
  const base = "https://portal.invalid";
  if (text === undefined || !/^\/portal\/[\w\-./?&=%]*$/.test(text) || !URL.canParse(text, base)) return "/portal/jobs";
  const url = new URL(text, base);
  return url.origin === base && url.pathname.startsWith("/portal/") ? url.pathname + url.search : "/portal/jobs";
}

/** Reads the session, where there is one; who has none is sent to the sign-in. */
export const signedIn = (): MiddlewareHandler<PortalEnv> =>
  async function signedInMiddleware(c, next) {
    const session = await openSession(c.env, getCookie(c, SESSION_COOKIE));
    // A stream that gets nothing is not asked for again.
    if (!session && c.req.header("accept")?.includes("text/event-stream")) return c.body(null, 204);
    if (!session) return toSignIn(c);
    c.set("session", session);
    await next();
  };

function toSignIn(c: PortalContext): Response {
  const { pathname, search } = new URL(c.req.url);
  const wanted = c.req.method === "GET" ? `?return_to=${encodeURIComponent(pathname + search)}` : "";
  c.header("Set-Cookie", cookie(SESSION_COOKIE, "", 0), { append: true });
  return c.redirect(`/portal/sign-in${wanted}`, 303);
}

/** Thrown where a page finds that its session was ended. */
export class SessionEnded extends Error {
  override readonly name = "SessionEnded";
}

export const sessionOf = (c: PortalContext): Session => {
  const session = c.get("session");
  if (!session) throw new SessionEnded();
  return session;
};

/**
 * A form must come from a page of ours (`Origin`) and of this session (its token). Both: one alone would do for today's browsers.
 */
export const ownForms = (): MiddlewareHandler<PortalEnv> =>
  async function ownFormsMiddleware(c, next) {
    if (c.req.method === "GET" || c.req.method === "HEAD") return next();
    if (c.req.method !== "POST") throw new PortalError(400, "Not a form", "This address takes forms only.");
    const origin = c.req.header("origin");
    if (origin !== new URL(configOf(c.env).baseUrl).origin)
      throw new PortalError(
        403,
        "Form refused",
        "This form was not sent from the portal. Open the page and try again.",
      );
    const session = c.get("session");
    const token = (await fieldsOf(c)).csrf;
    if (session && token !== session.csrf)
      throw new PortalError(403, "Form out of date", "This form is from an earlier session. Open the page again.");
    await next();
  };

/** A form is small. */
const MAX_FORM_BYTES = 64 * 1024;

/** The fields of the form that was sent; of several of a name the last. */
export async function fieldsOf(c: PortalContext): Promise<Readonly<Record<string, string>>> {
  const length = Number(c.req.header("content-length") ?? 0);
  if (length > MAX_FORM_BYTES) throw new PortalError(400, "Too much", "This form is too large.");
  const body = await c.req.parseBody();
  return Object.fromEntries(
    Object.entries(body).flatMap(([name, value]) => (typeof value === "string" ? [[name, value]] : [])),
  );
}

type Owned<T> = { readonly open: true; readonly value: T } | { readonly open: false };

/** The account of whoever is signed in, asked with the session's epoch: one that was ended sees nothing. */
export async function askAccount<T>(
  c: PortalContext,
  verb: (account: DurableObjectStub<AccountObject>, epoch: number) => Promise<Owned<T>>,
): Promise<T> {
  const { account, account_epoch } = sessionOf(c);
  if (account === undefined)
    throw new PortalError(
      404,
      "No account",
      "You are signed in, but no account belongs to you. Ask for an invitation.",
    );
  const answer = await verb(c.env.ACCOUNT.getByName(account), account_epoch);
  if (!answer.open) throw new SessionEnded();
  return answer.value as T;
}

/** Whether the session is an operator's, now: by the configuration, or by the role that its provider gave and nobody has ended. */
export async function isOperator(env: Env, session: Session): Promise<boolean> {
  if (!session.operator && !isNamedOperator(env, session.identity)) return false;
  const known = await findIdentity(env.DIRECTORY, session.identity);
  return known?.epoch === session.identity_epoch;
}

/** Lets operators through. Others are told that there is nothing. */
export const operatorsOnly = (): MiddlewareHandler<PortalEnv> =>
  async function operatorsOnlyMiddleware(c, next) {
    if (!(await isOperator(c.env, sessionOf(c))))
      throw new PortalError(404, "Nothing here", "There is no page at this address.");
    await next();
  };
