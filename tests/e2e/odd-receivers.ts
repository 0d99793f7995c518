import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";

/** Endpoints of customers as they are met: over real sockets, each with a way of its own to answer or not to. */

/** One request as it came over the wire. */
export interface Received {
  readonly at: number;
  /** Path and query. */
  readonly target: string;
  /** By their names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Connection {
  readonly opened_at: number;
  closed_at?: number;
}

export interface OddReceiver {
  readonly url: string;
  /** Every request that came whole. */
  readonly received: readonly Received[];
  readonly connections: readonly Connection[];
}

/** Parts of every receiver's URL that are nobody's business but its owner's. */
export const SECRETS_IN_URLS = ["hush-hush", "s3cret"];
const TARGET = "/hush-hush?token=s3cret";

type Behaviour = (socket: Socket) => void;

const head = (status: string, more: readonly string[] = []): string =>
  [`HTTP/1.1 ${status}`, ...more, "\r\n"].join("\r\n");

const answer =
  (status: string, body: string | Buffer = "", ...more: readonly string[]): Behaviour =>
  (socket) => {
    socket.write(head(status, [`Content-Length: ${Buffer.byteLength(body)}`, "Connection: close", ...more]));
    socket.end(body);
  };

/** Sends this as fast as it is taken, for ever. */
function flood(socket: Socket, text: string): void {
  while (socket.writable && socket.write(text));
  socket.once("drain", () => flood(socket, text));
}

/** Begins an answer, and goes on and on. */
const flooding =
  (start: string, text: string): Behaviour =>
  (socket) => {
    socket.write(start);
    flood(socket, text);
  };

/** The same, slower than a receiver may be. */
const dripping =
  (start: string, text: string): Behaviour =>
  (socket) => {
    socket.write(start);
    const timer = setInterval(() => socket.write(text), 500);
    socket.once("close", () => clearInterval(timer));
  };

const OK = "200 OK";
const BOOM = "500 Internal Server Error";
const CHUNKED = ["Transfer-Encoding: chunked"];
const CHUNK = `10000\r\n${"x".repeat(0x10000)}\r\n`;
const HALF = "\r\nContent-Length: 100\r\n\r\nhalf of it";

/** What a receiver does with a whole request. */
export const BEHAVIOURS = {
  "200": answer(OK, "thanks"),
  "204": answer("204 No Content"),
  "200 after early hints": (socket) => {
    socket.write(head("103 Early Hints", ["Link: </style.css>; rel=preload"]));
    answer(OK, "thanks")(socket);
  },
  "200, broken gzip": answer(OK, "this is no gzip", "Content-Encoding: gzip"),
  "half a 200": (socket) => void socket.end(`HTTP/1.1 ${OK}${HALF}`),
  "endless 200": (socket) => void socket.write(`${head(OK, CHUNKED)}5\r\nstill\r\n`),
  "huge 200": flooding(head(OK, CHUNKED), CHUNK),
  "101": answer("101 Switching Protocols", "", "Upgrade: x"),
  "302": answer("302 Found", "", "Location: http://127.0.0.1:1/elsewhere"),
  "401": answer("401 Unauthorized", "who are you?"),
  "404": answer("404 Not Found", "no such page"),
  "500": answer(BOOM, "boom"),
  "500, ready for more": (socket) => void socket.write(`${head(BOOM, ["Content-Length: 4"])}boom`),
  "500, no text": answer(BOOM, Buffer.alloc(5_000, 0xff)),
  "500, broken gzip": answer(BOOM, "this is no gzip", "Content-Encoding: gzip"),
  "503": answer("503 Service Unavailable", "later"),
  "half a 500": (socket) => void socket.end(`HTTP/1.1 ${BOOM}${HALF}`),
  "endless 500": (socket) => void socket.write(`${head(BOOM, CHUNKED)}5\r\nstill\r\n`),
  "huge 500": flooding(head(BOOM, CHUNKED), CHUNK),
  "hangs up": (socket) => void socket.destroy(),
  resets: (socket) => void socket.resetAndDestroy(),
  "half a head": (socket) => void socket.end(`HTTP/1.1 ${OK}\r\nContent-Le`),
  "huge head": flooding(`HTTP/1.1 ${OK}\r\n`, `X-Filler: ${"x".repeat(8_000)}\r\n`),
  "no HTTP": (socket) => void socket.end("220 mail.example.com ESMTP\r\n"),
  "head that never ends": dripping(`HTTP/1.1 ${OK}\r\n`, "X-Filler: x\r\n"),
  silent: () => {},
} satisfies Record<string, Behaviour>;

