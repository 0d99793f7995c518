import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import type { Message } from "../../../gpu-runner/engines/comfyui/messages.ts";
import { type EventSocket, openSocket, type SocketTimings } from "../../../gpu-runner/engines/comfyui/socket.ts";
import { until } from "./subject.ts";

/** Nothing happens by time alone. */
const PATIENT: SocketTimings = { ping_ms: 10, silent_ms: 60_000, deaf_ms: 60_000 };

let http: Server;
let sockets: WebSocketServer;
let url: string;
/** Every connection that was made, in order, and what stood in its address. */
let made: { readonly socket: WebSocket; readonly path: string; readonly said: string[] }[];
/** What the other side does besides. */
let answersPings: boolean;
let greet: (socket: WebSocket, n: number) => void;
let open: EventSocket | undefined;
let heard: Message[];
let losses: number;

function start(timings: SocketTimings = PATIENT): EventSocket {
  open = openSocket({
    url,
    client_id: "one & only",
    message: (message) => void heard.push(message),
    lost: () => {
      losses++;
    },
    timings,
  });
  return open;
}

const send = (n: number, type: string, data: object): void => made[n]?.socket.send(JSON.stringify({ type, data }));

beforeEach(async () => {
  made = [];
  heard = [];
  losses = 0;
  answersPings = true;
  greet = () => {};
  http = createServer();
  sockets = new WebSocketServer({ server: http, autoPong: false });
  sockets.on("connection", (socket, { url: path = "" }) => {
    const said: string[] = [];
    socket.on("message", (data) => said.push(String(data)));
    socket.on("ping", () => answersPings && socket.pong());
    made.push({ socket, path, said });
    greet(socket, made.length - 1);
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
});

afterEach(async () => {
  await open?.close();
  for (const socket of sockets.clients) socket.terminate();
  await new Promise((resolve) => sockets.close(resolve));
  await new Promise((resolve) => http.close(resolve));
});

describe("The socket of a run", () => {
  it("names its client, and asks for previews that name their node before anything else", async () => {
    await start().opened;
    await until(() => made[0]?.said.length === 1, "a greeting");
    expect(made[0]?.path).toBe("/ws?clientId=one%20%26%20only");
    expect(JSON.parse(made[0]?.said[0] ?? "")).toEqual({
      type: "feature_flags",
      data: { supports_preview_metadata: true },
    });
  });

  it("comes back under the same name, once the old connection has ended here", async () => {
    await start().opened;
    made[0]?.socket.terminate();
    await until(() => made.length === 2, "a second connection");
    await until(() => made[1]?.said.length === 1, "its greeting");
    expect(made[1]?.path).toBe(made[0]?.path);
    expect(losses).toBe(1);
    expect(sockets.clients.size).toBe(1);
    send(1, "execution_start", { prompt_id: "p" });
    await until(() => heard.length === 1, "a message on the second");
  });

  it("opens where the first connection is refused, so that nobody waits for it", async () => {
    await new Promise((resolve) => sockets.close(resolve));
    await new Promise((resolve) => http.close(resolve));
    await start().opened;
    expect(made).toEqual([]);
  });

  it("ends a connection that answers no ping, and makes another", async () => {
    answersPings = false;
    await start({ ...PATIENT, silent_ms: 30 }).opened;
    await until(() => made.length > 1, "another connection");
    expect(losses).toBeGreaterThan(0);
  });

  it("keeps a connection that answers pings and says nothing else, where it is the first", async () => {
    let pings = 0;
    greet = (socket) => void socket.on("ping", () => pings++);
    await start({ ...PATIENT, deaf_ms: 0 }).opened;
    await until(() => pings >= 5, "five pings");
    expect(made.length).toBe(1);
  });

  it("gives up a second connection on which nothing is said: its server may have forgotten it", async () => {
    await start({ ...PATIENT, deaf_ms: 20 }).opened;
    made[0]?.socket.terminate();
    await until(() => made.length >= 3, "a third connection");
  });

  it("passes over the greeting that repeats the node at work, and nothing else without a prompt", async () => {
    await start().opened;
    send(0, "executing", { node: "5" });
    send(0, "executing", { node: "6", prompt_id: "p" });
    const preview = Buffer.from([0, 0, 0, 1, 0, 0, 0, 2, 7]);
    made[0]?.socket.send(preview);
    await until(() => heard.length === 2, "two messages");
    expect(heard.map(({ type }) => type)).toEqual(["executing", "preview"]);
    expect(heard[0]).toMatchObject({ node: "6" });
  });

  it("lives through what is no message", async () => {
    await start().opened;
    for (const junk of ["", "{", "[]", "\u0000"]) made[0]?.socket.send(junk);
    for (const junk of [Buffer.alloc(0), Buffer.from([0, 0, 0, 4, 255, 255, 255, 255])]) made[0]?.socket.send(junk);
    send(0, "execution_start", { prompt_id: "p" });
    await until(() => heard.length === 1, "the message after it");
    expect(losses).toBe(0);
  });

  it("leaves nothing open, and says nothing more, after its close", async () => {
    const closing = start();
    await closing.opened;
    await closing.close();
    await closing.close();
    await until(() => sockets.clients.size === 0, "no connection");
    expect(losses).toBe(0);
    expect(made.length).toBe(1);
  });

  it("closes at once in the middle of a handshake that is never answered", async () => {
    sockets.removeAllListeners();
    http.removeAllListeners("upgrade");
    const taken = new Promise<Duplex>((resolve) => http.on("upgrade", (_, stream) => resolve(stream)));
    const closing = start();
    const stream = await taken;
    await closing.close();
    await closing.opened;
    expect(losses).toBe(0);
    stream.destroy();
  });
});
