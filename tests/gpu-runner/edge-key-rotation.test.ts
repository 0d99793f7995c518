import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, type JWK } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createGate, edgeKeys, type Gate } from "../../gpu-runner/auth.ts";
import { EDGE_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256, type Signer, signRequest } from "../../schemas/signed-request.ts";

/** What a runner believes while the edge's published keys change. The keys come over HTTP; only the wall clock is played. */

const URL_OF_RUNNER = "https://gpu1.example.net";
const SECOND = 1000;
const MINUTE = 60 * SECOND;

interface EdgeKey {
  readonly signer: Signer;
  readonly jwk: JWK;
}

async function aKey(kid: string): Promise<EdgeKey> {
  const { privateKey, publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
  return {
    signer: { privateKey, header: { kid } },
    jwk: { ...(await exportJWK(publicKey)), kid, alg: "EdDSA", use: "sig" },
  };
}

const cleanups: (() => void)[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2026, 0, 15, 12) });
});
afterEach(() => {
  vi.useRealTimers();
  for (const clean of cleanups.splice(0)) clean();
});

const pass = (ms: number) => vi.setSystemTime(Date.now() + ms);

/** An edge that publishes `keys`, and a runner's gate that asks it. */
async function published(...keys: EdgeKey[]) {
  const edge = { keys, fetches: 0, status: 200 };
  const server = createServer((request, response) => {
    expect(request.url).toBe(EDGE_PATHS.jwks);
    edge.fetches++;
    response.writeHead(edge.status, { "content-type": "application/json" });
    response.end(JSON.stringify({ keys: edge.keys.map(({ jwk }) => jwk) }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(() => void server.close().closeAllConnections());
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { edge, gate: createGate({ url: URL_OF_RUNNER, keys: edgeKeys(base) }) };
}

let names = 0;
/** What the gate says of a fresh dispatch by `signer`. */
async function verdict(gate: Gate, { signer }: Pick<EdgeKey, "signer">): Promise<string> {
  const url = `${URL_OF_RUNNER}/v1/executions`;
  const request = { type: "dispatch+jwt", audience: URL_OF_RUNNER, method: "POST", url, now: Date.now() } as const;
  const token = await signRequest({ ...request, jti: `request-${++names}`, bodySha256: await sha256("{}") }, signer);
  const caller = await gate.admit(`Bearer ${token}`, "POST", "/v1/executions");
  return caller.ok ? "admitted" : caller.reason;
}
const UNKNOWN = "ERR_JWKS_NO_MATCHING_KEY";

describe("a rotation of the edge's key", () => {
  test("is followed at the first dispatch by the new key, while both keys count", async () => {
    const [old, fresh] = [await aKey("old"), await aKey("new")];
    const { edge, gate } = await published(old);
    expect(await verdict(gate, old)).toBe("admitted");
    pass(MINUTE);
    edge.keys = [fresh, old];
    expect(await verdict(gate, fresh)).toBe("admitted");
    expect(await verdict(gate, old)).toBe("admitted");
    expect(edge.fetches).toBe(2);
  });

  test("is followed half a minute late at most, where the keys were fetched just before", async () => {
    const [old, fresh] = [await aKey("old"), await aKey("new")];
    const { edge, gate } = await published(old);
    expect(await verdict(gate, old)).toBe("admitted");
    edge.keys = [fresh, old];
    expect(await verdict(gate, fresh)).toBe(UNKNOWN);
    pass(30 * SECOND);
    expect(await verdict(gate, fresh)).toBe("admitted");
  });

  test("ends the old key's word ten minutes after it is withdrawn, at the latest", async () => {
    const [old, fresh] = [await aKey("old"), await aKey("new")];
    const { edge, gate } = await published(fresh, old);
    expect(await verdict(gate, old)).toBe("admitted");
    edge.keys = [fresh];
    pass(10 * MINUTE);
    expect(await verdict(gate, old)).toBe(UNKNOWN);
    expect(await verdict(gate, fresh)).toBe("admitted");
  });

  test("ends it at once where any new key is seen", async () => {
    const [old, fresh, next] = [await aKey("old"), await aKey("new"), await aKey("next")];
    const { edge, gate } = await published(fresh, old);
    expect(await verdict(gate, old)).toBe("admitted");
    edge.keys = [next, fresh];
    pass(MINUTE);
    expect(await verdict(gate, next)).toBe("admitted");
    expect(await verdict(gate, old)).toBe(UNKNOWN);
  });
});

test("strangers' names for keys make the runner ask once in half a minute, and cost the edge nothing", async () => {
  const edgeKey = await aKey("edge");
  const { edge, gate } = await published(edgeKey);
  expect(await verdict(gate, edgeKey)).toBe("admitted");
  pass(MINUTE);
  for (let n = 0; n < 20; n++) {
    expect(await verdict(gate, { signer: { ...edgeKey.signer, header: { kid: `stranger-${n}` } } })).toBe(UNKNOWN);
    expect(await verdict(gate, edgeKey)).toBe("admitted");
  }
  expect(edge.fetches).toBe(2);
});

test("known keys count through an outage of the edge for ten minutes, and nobody is believed without keys", async () => {
  const edgeKey = await aKey("edge");
  const { edge, gate } = await published(edgeKey);
  edge.status = 503;
  expect(await verdict(gate, edgeKey)).toBe("the edge's keys can't be fetched");
  edge.status = 200;
  expect(await verdict(gate, edgeKey)).toBe("admitted");
  edge.status = 503;
  pass(9 * MINUTE);
  expect(await verdict(gate, edgeKey)).toBe("admitted");
  pass(MINUTE);
  expect(await verdict(gate, edgeKey)).toBe("the edge's keys can't be fetched");
});

test("a published key of another curve verifies nothing", async () => {
  const edgeKey = await aKey("edge");
  for (const alg of ["ES256", "RS256"]) {
    const { publicKey } = await generateKeyPair(alg);
    const { gate } = await published({ ...edgeKey, jwk: { ...(await exportJWK(publicKey)), kid: "edge", use: "sig" } });
    expect(await verdict(gate, edgeKey)).toBe(UNKNOWN);
  }
});
