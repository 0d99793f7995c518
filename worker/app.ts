import { Hono, type MiddlewareHandler } from "hono";
import { requestId } from "hono/request-id";
import type { TargetRules } from "../schemas/targets.ts";
import { authenticate, type AuthVariables } from "./auth.ts";
import { configOf } from "./config.ts";
import type { Env } from "./env.ts";
import { ApiError, errorResponse, refusalOf } from "./errors.ts";
import { log, reasonOf } from "./log.ts";
import { operatorRoutes } from "./operator/routes.ts";
import { outputs } from "./outputs/route.ts";
import { rateHeaders } from "./rate-headers.ts";
import { portal } from "./portal/routes.tsx";
import type { DevelopmentSignIn } from "./portal/sign-in.tsx";
import { documents } from "./routes/documents.ts";
import { jobRoutes } from "./routes/jobs.ts";
import { eventRoutes } from "./routes/notifications.ts";
import { edgeKeys } from "./runners/edge-keys.ts";
import { runnerRoutes } from "./runners/routes.ts";

/** What a deployment and the local start differ in. */
export interface Switches {
  /** Which webhook URLs may be given and called. */
  readonly webhookTargets: (env: Env) => TargetRules;
  /** Which URLs runners may be enrolled at. */
  readonly runnerTargets: (env: Env) => TargetRules;
  /** A sign-in for whoever develops here. */
  readonly developmentSignIn?: DevelopmentSignIn;
  /** Refuses requests before anything else sees them. */
  readonly guard?: MiddlewareHandler<{ Bindings: Env }>;
}

type V1 = { Bindings: Env; Variables: AuthVariables };

/** A path of ours, called with a method that it has not. OPTIONS is told what it has. */
const onlyMethods =
  (allow: string): MiddlewareHandler<V1> =>
  async (c) => {
    const caller = c.get("caller");
    const refusal = await caller.refuse(refusalOf("method_not_allowed", `This address allows ${allow}.`), {
      Allow: allow,
    });
    if (c.req.method !== "OPTIONS") throw refusal;
    return c.body(null, 204, { Allow: allow });
  };

/** The public API: rate headers on everything, authentication before everything. */
function v1(switches: Switches) {
  return new Hono<V1>()
    .use(rateHeaders())
    .use(authenticate())
    .get("/limits", async (c) => c.json(await c.get("caller").ask((account, keyHash) => account.limits(keyHash))))
    .all("/limits", onlyMethods("GET, HEAD, OPTIONS"))
    .route("/jobs", jobRoutes(switches))
    .all("/jobs", onlyMethods("GET, HEAD, OPTIONS, POST"))
    .all("/jobs/:job_id", onlyMethods("DELETE, GET, HEAD, OPTIONS"))
    .all("/jobs/:job_id/cancel", onlyMethods("OPTIONS, POST"))
    .all("/jobs/:job_id/webhook", onlyMethods("GET, HEAD, OPTIONS"))
    .all("/jobs/:job_id/webhook/redeliver", onlyMethods("OPTIONS, POST"))
    .route("/events", eventRoutes)
    .all("/events", onlyMethods("GET, HEAD, OPTIONS"))
    .all("*", async (c) => {
      throw await c.get("caller").refuse(refusalOf("not_found"));
    });
}

/** A host of the outputs' own serves nothing else (contract section 2, `GET /outputs/...`). */
const outputsApart = (): MiddlewareHandler<{ Bindings: Env }> =>
  async function outputsApartMiddleware(c, next) {
    const { baseUrl, outputsBaseUrl } = configOf(c.env);
    const apart = new URL(outputsBaseUrl).host !== new URL(baseUrl).host;
    const there = new URL(c.req.url).host === new URL(outputsBaseUrl).host;
    if (apart && there && !c.req.path.startsWith("/outputs/")) throw new ApiError(refusalOf("not_found"));
    await next();
  };

/** Middleware order, route mounts, the one error handler. */
export function createApp(switches: Switches) {
  const app = new Hono<{ Bindings: Env }>();
  app.use(requestId({ headerName: "" }), async (c, next) => {
    await next();
    c.res.headers.set("X-Request-Id", c.get("requestId"));
  });
  if (switches.guard) app.use(switches.guard);
  app.use(outputsApart());
  app.onError((error, c) => {
    if (error instanceof ApiError) return errorResponse(c, error);
    log("error", "internal_error", { request_id: c.get("requestId"), path: c.req.path, reason: reasonOf(error) });
    return errorResponse(c, new ApiError(refusalOf("internal_error")));
  });
  app.notFound((c) => errorResponse(c, new ApiError(refusalOf("not_found"))));
  app.route("/v1", v1(switches));
  app.route("/outputs", outputs);
  app.route("/runners", runnerRoutes(switches));
  app.route("/operator", operatorRoutes);
  for (const start of ["/portal", "/portal/"]) app.get(start, (c) => c.redirect("/portal/jobs", 303));
  app.route("/portal", portal(switches.developmentSignIn));
  app.route("/", documents);
  app.get("/healthz", (c) => c.json({ ok: true }));
  app.get("/.well-known/jwks.json", async (c) => {
    const { published } = await edgeKeys(c.env);
    return c.json(published, 200, { "Cache-Control": "public, max-age=300" });
  });
  return app;
}
