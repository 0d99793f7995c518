import { Hono } from "hono";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";

/** The API's OpenAPI document and the page that shows it. Both are files of the deployment; nothing of them is in the Worker. */

/**
 * Scripts, styles and calls of the service's own host only. The viewer's icons are data URLs in its style sheet, and pictures that
 * it has fetched itself are blobs.
 */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** A file of the deployment. What is none is 404 `not_found`. */
async function fileOf({ ASSETS }: Env, request: Request, path: string): Promise<Response> {
  const headers = new Headers();
  const known = request.headers.get("if-none-match");
  if (known !== null) headers.set("If-None-Match", known);
  const file = await ASSETS.fetch(new Request(new URL(path, request.url), { headers }));
  if (file.status !== 200 && file.status !== 304) throw new ApiError(refusalOf("not_found"));
  return file;
}

async function page(env: Env, request: Request, path: string): Promise<Response> {
  const file = await fileOf(env, request, path);
  const headers = new Headers(file.headers);
  headers.set("Content-Security-Policy", PAGE_POLICY);
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Referrer-Policy", "no-referrer");
  return new Response(file.body, { status: file.status, headers });
}

export const documents = new Hono<{ Bindings: Env }>()
  .get("/openapi.json", async (c) => {
    const file = await c.env.ASSETS.fetch(new URL("/openapi.json", c.req.url));
    const document = (await file.json()) as { servers: readonly [{ url: string }] };
    const servers = [{ ...document.servers[0], url: configOf(c.env).baseUrl }];
    return c.json({ ...document, servers }, 200, { "Cache-Control": "public, max-age=300" });
  })
  .get("/docs", (c) => page(c.env, c.req.raw, "/docs/index.html"))
  .get("/docs/*", (c) => page(c.env, c.req.raw, new URL(c.req.url).pathname));
