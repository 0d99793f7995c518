import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { PythonError } from "./python-error.ts";
import { type Call, empty, type Reply, text, trouble } from "./reply.ts";
import { ROUTES, type Route, type World } from "./routes.ts";

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly at: number;
}

/** Connections on which a 413 was answered: what comes next on them is not understood. */
const spoiled = new WeakSet<object>();

/** A request from elsewhere, as a browser marks it. */
export function isForeign({ headers }: IncomingMessage): boolean {
  if (headers["sec-fetch-site"] === "cross-site") return true;
  if (headers.origin === undefined) return false;
  return URL.parse(headers.origin)?.host !== headers.host;
}

async function readBody(request: IncomingMessage, most: number): Promise<Buffer | undefined> {
  if (Number(request.headers["content-length"] ?? 0) > most) return undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function find(path: string, world: World): readonly { route: Route; caught: readonly string[] }[] {
  const isApi = path.startsWith("/api/");
  const plain = isApi ? path.slice("/api".length) : path;
  return ROUTES.filter((route) => isApi || route.apiOnly !== true)
    .filter((route) => route.isThere?.(world) ?? true)
    .flatMap((route) => {
      const found = route.path.exec(plain);
      return found === null ? [] : [{ route, caught: found.slice(1).filter((part) => part !== undefined) }];
    });
}

async function answer(call: Omit<Call, "caught">, world: World): Promise<Reply> {
  const found = find(call.path, world);
  if (found.length === 0) return { status: 404, headers: { "content-type": "application/octet-stream" } };
  if (call.method === "OPTIONS") return empty();
  const method = call.method === "HEAD" ? "GET" : call.method;
  const chosen = found.find(({ route }) => route.methods.includes(method));
  if (chosen === undefined) {
    const allowed = found.flatMap(({ route }) =>
      route.methods.flatMap((one) => (one === "GET" ? ["GET", "HEAD"] : [one])),
    );
    return text(405, "405: Method Not Allowed", { allow: [...new Set(allowed)].sort().join(",") });
  }
  try {
    return await chosen.route.handle({ ...call, caught: chosen.caught.map(decodeURIComponent) }, world);
  } catch (error) {
    if (error instanceof PythonError) return trouble();
    return text(500, `the fake itself failed: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

function write(response: ServerResponse, { status, headers = {}, body = "" }: Reply): void {
  const isBare = status === 304 || status === 404;
  response.writeHead(status, { ...(isBare ? {} : { "content-length": Buffer.byteLength(body) }), ...headers });
  response.end(response.req.method === "HEAD" ? undefined : body);
}

export interface Door {
  readonly world: World;
  received(request: ReceivedRequest, body: Buffer): void;
  /** The server took a `POST /prompt` up and gave the reply. */
  submitted(body: Buffer, reply: Reply): void;
}

/** Takes one request from the wire to the reply on it. */
export async function serve(request: IncomingMessage, response: ServerResponse, door: Door): Promise<void> {
  const { world } = door;
  const { knobs, process } = world;
  if (spoiled.has(request.socket)) {
    write(response, text(400, "Bad HTTP method in status line '8'", { connection: "close" }));
    return;
  }
  const { pathname: path, searchParams: query } = new URL(request.url ?? "", "http://localhost");
  const method = request.method ?? "GET";
  await process.gate();
  const fault = knobs.faults(method, path);
  if (fault === "silence" || process.isDead) return;
  if (fault === "breaks") {
    request.socket.destroy();
    return;
  }
  const body = await readBody(request, world.maxUploadSize_bytes).catch(() => "broken off" as const);
  if (body === "broken off") return;
  if (body === undefined) {
    spoiled.add(request.socket);
    write(response, text(413, `Maximum request body size ${world.maxUploadSize_bytes} exceeded.`));
    return;
  }
  door.received(
    { method, path: `${path}${new URL(request.url ?? "", "http://localhost").search}`, at: Date.now() },
    body,
  );
  if (typeof fault === "object") {
    write(response, text(fault.status, fault.body ?? ""));
    return;
  }
  if (isForeign(request)) {
    write(response, empty(403));
    return;
  }
  const headers = request.headers as Call["headers"];
  const reply = await answer({ method, path, query, headers, body }, world);
  if (method === "POST" && /^(?:\/api)?\/prompt$/.test(path)) {
    door.submitted(body, reply);
    if (knobs.replyDelay_ms > 0) await wait(knobs.replyDelay_ms);
  }
  await process.gate();
  if (fault === "reply lost" || process.isDead) request.socket.destroy();
  else write(response, reply);
}

/** Takes one upgrade to a socket, or refuses it. */
export async function upgrade(request: IncomingMessage, stream: Duplex, head: Buffer, { world }: Door): Promise<void> {
  stream.on("error", () => undefined);
  await world.process.gate();
  const { pathname } = new URL(request.url ?? "", "http://localhost");
  if (world.process.isDead || world.knobs.faults("GET", pathname) === "breaks") stream.destroy();
  else if (isForeign(request)) stream.end("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
  else if (!["/ws", "/api/ws"].includes(pathname)) stream.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  else world.process.sockets.accept(request, stream, head);
}
