import * as v from "valibot";
import { ERROR_STATUS, ErrorEnvelope } from "../../schemas/error.ts";
import type { FuzzRequest } from "./requests.ts";
import type { Answer, Outcome } from "./wire.ts";

/** What the contract says of any answer, whatever was asked. */

export interface Verdict {
  /** A row of the table. */
  readonly label: string;
  /** What is wrong; absent where nothing is. */
  readonly fault?: string;
}

const RATE_HEADERS = [
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "ratelimit-policy",
  "ratelimit",
];

/** With which the HTTP server answers what it can't parse, before the Worker sees it. */
const SERVER_STATUSES: readonly number[] = [400, 408, 411, 413, 414, 417, 431, 501, 505];

/** The guard of the local start: not an answer of the API. */
const LOOPBACK_ONLY = "The local service answers on loopback only.";

/** What the local server in front of the Worker says to an address that it can't make a URL of. */
const UNPARSABLE_URL = /^(Internal Server Error$|TypeError: Fetch API cannot load)/;

/** Whether the address is one of the API's, as a URL parser reads it. */
function isV1({ target }: FuzzRequest): boolean {
  const url = `http://127.0.0.1${target}`;
  return target.startsWith("/") && URL.canParse(url) && /^\/v1(\/|$)/.test(new URL(url).pathname);
}

/** What the HTTP server says to a request line that it can't read; of an answer to HEAD only its length is seen. */
const BAD_URI = "invalid URI";

/** Runners speak a protocol of their own, whose refusals have no request id in the body. */
const isRunners = ({ target }: FuzzRequest): boolean => target.startsWith("/runners/");

export function judge(request: FuzzRequest, outcome: Outcome): Verdict {
  if (outcome.kind === "hang") return { label: "hang", fault: "no answer in 10 s" };
  if (outcome.kind === "closed") {
    return request.brokenHttp
      ? { label: "hung up (broken HTTP)" }
      : { label: "hung up", fault: "the connection was closed without an answer" };
  }
  const { answer } = outcome;
  const { status } = answer;
  if (!answer.headers.has("x-request-id")) {
    const silent = request.method === "HEAD" && answer.body === "";
    const badUri = answer.body === BAD_URI || (silent && answer.headers.get("content-length") === `${BAD_URI.length}`);
    const unparsed = request.brokenHttp || badUri;
    if (SERVER_STATUSES.includes(status) && unparsed) return { label: `${status} by the HTTP server` };
    if (status === 500 && request.brokenHttp && (silent || UNPARSABLE_URL.test(answer.body))) {
      return { label: "500 by the local server (no URL)" };
    }
    return { label: `${status} without X-Request-Id`, fault: "no X-Request-Id" };
  }
  if (status === 403 && answer.body === LOOPBACK_ONLY) return { label: "403 loopback only" };
  const code = codeOf(answer);
  const label = code === undefined ? String(status) : `${status} ${code}`;
  const fault = faultOf(request, answer, code);
  return fault === undefined ? { label } : { label, fault };
}

function codeOf({ status, body }: Answer): string | undefined {
  if (status < 400) return undefined;
  try {
    const { error } = JSON.parse(body) as { error?: { code?: unknown } };
    return typeof error?.code === "string" ? error.code : undefined;
  } catch {
    return undefined;
  }
}

function faultOf(request: FuzzRequest, answer: Answer, code: string | undefined): string | undefined {
  const { status, headers, body } = answer;
  if (status >= 500) return "a 5xx";
  if (isV1(request) && request.raw === undefined) {
    const missing = RATE_HEADERS.filter((name) => !headers.has(name));
    if (missing.length > 0) return `no ${missing.join(", ")}`;
  }
  if (/\bat \w+.*:\d+:\d+|node_modules|SQLITE|TypeError|SyntaxError/.test(body))
    return "the words of an error of the code";
  if (status === 401 && !headers.has("www-authenticate")) return "401 without WWW-Authenticate";
  if (status === 405 && !headers.has("allow")) return "405 without Allow";
  if (status === 429 && !(Number(headers.get("retry-after")) >= 1)) return "429 without Retry-After";
  if (status < 400 || request.method === "HEAD" || isRunners(request)) return undefined;
  const envelope = v.safeParse(v.pipe(v.string(), v.parseJson(), ErrorEnvelope), body);
  if (!envelope.success) return "no error envelope";
  const { error } = envelope.output;
  if (ERROR_STATUS[error.code] !== status) return `status ${status} does not belong to ${code}`;
  if (error.request_id !== headers.get("x-request-id")) return "request_id is not X-Request-Id";
  if (error.message === "") return "an empty message";
  return undefined;
}
