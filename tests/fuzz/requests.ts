import { jsonBody } from "./bodies.ts";
import { authorization, BROKEN_EXTRA, CONTENT_TYPES, EXTRA, JOB } from "./headers.ts";
import { Random } from "./random.ts";

/** One malformed request. Everything follows from seed and number, but for the key and the job ids that are put in as it is sent. */
export interface FuzzRequest {
  readonly n: number;
  readonly method: string;
  /** The request target as it stands in the first line. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer;
  readonly framing: Framing;
  /** In place of all of the above. */
  readonly raw?: Buffer;
  /** Its HTTP itself is broken: the server may answer for itself or hang up. */
  readonly brokenHttp: boolean;
}

export type Framing =
  | "none"
  | "length"
  | "chunked"
  | "too-long"
  | "too-short"
  | "twice"
  | "both"
  | "bad-number"
  | "bad-chunk"
  | "unended-chunk"
  | "chunk-extension";

const HEALTHY: readonly Framing[] = ["none", "length", "chunked", "chunk-extension"];

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] as const;
const ODD_METHODS = ["TRACE", "CONNECT", "get", "PROPFIND", "QUERY", "G\u0000T", "", "POST ", "X".repeat(300)] as const;

const SEGMENTS = [
  "jobs",
  "v1",
  JOB,
  "cancel",
  "limits",
  "%00",
  "%ff",
  "%2e%2e",
  "..",
  ".",
  "%",
  "%zz",
  "__proto__",
  "constructor",
  "01900000-0000-7000-8000-000000000000",
  "01900000-0000-7000-8000-00000000000G",
  "é",
  "%F0%9F%98%80",
  "a".repeat(300),
  "{}",
  ":job_id",
  "*",
  "",
  ";x=1",
  "events",
  "files",
  "webhook",
  "redeliver",
  "share",
] as const;

const QUERIES = [
  "limit",
  "cursor",
  "status",
  "created_after",
  "created_before",
  "wait",
  "__proto__",
  "after",
  "x",
] as const;
const QUERY_VALUES = [
  "",
  "0",
  "-1",
  "1",
  "1.5",
  "1e2",
  "100",
  "101",
  "999999999",
  "9999999999999999999999",
  "abc",
  "%00",
  "%ff",
  "%",
  "+",
  "NaN",
  "MQ",
  "OTk5OTk5OTk5OTk5OTk5",
  "!!!",
  "queued",
  "ended",
  "2026-01-31T09:00:00Z",
  "2026-02-30",
  "-271821-04-20",
  "0000-00-00",
  "9999-12-31T23:59:60Z",
  "2026-01-31T09:00:00%2B99:99",
  "[]",
  "%27%20OR%201=1--",
] as const;

/** Events' ids, and cursors: 0, 1, the largest, one beyond, a fraction, less than none, padded. */
const PLACES = [
  `evt_${JOB}`,
  "evt_01900000-0000-7000-8000-000000000000",
  `evt_${"x".repeat(36)}`,
  `evt_${JOB}${JOB}`,
  `EVT_${JOB}`,
  `evt_%00${JOB}`,
  "evt_",
  JOB,
  "MA",
  "MQ",
  "OTk5OTk5OTk5OTk5OTk5",
  "OTk5OTk5OTk5OTk5OTk5OQ",
  "MS41",
  "LTE",
  "MQ==",
  "",
] as const;

function known(random: Random): string {
  return random.pick([
    "/v1/jobs",
    "/v1/limits",
    "/v1/events",
    `/v1/events?after=${random.pick(PLACES)}&limit=${random.int(0, 101)}`,
    `/v1/jobs/${JOB}`,
    `/v1/jobs/${JOB}/cancel`,
    `/v1/jobs/${JOB}/webhook`,
    `/v1/jobs/${JOB}/webhook/redeliver`,
    "/v1",
    "/v1/",
  ]);
}

