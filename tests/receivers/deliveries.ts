import { createHmac, randomUUID } from "node:crypto";
import { connect } from "node:net";
import { deliveryHeaders } from "../../worker/webhooks/signature.ts";

/** Deliveries as the service sends them, and as it never would. */

export const MAX_BODY_BYTES = 1024 * 1024;

/** Of the shape of a webhook secret. */
export const newSecret = (): string => `${randomUUID()}${randomUUID()}`.replaceAll("-", "");

export interface Delivery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface Signing {
  /** The newest first. */
  readonly secrets: readonly [string, ...string[]];
  /** When it says that it was sent, in epoch milliseconds. Default: now. */
  readonly now?: number;
}

export interface JobEvent {
  readonly job_id: string;
  readonly status: string;
}

export function newEvent(more: object = {}): JobEvent {
  const [created_at, cancelled_at] = ["2026-01-15T12:00:00.000Z", "2026-01-15T12:00:01.300Z"];
  return { job_id: randomUUID(), status: "cancelled", ...{ created_at, cancelled_at }, ...more };
}

/** One attempt of the service to deliver this event. */
export async function delivery(event: JobEvent, { secrets, now = Date.now() }: Signing): Promise<Delivery> {
  const body = JSON.stringify(event);
  const headers = await deliveryHeaders({
    body,
    secrets,
    now,
    attempt_id: randomUUID(),
    event_id: `evt_${event.job_id}`,
    event: `job.${event.status}`,
  });
  return { headers, body: Buffer.from(body) };
}

/** Any bytes and any time, signed as Standard Webhooks says, without the service's own code. */
export function signedBytes(
  body: Buffer | string,
  secret: string,
  timestamp = String(Math.floor(Date.now() / 1000)),
): Delivery {
  const id = `evt_${randomUUID()}`;
  const signature = createHmac("sha256", secret).update(`${id}.${timestamp}.`).update(body).digest("base64");
  return {
    headers: { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` },
    body: Buffer.from(body),
  };
}

export const urlOf = (port: number): string => `http://127.0.0.1:${port}/webhooks`;

/** The status of the answer. */
export async function send(port: number, { headers, body }: Delivery): Promise<number> {
  const response = await fetch(urlOf(port), { method: "POST", headers, body: new Uint8Array(body) });
  await response.arrayBuffer();
  return response.status;
}

/** The same without Content-Length. */
export async function sendChunked(port: number, { headers, body }: Delivery): Promise<number> {
  const stream = new Blob([new Uint8Array(body)]).stream();
  const response = await fetch(urlOf(port), { method: "POST", headers, body: stream, duplex: "half" } as RequestInit);
  await response.arrayBuffer();
  return response.status;
}

/** How long an answer that needs no body may take. */
const PATIENCE_MS = 500;

const TOO_LARGE = Buffer.alloc(MAX_BODY_BYTES + 1, " ");
/** One byte more than a receiver may read: of a body that claims far more, or, without a length, of a body that ends there. */
const FRAMES = {
  length: { header: `Content-Length: ${64 * MAX_BODY_BYTES}`, body: TOO_LARGE },
  chunked: {
    header: "Transfer-Encoding: chunked",
    body: Buffer.concat([Buffer.from(`${TOO_LARGE.length.toString(16)}\r\n`), TOO_LARGE, Buffer.from("\r\n0\r\n\r\n")]),
  },
};

/** The status of the answer to a body that is too large. It is sent only if the headers alone are not answered. */
export function sendTooLarge(port: number, frame: keyof typeof FRAMES): Promise<number> {
  const { header, body } = FRAMES[frame];
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    const more = setTimeout(() => socket.write(body), PATIENCE_MS);
    socket.on("data", (chunk) => {
      answer += chunk.toString("latin1");
      const status = /^HTTP\/1\.[01] (\d{3}) /.exec(answer)?.[1];
      if (status === undefined) return;
      resolve(Number(status));
      socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(more);
      reject(new Error(`No answer but "${answer}".`));
    });
    socket.write(`POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\n${header}\r\n\r\n`);
  });
}

/** Sends the first half of a delivery and hangs up. */
export function hangUp(port: number, { headers, body }: Delivery): Promise<void> {
  return new Promise((resolve, reject) => {
    const lines = Object.entries({ Host: "127.0.0.1", "Content-Length": body.length, ...headers });
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(`POST /webhooks HTTP/1.1\r\n${head}\r\n`);
      socket.write(body.subarray(0, body.length / 2), () => setTimeout(() => socket.resetAndDestroy(), 50));
    });
    socket.on("close", () => resolve());
    socket.on("error", reject);
  });
}