export type BehaviourName = keyof typeof BEHAVIOURS;

/** The request that these bytes begin with, and where it ends; undefined as long as some of it is missing. */
function firstRequest(bytes: Buffer): { readonly request: Received; readonly end: number } | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd < 0) return undefined;
  const [first = "", ...lines] = bytes.toString("latin1", 0, headEnd).split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const start = headEnd + 4;
  const end = start + Number(headers["content-length"] ?? 0);
  if (bytes.length < end) return undefined;
  const request = { at: Date.now(), target: first.split(" ")[1] ?? "", headers, body: bytes.subarray(start, end) };
  return { request, end };
}

function readRequests(socket: Socket, take: (request: Received) => void): void {
  let bytes = Buffer.alloc(0);
  socket.on("data", (part: Buffer) => {
    bytes = Buffer.concat([bytes, part]);
    const first = firstRequest(bytes);
    if (!first) return;
    bytes = bytes.subarray(first.end);
    take(first.request);
  });
}

function noteConnections(server: Server): Connection[] {
  const connections: Connection[] = [];
  server.on("connection", (socket: Socket) => {
    const connection: Connection = { opened_at: Date.now() };
    connections.push(connection);
    socket.once("close", () => {
      connection.closed_at = Date.now();
    });
  });
  return connections;
}

export class OddReceivers {
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  /** @param port 0: any that is free */
  async #listen(server: Server, port = 0): Promise<number> {
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.once("close", () => this.#sockets.delete(socket));
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    this.#servers.push(server);
    const address = server.address();
    if (typeof address !== "object" || !address) throw new Error("The receiver has no address.");
    return address.port;
  }

  async #serve(names: readonly BehaviourName[], port?: number): Promise<OddReceiver> {
    const received: Received[] = [];
    const server = createServer((socket) =>
      readRequests(socket, (request) => {
        const name = names[Math.min(received.length, names.length - 1)] ?? "200";
        received.push(request);
        BEHAVIOURS[name](socket);
      }),
    );
    const connections = noteConnections(server);
    return { url: `http://127.0.0.1:${await this.#listen(server, port)}${TARGET}`, received, connections };
  }

  /** Does with each request what the next of these names says; with those beyond, what the last one says. */
  behaving(...names: readonly BehaviourName[]): Promise<OddReceiver> {
    return this.#serve(names);
  }

  /** Nobody listens there. */
  async refusing(): Promise<OddReceiver> {
    const server = createServer();
    const port = await this.#listen(server);
    this.#servers.pop();
    await new Promise((resolve) => server.close(resolve));
    return { url: `http://127.0.0.1:${port}${TARGET}`, received: [], connections: [] };
  }

  /** From now on somebody listens at the URL of a refusing receiver. */
  listeningAtLast({ url }: OddReceiver, ...names: readonly BehaviourName[]): Promise<OddReceiver> {
    return this.#serve(names, Number(new URL(url).port));
  }

  /** Has no certificate to show. */
  async withoutCertificate(): Promise<OddReceiver> {
    const server = createTlsServer({});
    server.on("tlsClientError", () => {});
    const connections = noteConnections(server);
    return { url: `https://127.0.0.1:${await this.#listen(server)}${TARGET}`, received: [], connections };
  }

  /** No name server knows its host. */
  unknown(): OddReceiver {
    return { url: `https://hooks.example.invalid${TARGET}`, received: [], connections: [] };
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}
