import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

/** A webhook receiver as a customer would write it (spec section 6.4). */
export interface Receiver {
  readonly url: string;
  /** Resolves with the first good notification of a job. */
  next(job_id: string, timeout_ms: number): Promise<ReceivedWebhook>;
  close(): Promise<void>;
}

export interface ReceivedWebhook {
  readonly event: string;
  readonly payload: { readonly job_id: string; readonly status: string };
}

const TOLERANCE_MS = 300_000;

/** Whether a delivery is authentic and fresh: the raw body, the timestamp header, a constant-time comparison. */
export function isAuthentic(secret: string, timestamp: string, signature: string, body: Buffer, now: number): boolean {
  const expected = Buffer.from(
    `sha256=${createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex")}`,
  );
  const given = Buffer.from(signature);
  const fresh = Math.abs(now - Date.parse(timestamp)) <= TOLERANCE_MS;
  return fresh && given.length === expected.length && timingSafeEqual(given, expected);
}

export async function startReceiver(secret: string): Promise<Receiver> {
  const seen = new Map<string, ReceivedWebhook>();
  const waiting = new Map<string, (webhook: ReceivedWebhook) => void>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const header = (name: string): string => String(request.headers[name] ?? "");
    if (!isAuthentic(secret, header("x-webhook-timestamp"), header("x-webhook-signature"), body, Date.now())) {
      response.writeHead(401).end();
      return;
    }
    response.writeHead(204).end();
    const webhook: ReceivedWebhook = { event: header("x-webhook-event"), payload: JSON.parse(body.toString("utf8")) };
    // A notification may come twice: the job id tells.
    if (seen.has(webhook.payload.job_id)) return;
    seen.set(webhook.payload.job_id, webhook);
    waiting.get(webhook.payload.job_id)?.(webhook);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (typeof address !== "object" || !address) throw new Error("The receiver has no address.");
  return {
    url: `http://127.0.0.1:${address.port}/webhooks`,
    next: (job_id, timeout_ms) =>
      new Promise((resolve, reject) => {
        const known = seen.get(job_id);
        if (known) return resolve(known);
        const timer = setTimeout(
          () => reject(new Error(`No webhook for job ${job_id} after ${timeout_ms / 1000} s.`)),
          timeout_ms,
        );
        waiting.set(job_id, (webhook) => {
          clearTimeout(timer);
          resolve(webhook);
        });
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
