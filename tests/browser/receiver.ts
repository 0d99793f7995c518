import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** A receiver of webhooks that keeps what it gets and answers as it is told. */

export interface Got {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly job_id: string;
}

export interface Receiver {
  readonly url: string;
  readonly got: readonly Got[];
  /** From now on. */
  answer(status: number): void;
  stop(): Promise<void>;
}

export async function startReceiver(first = 204): Promise<Receiver> {
  const got: Got[] = [];
  let status = first;
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    got.push({ headers: request.headers, body, job_id: (JSON.parse(body) as { job_id: string }).job_id });
    response.writeHead(status).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks`,
    got,
    answer: (wanted) => {
      status = wanted;
    },
    stop: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
