import { Hono } from "hono";
import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { deliveryPages } from "./deliveries.tsx";
import {
  operatorsOnly,
  ownForms,
  pageHeaders,
  type PortalContext,
  type PortalEnv,
  PortalError,
  SessionEnded,
  signedIn,
} from "./guard.ts";
import { jobPages } from "./jobs.tsx";
import { keyPages } from "./keys.tsx";
import { Notice, page } from "./layout.tsx";
import { limitPages } from "./limits.tsx";
import { live } from "./live.ts";
import { operatorPages } from "./operator.tsx";
import { cookie, SESSION_COOKIE } from "./session.ts";
import { type DevelopmentSignIn, signInRoutes } from "./sign-in.tsx";
import { usagePages } from "./usage.tsx";
import { webhookPages } from "./webhooks.tsx";

/** The portal: pages for account owners and operators, under /portal. */

/** Names under /portal/assets/ and where the files lie. */
const ASSETS: Readonly<Record<string, string>> = {
  "simple.min.css": "/portal/simple/simple.min.css",
  "portal.css": "/portal/portal.css",
  "portal.js": "/portal/portal.js",
  "icon.svg": "/portal/icon.svg",
};

async function asset(env: Env, request: Request, name: string): Promise<Response> {
  const path = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined;
  if (path === undefined) throw new PortalError(404, "Nothing here", "There is no page at this address.");
  const known = request.headers.get("if-none-match");
  const headers = new Headers(known === null ? {} : { "If-None-Match": known });
  const file = await env.ASSETS.fetch(new Request(new URL(path, request.url), { headers }));
  const answer = new Response(file.body, file);
  answer.headers.set("Cache-Control", "public, max-age=300");
  return answer;
}

function problem(c: PortalContext, error: Error) {
  if (error instanceof SessionEnded) {
    c.header("Set-Cookie", cookie(SESSION_COOKIE, "", 0), { append: true });
    return c.redirect("/portal/sign-in", 303);
  }
  if (error instanceof PortalError)
    return page(c, {
      title: error.title,
      status: error.status,
      children: (
        <>
          <Notice kind="error">{error.message}</Notice>
          <p>
            <a href="/portal/jobs">Back to the portal</a>
          </p>
        </>
      ),
    });
  throw error;
}

export function portal(development: DevelopmentSignIn | undefined) {
  const account = new Hono<PortalEnv>()
    .use(signedIn(), ownForms())
    .route("/keys", keyPages)
    .route("/webhooks", webhookPages)
    .route("/jobs", jobPages)
    .route("/deliveries", deliveryPages)
    .route("/usage", usagePages)
    .route("/limits", limitPages)
    .route("/live", live);
  const operator = new Hono<PortalEnv>().use(signedIn(), operatorsOnly(), ownForms()).route("/", operatorPages());
  const routes = new Hono<PortalEnv>()
    .use(pageHeaders())
    .get("/assets/:name", (c) => asset(c.env, c.req.raw, c.req.param("name")))
    .route("/", signInRoutes(development))
    .route("/operator", operator)
    .route("/", account)
    .all("*", () => {
      throw new PortalError(404, "Nothing here", "There is no page at this address.");
    });
  routes.onError((error, c) => {
    try {
      return problem(c, error);
    } catch {
      log("error", "portal_error", { path: c.req.path, reason: reasonOf(error) });
      return c.text("The portal failed. Try again in a moment.", 500);
    }
  });
  return routes;
}
