import { createServer, type IncomingMessage, request as httpRequest, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** Stands on one line between the service and a runner, understands HTTP, and does to each message what it is told. */
export interface LineProxy {
  readonly url: string;
  close(): Promise<void>;
}

export interface Passing {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** What happens to one message. */
export type Treatment =
  | { readonly kind: "pass" }
  /** It never arrives. */
  | { readonly kind: "cut" }
  /** It arrives; its answer does not. */
  | { readonly kind: "lose_answer" }
  | { readonly kind: "delay"; readonly ms: number }
  /** It arrives twice, and one of the answers comes back: of two sent at once the first one's, or that to a repeat of an answered one. */
  | { readonly kind: "double"; readonly answer: "first" | "second" }
  /** It arrives, and again after each of these pauses. */
  | { readonly kind: "replay"; readonly after_ms: readonly number[] }
  /** The proxy answers in the other's place. */
  | { readonly kind: "answer"; readonly status: number }
  /** Half of its body arrives, then the line breaks. */
  | { readonly kind: "halve" };

export interface ProxyOptions {
  /** A port of 127.0.0.1. */
  readonly target: number;
  judge(message: Passing): Treatment;
  /** Told of every answer that the other side gave, whether it came back or not. */
  answered(message: Passing, answer: Answer): void;
}

/** Headers of one connection, not of the message. */
const HOP_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "content-length",
  "expect",
]);

const forwarded = (headers: IncomingMessage["headers"]): IncomingMessage["headers"] =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_HEADERS.has(name)));

async function read(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Sends the message on. Rejects when the line breaks or the signal is aborted. */
function forward(target: number, message: Passing, signal: AbortSignal): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { method, path, body } = message;
    const headers = { ...forwarded(message.headers), "content-length": String(body.length), connection: "close" };
    const sent = httpRequest({ host: "127.0.0.1", port: target, method, path, headers, signal }, (response) => {
      read(response).then(
        (answer) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: answer }),
        reject,
      );
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Half of the body under the whole body's length, then silence: the connection breaks. */
function forwardHalf(target: number, { method, path, headers, body }: Passing): Promise<void> {
  return new Promise((resolve) => {
    const whole = { ...forwarded(headers), "content-length": String(body.length), connection: "close" };
    const sent = httpRequest({ host: "127.0.0.1", port: target, method, path, headers: whole });
    sent.on("error", () => resolve());
    sent.on("response", (response) => response.resume());
    sent.write(body.subarray(0, Math.floor(body.length / 2)), () => setTimeout(() => sent.destroy(), 50));
    sent.on("close", () => resolve());
  });
}

function giveBack(response: ServerResponse, { status, headers, body }: Answer): void {
  response.writeHead(status, { ...forwarded(headers), "content-length": String(body.length), connection: "close" });
  response.end(body);
}

export async function startProxy({ target, judge, answered }: ProxyOptions): Promise<LineProxy> {
  const closing = new AbortController();

  async function carry(message: Passing, signal: AbortSignal): Promise<Answer> {
    const answer = await forward(target, message, signal);
    answered(message, answer);
    return answer;
  }

  async function treat(message: Passing, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    const treatment = judge(message);
    switch (treatment.kind) {
      case "cut":
        return void response.destroy();
      case "halve":
        await forwardHalf(target, message);
        return void response.destroy();
      case "answer": {
        const body = Buffer.from('{"error":{"code":"chaos","message":"The proxy says so."}}');
        return giveBack(response, { status: treatment.status, headers: { "content-type": "application/json" }, body });
      }
      case "lose_answer":
        // The act must happen, however soon the caller gives up.
        await carry(message, closing.signal);
        return void response.destroy();
      case "double": {
        if (treatment.answer === "second") {
          await carry(message, closing.signal);
          return giveBack(response, await carry(message, signal));
        }
        const [first] = await Promise.all([carry(message, signal), carry(message, closing.signal).catch(() => {})]);
        return giveBack(response, first);
      }
      case "replay":
        for (const ms of treatment.after_ms)
          setTimeout(() => void carry(message, closing.signal).catch(() => {}), ms).unref();
        return giveBack(response, await carry(message, signal));
      case "delay":
        await new Promise((resolve) => setTimeout(resolve, treatment.ms));
        return giveBack(response, await carry(message, signal));
      case "pass":
        return giveBack(response, await carry(message, signal));
    }
  }

  const server = createServer((request, response) => {
    response.on("error", () => {});
    read(request)
      .then((body) => {
        const { method = "GET", url: path = "/", headers } = request;
        return treat({ method, path, headers, body }, response);
      })
      .catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        closing.abort();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
