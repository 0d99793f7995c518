import { Hono } from "hono";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { byteRange } from "./range.ts";
import { openOutputUrl } from "./urls.ts";

/** Types that a browser may show in place; everything else is an attachment (contract section 2). */
const INLINE = /^(image\/(png|jpeg|webp|gif|avif)|video\/[\w.+-]+|audio\/[\w.+-]+|text\/plain)(;|$)/;

const notFound = (): ApiError => new ApiError(refusalOf("not_found"));

/** Headers that say the same of every answer about an output. */
function describe(object: R2Object, url: URL): Headers {
  const headers = new Headers();
  object.writeHttpMetadata(headers);
  headers.set("ETag", object.httpEtag);
  headers.set("Last-Modified", object.uploaded.toUTCString());
  headers.set("Accept-Ranges", "bytes");
  headers.set("Cache-Control", "private, max-age=3600");
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Content-Security-Policy", "sandbox; default-src 'none'");
  const filename = url.pathname.split("/").at(-1) ?? "";
  const quoted = filename.replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  const disposition = INLINE.test(headers.get("Content-Type") ?? "") ? "inline" : "attachment";
  headers.set("Content-Disposition", `${disposition}; filename*=UTF-8''${quoted}`);
  return headers;
}

const TAG = /^(\*|(W\/)?"[^"]*"(\s*,\s*(W\/)?"[^"]*")*)$/;

/** Whether a list of entity tags names this one; undefined for what is no such list, which is ignored. */
function names(header: string | undefined, etag: string): boolean | undefined {
  if (header === undefined || !TAG.test(header.trim())) return undefined;
  if (header.trim() === "*") return true;
  return header.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag);
}

/** The status that the request's conditions demand instead of the bytes (RFC 9110, section 13.2.2). */
function conditional(
  c: { req: { header(name: string): string | undefined } },
  object: R2Object,
): 304 | 412 | undefined {
  // HTTP dates have whole seconds.
  const modified = Math.floor(object.uploaded.getTime() / 1000) * 1000;
  const matches = names(c.req.header("if-match"), object.httpEtag);
  const unmodifiedSince = Date.parse(c.req.header("if-unmodified-since") ?? "");
  if (matches === false || (matches === undefined && modified > unmodifiedSince)) return 412;
  const known = names(c.req.header("if-none-match"), object.httpEtag);
  const modifiedSince = Date.parse(c.req.header("if-modified-since") ?? "");
  return known || (known === undefined && modified <= modifiedSince) ? 304 : undefined;
}

/** `GET /outputs/...` and HEAD: one stored output, by its signed URL (contract section 2). */
export const outputs = new Hono<{ Bindings: Env }>().get("/*", async (c) => {
  const url = new URL(c.req.url);
  const key = await openOutputUrl(url, c.env.OUTPUT_URL_KEY, Date.now());
  const object = key === undefined ? null : await c.env.STORE.head(key);
  if (key === undefined || object === null) throw notFound();
  const headers = describe(object, url);
  const condition = conditional(c, object);
  if (condition !== undefined) return new Response(null, { status: condition, headers });

  const ifRange = c.req.header("if-range");
  const asked = ifRange === undefined || ifRange === object.httpEtag ? c.req.header("range") : undefined;
  const range = byteRange(asked, object.size);
  if (range === "unsatisfiable") {
    headers.set("Content-Range", `bytes */${object.size}`);
    return new Response(null, { status: 416, headers });
  }
  if (range) headers.set("Content-Range", `bytes ${range.offset}-${range.offset + range.length - 1}/${object.size}`);
  headers.set("Content-Length", String(range?.length ?? object.size));
  const status = range ? 206 : 200;
  if (c.req.method === "HEAD") return new Response(null, { status, headers });
  const stored = await c.env.STORE.get(key, range ? { range } : {});
  if (stored === null) throw notFound();
  return new Response(stored.body, { status, headers });
});
