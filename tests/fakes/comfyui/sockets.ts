import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { WebSocket, WebSocketServer } from "ws";
import type { KnobSettings } from "./knobs.ts";
import type { Preview } from "./progress-state.ts";
import { dumps, isObject, type Json, type JsonObject, loads } from "./python-json.ts";

const PREVIEW_IMAGE = 1;
const PREVIEW_IMAGE_WITH_METADATA = 4;

const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

export interface Greeting {
  /** The `data` of the first `status`, without `sid`. */
  status(): JsonObject;
  /** The node that runs now, if the prompt that runs is this client's. */
  node(sid: string): string | undefined;
  features(): JsonObject | undefined;
}

/** The open sockets by clientId: one each, the newer takes over, and the id is forgotten when either of them closes. */
export class Sockets {
  readonly #server = new WebSocketServer({ noServer: true, perMessageDeflate: true, autoPong: false });
  readonly #open = new Set<WebSocket>();
  readonly #bySid = new Map<string, WebSocket>();
  readonly #flags = new Map<string, Json>();
  readonly #knobs: KnobSettings;
  readonly #greeting: Greeting;
  /** What is to be sent when the server goes on; undefined unless it hangs. */
  #held: (() => void)[] | undefined;

  constructor(knobs: KnobSettings, greeting: Greeting) {
    this.#knobs = knobs;
    this.#greeting = greeting;
  }

  get count(): number {
    return this.#open.size;
  }

  accept(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const asked = new URL(request.url ?? "", "http://localhost").searchParams.get("clientId");
    this.#server.handleUpgrade(request, stream, head, (socket) => {
      this.#welcome(socket, asked !== null && asked !== "" ? asked : randomUUID().replaceAll("-", ""));
    });
  }

  /** To the socket of that id, or to all with null. An id that no socket has gets nothing. */
  send(type: string, data: Json, sid: Json): void {
    this.#toSid(type, dumps({ type, data }), sid);
  }

  preview({ image, format }: Preview, sid: Json): void {
    const kind = uint32(format === "jpeg" ? 1 : 2);
    this.#toSid("binary", Buffer.concat([uint32(PREVIEW_IMAGE), kind, image]), sid);
  }

  previewWithMetadata({ image, format }: Preview, about: JsonObject, sid: Json): void {
    const metadata = Buffer.from(dumps({ ...about, image_type: `image/${format}` }));
    const parts = [uint32(PREVIEW_IMAGE_WITH_METADATA), uint32(metadata.length), metadata, image];
    this.#toSid("binary", Buffer.concat(parts), sid);
  }

  takesPreviewMetadata(sid: Json): boolean {
    const flags = typeof sid === "string" ? this.#flags.get(sid) : undefined;
    return isObject(flags) && flags.supports_preview_metadata === true;
  }

  /** Ends every socket without a close frame. */
  drop(): void {
    for (const socket of this.#open) socket.terminate();
  }

  hang(): void {
    this.#held ??= [];
  }

  resume(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const act of held) act();
  }

  #welcome(socket: WebSocket, sid: string): void {
    this.#open.add(socket);
    this.#bySid.set(sid, socket);
    this.#flags.delete(sid);
    socket.on("error", () => undefined);
    socket.on("ping", (data: Buffer) => this.#now(() => socket.pong(data)));
    socket.on("close", () => {
      this.#open.delete(socket);
      this.#bySid.delete(sid);
      this.#flags.delete(sid);
    });
    this.send("status", { ...this.#greeting.status(), sid }, sid);
    const node = this.#greeting.node(sid);
    if (node !== undefined) this.send("executing", { node }, sid);
    let first = true;
    socket.on("message", (data: Buffer, binary: boolean) => {
      if (binary || !first) return;
      const message = parsed(data.toString());
      if (message === undefined) return;
      first = false;
      const features = this.#greeting.features();
      if (!isObject(message) || message.type !== "feature_flags" || features === undefined) return;
      this.#flags.set(sid, message.data ?? {});
      this.#now(() => this.send("feature_flags", features, sid));
    });
  }

  #toSid(type: string, content: string | Buffer, sid: Json): void {
    if (this.#knobs.losesMessages(type)) return;
    const one = typeof sid === "string" ? this.#bySid.get(sid) : undefined;
    const sockets = sid === null ? [...this.#bySid.values()] : one === undefined ? [] : [one];
    for (const socket of sockets) {
      const deliver = () =>
        this.#now(() => {
          if (socket.readyState === WebSocket.OPEN) socket.send(content);
        });
      if (this.#knobs.delaysMessages_ms > 0) setTimeout(deliver, this.#knobs.delaysMessages_ms).unref();
      else deliver();
    }
  }

  #now(act: () => void): void {
    if (this.#held === undefined) act();
    else this.#held.push(act);
  }
}

function parsed(text: string): Json | undefined {
  try {
    return loads(text);
  } catch {
    return undefined;
  }
}
