import type { Random } from "./random.ts";

/** Headers that are wrong or odd. */

/** Replaced as it is sent: a live key, and a job id of the account. */
export const KEY = "{KEY}";
export const JOB = "{JOB}";

export const authorization = (random: Random): string | undefined => {
  if (random.chance(0.88)) return `Bearer ${KEY}`;
  return random.pick([
    undefined,
    "",
    "Bearer",
    "Bearer ",
    `bearer  ${KEY}`,
    `BEARER\t${KEY}`,
    `Basic ${KEY}`,
    KEY,
    `Bearer ${KEY} x`,
    `Bearer ${KEY},Bearer ${KEY}`,
    `Bearer sk_live_${"x".repeat(43)}`,
    `Bearer sk_live_${"x".repeat(42)}`,
    `Bearer sk_test_${"x".repeat(43)}`,
    "Bearer __proto__",
    `Bearer ${"é".repeat(10)}`,
    `Bearer ${"x".repeat(6_000)}`,
    `DPoP ${KEY}`,
    `Bearer "${KEY}"`,
  ]);
};

export const CONTENT_TYPES = [
  "application/json",
  "application/json; charset=utf-8",
  "application/json; charset=utf-16",
  "application/json, text/plain",
  "text/plain",
  "APPLICATION/JSON ; x=y",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "application/jsonx",
  "",
  "é",
] as const;

export const EXTRA: readonly [readonly [string, string], ...(readonly [string, string])[]] = [
  ["Content-Encoding", "gzip"],
  ["Content-Encoding", "br, gzip"],
  ["Content-Encoding", "IDENTITY"],
  ["Prefer", "wait=0"],
  ["Prefer", "wait=1"],
  ["Prefer", 'respond-async; wait="x", wait=-1'],
  ["Prefer", `wait=${"9".repeat(400)}`],
  ["Idempotency-Key", "a-key"],
  ["Idempotency-Key", "another key"],
  ["Idempotency-Key", ""],
  ["Idempotency-Key", "k".repeat(255)],
  ["Idempotency-Key", "k".repeat(256)],
  ["Idempotency-Key", "\u00e9"],
  ["Idempotency-Key", "__proto__"],
  ["Accept", "text/html"],
  ["Accept-Encoding", "gzip, br, zstd;q=0"],
  ["Range", "bytes=0-1,5-2"],
  ["If-None-Match", "*"],
  ["Expect", "100-continue"],
  ["Expect", "nonsense"],
  ["X-Request-Id", "<script>"],
  ["X-Forwarded-For", "1.2.3.4"],
  ["CF-Connecting-IP", "::ffff:1.2.3.4"],
  ["CF-Connecting-IP", "not an address"],
  ["Cookie", "a=b; __proto__=1"],
  ["Origin", "null"],
  ["X-Long", "y".repeat(5_000)],
  ["Connection", "keep-alive, Upgrade"],
  ["Upgrade", "websocket"],
  ["Sec-WebSocket-Key", "x"],
  ["TE", "trailers"],
  ["Content-Location", "\u00ff\u00fe"],
  ["X-HTTP-Method-Override", "DELETE"],
];

export const BROKEN_EXTRA: readonly [readonly [string, string], ...(readonly [string, string])[]] = [
  ["X Space", "y"],
  ["X-Nul", "a\u0000b"],
  ["X-Line", "a\r\n folded"],
  ["", "empty name"],
  ["X-Cr", "a\rb"],
  ["Host", "127.0.0.1, evil.example"],
  ["Transfer-Encoding", "gzip, chunked"],
  ["Transfer-Encoding", "chunked, chunked"],
  ["Transfer-Encoding", "\u000bchunked"],
  ["X-Huge", "z".repeat(70_000)],
];
