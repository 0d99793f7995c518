import WebSocket, { type RawData } from "ws";
import { jittered, pause } from "../../pause.ts";
import { type Message, readFrame, readMessage } from "./messages.ts";

/** The events of one client id, for as long as one run needs them. What was sent while it was away is lost for good. */
export interface EventSocket {
  /** Resolves when the first connection stands or has failed: a prompt submitted from then on is heard, if it can be. */
  readonly opened: Promise<void>;
  /** Idempotent. Resolves when nothing of it is left. */
  close(): Promise<void>;
}

export interface EventSocketOptions {
  /** Base URL of the server. */
  readonly url: string;
  /** Random, of this run alone: two sockets of one id take each other's messages. */
  readonly client_id: string;
  message(message: Message): void;
  /** The connection is gone, and is being made again. */
  lost(): void;
  /** For tests. */
  readonly timings?: SocketTimings;
}

export interface SocketTimings {
  readonly ping_ms: number;
  /** Without a word and without a pong: the connection is dead. */
  readonly silent_ms: number;
  /** Without a word on a connection that was made again: the server may have forgotten its id. */
  readonly deaf_ms: number;
}

/** `progress_state` repeats all nodes in every message: 300 nodes make frames of 60 kB; a preview has some hundred kB. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
const CONNECT_MS = 10_000;
/** The server never pings. Node code that holds the interpreter can hold up its pong for long. */
const TIMINGS: SocketTimings = { ping_ms: 15_000, silent_ms: 45_000, deaf_ms: 30_000 };
const RETRY_MS: readonly [first: number, most: number] = [100, 5_000];

/** The first message asks for previews that name their node. */
const GREETING = JSON.stringify({ type: "feature_flags", data: { supports_preview_metadata: true } });

const bytesOf = (data: RawData): Uint8Array =>
  Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? new Uint8Array(data) : data;

/**
 * One connection, from its opening to its end.
 * @param again an earlier one has ended here. Where the server sees that end later than this beginning, it forgets the id: this
 * connection stands, and is told nothing.
 */
async function listen(
  options: EventSocketOptions,
  again: boolean,
  signal: AbortSignal,
  opened: () => void,
): Promise<void> {
  const { ping_ms, silent_ms, deaf_ms } = options.timings ?? TIMINGS;
  const address = `${options.url.replace(/^http/, "ws")}/ws?clientId=${encodeURIComponent(options.client_id)}`;
  const socket = new WebSocket(address, {
    perMessageDeflate: false,
    maxPayload: MAX_FRAME_BYTES,
    handshakeTimeout: CONNECT_MS,
  });
  const end = (): void => socket.terminate();
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  let heard = performance.now();
  let told = heard;
  const pings = setInterval(() => {
    const now = performance.now();
    if (now - heard > silent_ms || (again && now - told > deaf_ms)) end();
    else if (socket.readyState === WebSocket.OPEN) socket.ping();
  }, ping_ms);
  // The close event follows, and says all that is of use.
  socket.on("error", () => {});
  socket.on("open", () => {
    socket.send(GREETING);
    opened();
  });
  socket.on("pong", () => {
    heard = performance.now();
  });
  socket.on("message", (data, binary) => {
    heard = performance.now();
    told = heard;
    const bytes = bytesOf(data);
    const message = binary
      ? readFrame(bytes)
      : readMessage(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString());
    if (!message || signal.aborted) return;
    // The greeting of a connection that is made again repeats the node at work: no sign that anything moves.
    if (message.type === "executing" && message.prompt_id === undefined) return;
    options.message(message);
  });
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  await closed;
  signal.removeEventListener("abort", end);
  clearInterval(pings);
}

export function openSocket(options: EventSocketOptions): EventSocket {
  const closing = new AbortController();
  const opened = Promise.withResolvers<void>();
  const loop = async (): Promise<void> => {
    let [wait] = RETRY_MS;
    let again = false;
    while (!closing.signal.aborted) {
      // The old connection's close was seen before the new one is made: otherwise the server would forget the id.
      await listen(options, again, closing.signal, () => {
        [wait] = RETRY_MS;
        opened.resolve();
      });
      opened.resolve();
      again = true;
      if (closing.signal.aborted) return;
      options.lost();
      await pause(jittered(wait), closing.signal);
      wait = Math.min(wait * 2, RETRY_MS[1]);
    }
  };
  const looping = loop();
  return {
    opened: opened.promise,
    async close() {
      closing.abort();
      await looping;
    },
  };
}
