import { connect } from "node:net";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { JOB, KEY } from "./headers.ts";
import type { FuzzRequest } from "./requests.ts";

/** Requests to bytes, bytes to answers. */

export interface Answer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export type Outcome =
  | { readonly kind: "answer"; readonly answer: Answer }
  /** The server hung up without a word. */
  | { readonly kind: "closed" }
  | { readonly kind: "hang" };

export interface Names {
  readonly host: string;
  readonly port: number;
  readonly key: string;
  readonly job: string;
}

export const TIMEOUT_MS = 10_000;

function framed({ body, framing }: FuzzRequest): { headers: string[]; bytes: Buffer } {
  const length = (n: number | string): string => `Content-Length: ${n}`;
  const chunk = (extension = "", end = "0\r\n\r\n"): Buffer =>
    Buffer.concat([
      ...(body.length === 0
        ? []
        : [Buffer.from(`${body.length.toString(16)}${extension}\r\n`), body, Buffer.from("\r\n")]),
      Buffer.from(end),
    ]);
  const CHUNKED = "Transfer-Encoding: chunked";
  switch (framing) {
    case "none":
      return { headers: [], bytes: Buffer.alloc(0) };
    case "length":
      return { headers: [length(body.length)], bytes: body };
    case "chunked":
      return { headers: [CHUNKED], bytes: chunk() };
    case "chunk-extension":
      return { headers: [CHUNKED], bytes: chunk(';a="b"', "0\r\nX-Trailer: x\r\n\r\n") };
    case "too-long":
      return { headers: [length(body.length + 1_000)], bytes: body };
    case "too-short":
      return { headers: [length(Math.floor(body.length / 2))], bytes: body };
    case "twice":
      return { headers: [length(body.length), length(body.length + 1)], bytes: body };
    case "both":
      return { headers: [length(body.length), CHUNKED], bytes: chunk() };
    case "bad-number":
      return {
        headers: [length(["-1", "0x10", "1e3", "99999999999999999999", "abc"][body.length % 5] ?? "")],
        bytes: body,
      };
    case "bad-chunk":
      return { headers: [CHUNKED], bytes: Buffer.concat([Buffer.from("zz\r\n"), body, Buffer.from("\r\n0\r\n\r\n")]) };
    case "unended-chunk":
      return { headers: [CHUNKED], bytes: chunk("", "5\r\nab") };
  }
}

const named = (text: string, { key, job }: Names): string => text.replaceAll(KEY, key).replaceAll(JOB, job);

/** The exact bytes that go over the socket. */
export function bytesOf(request: FuzzRequest, names: Names): Buffer {
  if (request.raw) return request.raw;
  const { method, target, headers } = request;
  const { headers: framing, bytes } = framed(request);
  const lines = [
    `${method} ${named(target, names)} HTTP/1.1`,
    `Host: ${names.host}:${names.port}`,
    "Connection: close",
    ...headers.map(([name, value]) => `${name}: ${named(value, names)}`),
    ...framing,
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "utf8"), bytes]);
}

function unchunked(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf("\r\n", at);
    const size = Number.parseInt(bytes.subarray(at, end).toString("latin1"), 16);
    if (end < 0 || !(size > 0)) break;
    parts.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

/** The first final answer among the bytes that came. */
function answerIn(bytes: Buffer): Answer | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const [first = "", ...lines] = bytes.subarray(0, end).toString("latin1").split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1]);
  if (!status) return undefined;
  if (status < 200) return answerIn(bytes.subarray(end + 4));
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const rest = bytes.subarray(end + 4);
  const length = Number(headers.get("content-length") ?? Number.NaN);
  const body = headers.get("transfer-encoding") === "chunked" ? unchunked(rest) : rest.subarray(0, length || undefined);
  return { status, headers, body: length === 0 ? "" : uncompressed(body, headers.get("content-encoding")) };
}

function uncompressed(body: Buffer, encoding: string | undefined): string {
  try {
    if (encoding === "gzip") return gunzipSync(body).toString("utf8");
    if (encoding === "br") return brotliDecompressSync(body).toString("utf8");
  } catch {
    return `(not ${encoding}) ${body.toString("latin1")}`;
  }
  return body.toString("utf8");
}

/** Sends bytes over a socket of their own, says that no more will come, and reads until the server hangs up. */
export function sendRaw(bytes: Buffer, { host, port }: Names): Promise<Outcome> {
  return new Promise((resolve) => {
    const parts: Buffer[] = [];
    const socket = connect({ host, port, allowHalfOpen: true });
    const timer = setTimeout(() => settle(true), TIMEOUT_MS);
    const settle = (hang: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      const answer = answerIn(Buffer.concat(parts));
      resolve(answer ? { kind: "answer", answer } : { kind: hang ? "hang" : "closed" });
    };
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.once("end", () => settle(false));
    socket.once("error", () => settle(false));
    socket.once("connect", () => socket.end(bytes));
  });
}

/** The same with fetch and its kept-alive connections; undefined where fetch would not send such a thing. */
export async function sendFetch(request: FuzzRequest, names: Names): Promise<Outcome | undefined> {
  let built: Request;
  try {
    const { method, body, framing } = request;
    built = new Request(`http://${names.host}:${names.port}${named(request.target, names)}`, {
      method,
      headers: request.headers.map(([name, value]): [string, string] => [name, named(value, names)]),
      ...(framing === "none" ? {} : { body: new Uint8Array(body) }),
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    return undefined;
  }
  try {
    const response = await fetch(built);
    const body = await response.text();
    return { kind: "answer", answer: { status: response.status, headers: new Map(response.headers), body } };
  } catch (error) {
    if (error instanceof DOMException && error.name === "TimeoutError") return { kind: "hang" };
    // What undici itself will not send; the server has seen nothing.
    if (error instanceof TypeError && /invalid|not supported|expect/i.test(String(error.cause))) return undefined;
    return { kind: "closed" };
  }
}
