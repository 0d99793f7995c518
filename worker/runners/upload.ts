import type { Context } from "hono";
import { base64url } from "jose";
import * as v from "valibot";
import { MAX_OUTPUT_FILES, MAX_UPLOAD_BYTES } from "../../schemas/limits.ts";
import { OUTPUT_HEADER, OutputHeader } from "../../schemas/runner-protocol.ts";
import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { outputKey } from "../outputs/urls.ts";
import { authoriseLease, hexDigest } from "./authorise.ts";

function describe(header: string | undefined): v.InferOutput<typeof OutputHeader> | undefined {
  if (header === undefined || header.length > 4096) return undefined;
  try {
    const json = new TextDecoder().decode(base64url.decode(header));
    const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), OutputHeader), json);
    return parsed.success ? parsed.output : undefined;
  } catch {
    return undefined;
  }
}

/**
 * `PUT /runners/outputs/{n}`: one output of one execution, streamed into R2, which verifies its SHA-256 (design section 6, step 4).
 * The key comes from the lease, never from the runner's word. Written once: a repeat is answered like the first. A stale
 * execution is refused before its body is read.
 */
export async function upload(c: Context<{ Bindings: Env }>): Promise<Response> {
  const authorised = await authoriseLease(c);
  if (!authorised.ok) return authorised.response;
  const { account, job, fence, retention } = authorised.claims;
  const refuse = (status: 400 | 409 | 411 | 413 | 422, code: string, message: string): Response =>
    c.json({ error: { code, message } }, status);
  const n = c.req.param("n") ?? "";
  if (!/^\d{1,3}$/.test(n) || Number(n) >= MAX_OUTPUT_FILES) return refuse(400, "invalid_request", "No such output.");
  const description = describe(c.req.header(OUTPUT_HEADER));
  const sha256 = hexDigest(authorised.bodySha256);
  if (!description || description.sha256 !== sha256)
    return refuse(400, "invalid_request", "The output header does not match the proof.");
  const length = Number(c.req.header("content-length") ?? Number.NaN);
  if (!Number.isInteger(length) || length !== description.size_bytes)
    return refuse(411, "invalid_request", "Content-Length must be the output's size.");
  if (length > MAX_UPLOAD_BYTES)
    return refuse(413, "payload_too_large", "An output in one request has at most 64 MiB.");
  if (!(await c.env.ACCOUNT.getByName(account).mayUpload(job, fence))) {
    return refuse(409, "fenced", "This execution is not the current one.");
  }
  const key = outputKey(retention, account, job, fence, Number(n));
  try {
    const stored = await c.env.STORE.put(key, c.req.raw.body ?? new Uint8Array(), {
      sha256,
      httpMetadata: { contentType: description.content_type },
      onlyIf: { etagDoesNotMatch: "*" },
    });
    if (stored) return c.body(null, 201);
  } catch (error) {
    log("warn", "upload_failed", { job, fence, n, reason: reasonOf(error) });
    return c.json({ error: { code: "store_failed", message: "The output was not stored; send it again." } }, 502);
  }
  const known = await c.env.STORE.head(key);
  const digest = known?.checksums.toJSON().sha256;
  return digest === sha256 ? c.body(null, 201) : refuse(422, "conflict", "Another output is stored there.");
}
