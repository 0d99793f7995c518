import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { outputKey, signOutputUrl } from "../../worker/outputs/urls.ts";
import { TEST_BINDINGS } from "./bindings.ts";
import { BASE, call, errorOf } from "./service.ts";

const BYTES = new TextEncoder().encode("0123456789abcdef");
const ACCOUNT = "acc_00000000000000000000";
const JOB = "01900000-0000-7000-8000-000000000000";
const HOUR_MS = 3_600_000;

/** The path of an output's signed URL. */
async function signed(n: number, filename: string, expires_at = Date.now() + HOUR_MS): Promise<string> {
  const address = { retention: "d7", account: ACCOUNT, job: JOB, fence: 3, n, filename, expires_at } as const;
  const url = await signOutputUrl(BASE, TEST_BINDINGS.OUTPUT_URL_KEY, address);
  return url.slice(BASE.length);
}

const store = (n: number, contentType: string): Promise<R2Object> =>
  env.STORE.put(outputKey("d7", ACCOUNT, JOB, 3, n), BYTES, { httpMetadata: { contentType } });

let picture: string;
let etag: string;

beforeAll(async () => {
  await store(0, "image/png");
  picture = await signed(0, "hello_00001_.png");
  etag = (await call(picture)).headers.get("etag") ?? "";
});

const get = (headers: Record<string, string> = {}, method = "GET"): Promise<Response> =>
  call(picture, { method, headers });
const bytesOf = async (response: Response): Promise<string> => new TextDecoder().decode(await response.arrayBuffer());

it("serves an output to whoever has its URL, so that no browser runs it", async () => {
  const response = await get();
  expect(response.status).toBe(200);
  expect(await bytesOf(response)).toBe("0123456789abcdef");
  expect(Object.fromEntries(response.headers)).toMatchObject({
    "content-type": "image/png",
    "content-length": "16",
    "accept-ranges": "bytes",
    "cache-control": "private, max-age=3600",
    "x-content-type-options": "nosniff",
    "content-security-policy": expect.stringMatching(/\bsandbox\b/),
    "content-disposition": "inline; filename*=UTF-8''hello_00001_.png",
    "last-modified": expect.stringMatching(/GMT$/),
  });
  expect(etag).toMatch(/^"[^"]+"$/);
  expect(response.headers.get("x-ratelimit-limit")).toBeNull();
});

it("answers HEAD with the same headers and no body", async () => {
  const response = await get({}, "HEAD");
  expect(response.status).toBe(200);
  expect(await bytesOf(response)).toBe("");
  expect(response.headers.get("etag")).toBe(etag);
  expect(response.headers.get("content-type")).toBe("image/png");
});

it("serves the range that was asked for", async () => {
  const ranges: [range: string, body: string, header: string][] = [
    ["bytes=0-0", "0", "bytes 0-0/16"],
    ["bytes=4-7", "4567", "bytes 4-7/16"],
    ["bytes=12-", "cdef", "bytes 12-15/16"],
    ["bytes=12-99", "cdef", "bytes 12-15/16"],
    ["bytes=-3", "def", "bytes 13-15/16"],
    ["bytes=15-15", "f", "bytes 15-15/16"],
  ];
  for (const [range, body, header] of ranges) {
    const response = await get({ range });
    expect(response.status).toBe(206);
    expect(response.headers.get("content-range")).toBe(header);
    expect(response.headers.get("content-length")).toBe(String(body.length));
    expect(await bytesOf(response)).toBe(body);
  }
});

it("refuses a range beyond the end with 416 and says how long the output is", async () => {
  for (const range of ["bytes=16-", "bytes=99-100", "bytes=-0"]) {
    const response = await get({ range });
    expect(response.status).toBe(416);
    expect(response.headers.get("content-range")).toBe("bytes */16");
    expect(await bytesOf(response)).toBe("");
  }
});

it("ignores what is no single range of bytes", async () => {
  for (const range of ["items=0-3", "bytes=a-b", "bytes=0-1,4-5", "bytes=", "bytes=-"]) {
    const response = await get({ range });
    expect(response.status).toBe(200);
    expect(await bytesOf(response)).toBe("0123456789abcdef");
  }
});