function path(random: Random): string {
  const roll = random.next();
  if (roll < 0.6) return known(random);
  if (roll < 0.93) {
    return `/v1/${Array.from({ length: random.int(0, 4) }, () => random.pick(SEGMENTS)).join(random.pick(["/", "/", "//", "%2f"]))}`;
  }
  return random.pick([
    "/",
    "/healthz",
    "/.well-known/jwks.json",
    "/outputs/",
    `/outputs/o/d7/acc_${"x".repeat(20)}/${JOB}/1/0?e=1&s=AAAA`,
    `/outputs/${random.text(20).replace(/[\s#]/g, "")}`,
    "/operator/accounts",
    "/operator/runners?pool=%00",
    "/operator/accounts/__proto__/tier",
    "/operator/accounts/__proto__/webhook-secret",
    "/runners/enrol",
    "/runners/heartbeat",
    "/runners/outputs/999999999999",
    "/runners/end",
    "/V1/JOBS",
    "/favicon.ico",
  ]);
}

function query(random: Random): string {
  if (!random.chance(0.35)) return "";
  const pairs = Array.from({ length: random.int(1, 3) }, () => `${random.pick(QUERIES)}=${random.pick(QUERY_VALUES)}`);
  return `?${pairs.join(random.pick(["&", "&", ";", "&&"]))}${random.chance(0.02) ? "#x" : ""}`;
}

const GARBAGE: readonly [string, ...string[]] = [
  "\r\n\r\n\r\n",
  "GET\r\n\r\n",
  "GET /v1/jobs\r\n\r\n",
  "GET /v1/jobs HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n",
  "GET /v1/jobs HTTP/1.0\r\n\r\n",
  "GET v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
  "GET http://127.0.0.1/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
  "GET http://evil.example/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
  "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
  "GET /v1/jobs HTTP/1.1\r\nConnection: close\r\n\r\n",
  "GET /v1/jobs HTTP/1.1\nHost: 127.0.0.1\nConnection: close\n\n",
  "GET /v1/jobs HTTP/1.1\r\nHost: [\r\nConnection: close\r\n\r\n",
  "GET /v1/jobs HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003",
];

const FRAMINGS: readonly [Framing, ...Framing[]] = [
  "too-long",
  "too-short",
  "twice",
  "both",
  "bad-number",
  "bad-chunk",
  "unended-chunk",
];

/** Request number `n` of a run. */
export function requestOf(seed: number, n: number): FuzzRequest {
  const random = new Random(Math.imul(seed, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b));
  const empty = { n, method: "", target: "", headers: [], body: Buffer.alloc(0), framing: "none" } as const;
  if (random.chance(0.03)) {
    const raw = random.chance(0.7) ? Buffer.from(random.pick(GARBAGE), "latin1") : random.bytes(random.int(1, 400));
    return { ...empty, raw, brokenHttp: true };
  }
  const posts = random.chance(0.55);
  const oddMethod = !posts && random.chance(0.05);
  const method = posts ? "POST" : oddMethod ? random.pick(ODD_METHODS) : random.pick(METHODS);
  const target = posts && random.chance(0.9) ? `/v1/jobs${query(random)}` : path(random) + query(random);
  const headers: (readonly [string, string])[] = [];
  const auth = authorization(random);
  if (auth !== undefined) headers.push(["Authorization", auth]);
  // Strangers are counted by their address: each has its own, so that one window does not hide what is wrong with the others.
  if (random.chance(0.9)) headers.push(["CF-Connecting-IP", `10.0.${random.int(0, 3)}.${random.int(0, 255)}`]);
  const hasBody = posts || random.chance(0.2);
  if (hasBody) {
    headers.push(["Content-Type", random.chance(0.9) ? "application/json" : random.pick(CONTENT_TYPES)]);
  }
  while (random.chance(0.2)) headers.push(random.pick(EXTRA));
  const brokenHeader = random.chance(0.03);
  if (brokenHeader) headers.push(random.pick(BROKEN_EXTRA));
  const framing: Framing = !hasBody
    ? "none"
    : random.chance(0.08)
      ? random.pick(FRAMINGS)
      : random.pick(["length", "length", "length", "chunked", "chunk-extension"]);
  const duplicated = random.chance(0.01);
  if (duplicated) headers.push(...headers);
  return {
    n,
    method,
    target,
    headers,
    body: hasBody ? jsonBody(random) : Buffer.alloc(0),
    framing,
    brokenHttp:
      oddMethod || brokenHeader || !HEALTHY.includes(framing) || !/^[\x21-\x7e]*$/.test(target) || target.includes("#"),
  };
}
