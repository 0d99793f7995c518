import { Hono } from "hono";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { openOutputUrl } from "./urls.ts";

/** Types that a browser may show in place; everything else is an attachment (contract section 2). */
const INLINE = /^(image\/(png|jpeg|webp|gif|avif)|video\/[\w.+-]+|audio\/[\w.+-]+|text\/plain)(;|$)/;

const notFound = (): ApiError => new ApiError(refusalOf("not_found"));

function contentRange({ range, size }: R2ObjectBody): { status: 200 | 206; length: number; header?: string } {
  if (!range) return { status: 200, length: size };
  const offset = "suffix" in range ? Math.max(0, size - range.suffix) : (range.offset ?? 0);
  const length =
    "suffix" in range ? Math.min(range.suffix, size) : Math.min(range.length ?? size - offset, size - offset);
  if (offset === 0 && length === size) return { status: 200, length };
  return { status: 206, length, header: `bytes ${offset}-${offset + length - 1}/${size}` };
}

/** A well-formed single range of bytes; anything else is ignored, as HTTP allows. */
const RANGE = /^bytes=(\d+-\d*|-\d+)$/;

export const outputs = new Hono<{ Bindings: Env }>().get("/*", async (c) => {
  const url = new URL(c.req.url);
  const key = await openOutputUrl(url, c.env.OUTPUT_URL_KEY, Date.now());
  if (key === undefined) throw notFound();
  const asked = c.req.header("range");
  const ifRange = c.req.header("if-range");
  const head = asked !== undefined || c.req.method === "HEAD" ? await c.env.STORE.head(key) : undefined;
  if (head === null) throw notFound();
  const start = Number(/^bytes=(\d+)-/.exec(asked ?? "")?.[1] ?? 0);
  if (head && RANGE.test(asked ?? "") && (start >= head.size || asked === "bytes=-0")) {
    return c.body(null, 416, { "Content-Range": `bytes */${head.size}` });
  }
  const ranged = head && RANGE.test(asked ?? "") && (ifRange === undefined || ifRange === head.httpEtag);
  const object = await c.env.STORE.get(key, {
    onlyIf: c.req.raw.headers,
    ...(ranged ? { range: new Headers({ range: asked ?? "" }) } : {}),
  });
  if (object === null) throw notFound();

  const headers = new Headers();
  object.writeHttpMetadata(headers);
  headers.set("ETag", object.httpEtag);
  headers.set("Last-Modified", object.uploaded.toUTCString());
  headers.set("Accept-Ranges", "bytes");
  headers.set("Cache-Control", "private, max-age=3600");
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("Content-Security-Policy", "sandbox; default-src 'none'");
  const filename = url.pathname.split("/").at(-1) ?? "";
  const disposition = INLINE.test(headers.get("Content-Type") ?? "") ? "inline" : "attachment";
  headers.set(
    "Content-Disposition",
    `${disposition}; filename*=UTF-8''${filename.replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)}`,
  );
  if (!("body" in object)) {
    // A precondition failed: the client has it already, or wants another one.
    return new Response(null, {
      status: c.req.header("if-none-match") || c.req.header("if-modified-since") ? 304 : 412,
      headers,
    });
  }
  const { status, length, header } = contentRange(object);
  headers.set("Content-Length", String(length));
  if (header) headers.set("Content-Range", header);
  return new Response(object.body, { status, headers });
});
