import { type AddressInfo, createServer } from "node:net";
import { createLocalJWKSet } from "jose";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createGate } from "../../gpu-runner/auth.ts";
import { createLog } from "../../gpu-runner/log.ts";
import { createApp, type Listener, listen } from "../../gpu-runner/server.ts";
import { type GoodVector, good, named, published, refused } from "../schemas/signed-request-vectors.ts";

/** The edge's vectors against a runner's listener, over HTTP: each good one acts once, and none of the others acts. */

const NOW = Date.UTC(2026, 0, 15, 12);
let now = NOW;
let address: string;
let listener: Listener;
let acted: string[] = [];

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

beforeAll(async () => {
  const log = createLog(() => {});
  const gate = createGate({
    url: "https://gpu1.example.net",
    keys: createLocalJWKSet(published),
    wallClock: () => now,
  });
  const served = {
    offer: () => {
      acted.push("offer");
      return { outcome: "accepted", accepted: { beat: { boot: 7, n: 1 }, running_ms: 0 }, repeated: false } as const;
    },
    stop: () => void acted.push("stop"),
    prove: async () => {
      acted.push("prove");
      return "a.b.c";
    },
  };
  const port = await freePort();
  address = `http://127.0.0.1:${port}`;
  listener = await listen(createApp({ gate, served, log }), { host: "127.0.0.1", port }, log);
});
afterAll(() => listener.close());

function post({ request }: GoodVector, token: string, at = NOW): Promise<Response> {
  now = at;
  const { pathname } = new URL(request.url);
  const headers = { authorization: `Bearer ${token}` };
  return fetch(address + pathname, { method: request.method, headers, body: request.body });
}

const dispatches = good.filter(({ request }) => request.type === "dispatch+jwt");
const forgeries = refused.filter((vector) => vector.name.startsWith("edge to runner"));

test.each(forgeries)("$name does nothing: $reason", async ({ of, token, reason, ...vector }) => {
  acted = [];
  const response = await post(named(good, of), token, vector.now);
  expect(response.status).toBe(401);
  expect(await response.text()).toContain(reason);
  expect(acted).toEqual([]);
});

test.each(dispatches)("$name acts once, and its replay is refused", async (vector) => {
  acted = [];
  expect((await post(vector, vector.token)).status).toBeLessThan(300);
  expect(acted).toHaveLength(1);
  for (const at of [NOW, NOW + 30_000, NOW + 110_000]) {
    const replay = await post(vector, vector.token, at);
    expect(replay.status).toBe(401);
    expect(await replay.text()).toMatch(/seen before|is the clock right/);
  }
  expect(acted).toHaveLength(1);
});
