import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isAuthentic } from "../../scripts/local/receiver.ts";

/** One delivery as it came in. */
export interface Delivery {
  readonly job_id: string;
  readonly event: string;
  readonly event_id: string;
  readonly status: string;
}

export interface EventReceiver {
  /** Where notifications of that account go. */
  url(account: number): string;
  /** The secret that an account's notifications are signed with. */
  expect(account: number, secret: string): void;
  /** Deliveries that were refused because they were not authentic. */
  readonly forged: () => number;
  close(): Promise<void>;
}

/** Every so manyth delivery is answered badly, so that it has to come again. */
const FAILS_EVERY = 11;
const BREAKS_EVERY = 13;

/** A receiver that checks signatures, hands on every delivery that it was given, and now and then answers badly. */
export async function startEventReceiver(received: (delivery: Delivery) => void): Promise<EventReceiver> {
  const secrets = new Map<string, string>();
  let forged = 0;
  let count = 0;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch {
      // The sender died in mid-request.
      return;
    }
    const body = Buffer.concat(chunks);
    const header = (name: string): string => String(request.headers[name] ?? "");
    const secret = secrets.get(request.url ?? "") ?? "";
    if (!isAuthentic(secret, header("x-webhook-timestamp"), header("x-webhook-signature"), body, Date.now())) {
      forged++;
      response.writeHead(401).end();
      return;
    }
    const { job_id, status } = JSON.parse(body.toString("utf8")) as { job_id: string; status: string };
    received({ job_id, status, event: header("x-webhook-event"), event_id: header("webhook-id") });
    count++;
    if (count % BREAKS_EVERY === 0) request.socket.destroy();
    else response.writeHead(count % FAILS_EVERY === 0 ? 500 : 204).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const path = (account: number): string => `/accounts/${account}`;
  return {
    url: (account) => `http://127.0.0.1:${port}${path(account)}`,
    expect: (account, secret) => void secrets.set(path(account), secret),
    forged: () => forged,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