it("serves a range only of the output that If-Range names", async () => {
  const same = await get({ range: "bytes=4-7", "if-range": etag });
  expect(same.status).toBe(206);
  expect(await bytesOf(same)).toBe("4567");
  const other = await get({ range: "bytes=4-7", "if-range": '"another"' });
  expect(other.status).toBe(200);
  expect(await bytesOf(other)).toBe("0123456789abcdef");
});

it("answers 304 to whoever has it already", async () => {
  for (const method of ["GET", "HEAD"]) {
    const response = await get({ "if-none-match": etag }, method);
    expect(response.status).toBe(304);
    expect(response.headers.get("etag")).toBe(etag);
    expect(await bytesOf(response)).toBe("");
  }
  expect((await get({ "if-none-match": `"another", ${etag}` })).status).toBe(304);
  expect((await get({ "if-none-match": '"another"' })).status).toBe(200);
  expect((await get({ "if-match": '"another"' })).status).toBe(412);
});

it("shows pictures, films, sounds and plain text in place, and hands everything else over as a file", async () => {
  const types: [type: string, disposition: string][] = [
    ["image/png", "inline"],
    ["image/jpeg", "inline"],
    ["image/webp", "inline"],
    ["image/gif", "inline"],
    ["image/avif", "inline"],
    ["video/mp4", "inline"],
    ["audio/flac", "inline"],
    ["text/plain; charset=utf-8", "inline"],
    ["image/svg+xml", "attachment"],
    ["text/html", "attachment"],
    ["text/plainhtml", "attachment"],
    ["application/xhtml+xml", "attachment"],
    ["application/pdf", "attachment"],
    ["application/octet-stream", "attachment"],
  ];
  for (const [n, [type, disposition]] of types.entries()) {
    await store(n + 1, type);
    const response = await call(await signed(n + 1, "out.bin"));
    expect(response.headers.get("content-type")).toBe(type);
    expect(response.headers.get("content-disposition")).toBe(`${disposition}; filename*=UTF-8''out.bin`);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    expect(response.headers.get("content-security-policy")).toMatch(/\bsandbox\b/);
  }
});

it("serves names with any sign in them", async () => {
  for (const name of ['ü "x"; y=(1)*\'.png', "a/b\\c.png", "100%.png", "#?&.png", "日本.png"]) {
    const response = await call(await signed(0, name));
    expect(response.status).toBe(200);
    const [, encoded = ""] =
      /filename\*=UTF-8''([\w.%!#$&+^`|~-]+)$/.exec(response.headers.get("content-disposition") ?? "") ?? [];
    expect(decodeURIComponent(encoded)).toBe(name);
  }
});

it("knows nothing of an altered, expired or missing output", async () => {
  const url = new URL(BASE + picture);
  const altered = (change: (url: URL) => void): string => {
    const copy = new URL(url);
    change(copy);
    return copy.pathname + copy.search;
  };
  const flip = (text: string): string => (text.startsWith("A") ? "B" : "A") + text.slice(1);
  const signature = url.searchParams.get("signature") ?? "";
  const paths = [
    altered((u) => u.searchParams.set("signature", flip(signature))),
    altered((u) => u.searchParams.set("signature", "")),
    altered((u) => u.searchParams.delete("signature")),
    altered((u) => u.searchParams.set("expires", String(Number(u.searchParams.get("expires")) + 1))),
    altered((u) => u.searchParams.set("expires", "99999999999")),
    altered((u) => u.searchParams.delete("expires")),
    altered((u) => {
      u.pathname = u.pathname.replace("/3/0/", "/3/1/");
    }),
    altered((u) => {
      u.pathname = u.pathname.replace("/d7/", "/d30/");
    }),
    altered((u) => {
      u.pathname = u.pathname.replace("hello", "hullo");
    }),
    altered((u) => {
      u.pathname += "/more";
    }),
    await signed(0, "hello_00001_.png", Date.now() - 1),
    await signed(200, "never-stored.png"),
    "/outputs/",
    "/outputs/d7/x",
  ];
  for (const path of paths) {
    for (const headers of [{}, { range: "bytes=0-1" }]) {
      const response = await call(path, { headers });
      expect(response.status).toBe(404);
      const error = await errorOf(response);
      expect(error.code).toBe("not_found");
      expect(response.headers.get("x-request-id")).toBe(error.request_id);
    }
  }
});
