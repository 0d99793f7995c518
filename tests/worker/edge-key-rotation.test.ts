import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import {
  createLocalJWKSet,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  type JSONWebKeySet,
  type JWK,
} from "jose";
import { beforeAll, expect, it, vi } from "vitest";
import { EDGE_PATHS, type Enrolled, type HeartbeatAnswer, type Order } from "../../schemas/runner-protocol.ts";
import { sha256, verifyRequest } from "../../schemas/signed-request.ts";
import type { Env } from "../../worker/env.ts";
import worker, { Dispatcher } from "../../worker/index.ts";
import { type Dispatch, newToken, PlayedRunner, playInternet } from "./played-runner.ts";
import { honest, honestUpload, type ProvenRequest, wire } from "./proven-request.ts";
import { BASE, newAccount, readJob, submitted } from "./service.ts";

/** A rotation of the edge's key, step by step as docs/operating.md has it, with a runner at work all the while. */

const POOL = "rotation";
const OLD = JSON.parse(env.EDGE_SIGNING_KEY) as JWK;
let newKey: JWK;
/** The same service before the rotation, during it, and when the old key is withdrawn. */
let during: Env;
let after: Env;
let runner: PlayedRunner;
let dispatch: Dispatch;
let oldCredential: string;
let api_key: string;

beforeAll(async () => {
  vi.restoreAllMocks();
  playInternet();
  const pair = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  newKey = { ...(await exportJWK(pair.privateKey)), kid: "new-edge" };
  const { d: _, ...retired } = OLD;
  const EDGE_SIGNING_KEY = JSON.stringify(newKey);
  during = { ...env, EDGE_SIGNING_KEY, EDGE_RETIRED_KEYS: JSON.stringify({ keys: [retired] }) };
  after = { ...env, EDGE_SIGNING_KEY, EDGE_RETIRED_KEYS: "" };
  runner = await PlayedRunner.ready(POOL);
  oldCredential = runner.credential;
  ({ api_key } = await newAccount("pro", POOL));
  dispatch = await runner.dispatched((await submitted(api_key)).job_id);
});

async function ask(deployed: Env, path: string, init: RequestInit = {}): Promise<Response> {
  const request = new Request<unknown, IncomingRequestCfProperties>(
    BASE + path,
    init as RequestInit<IncomingRequestCfProperties>,
  );
  return worker.fetch(request, deployed, createExecutionContext());
}

/** Sends a runner's request to the service as `deployed`. */
async function send(deployed: Env, request: ProvenRequest): Promise<Response> {
  return (await wire(request, (path, init) => ask(deployed, path, init)))();
}

const beat = (credential: string) =>
  honest(runner, { path: EDGE_PATHS.heartbeat, body: runner.beatBody(), token: credential });
const progress = (value: number) => {
  const body = JSON.stringify({ ...runner.word, progress: { value } });
  return honest(runner, { path: EDGE_PATHS.progress, body, token: dispatch.order.lease });
};
const end = () => {
  const body = JSON.stringify({ ...runner.word, outcome: "handed_back" });
  return honest(runner, { path: EDGE_PATHS.end, body, token: dispatch.order.lease });
};

const published = async (deployed: Env): Promise<JSONWebKeySet> => (await ask(deployed, EDGE_PATHS.jwks)).json();
const kidOf = (token: string): string | undefined => decodeProtectedHeader(token).kid;

it("publishes both keys during the rotation, the new one alone after it, and no private part of either", async () => {
  const both = await published(during);
  expect(both.keys).toEqual([
    { kty: "OKP", crv: "Ed25519", kid: "new-edge", x: newKey.x, alg: "EdDSA", use: "sig" },
    { kty: "OKP", crv: "Ed25519", kid: OLD.kid, x: OLD.x, alg: "EdDSA", use: "sig" },
  ]);
  expect((await published(after)).keys).toEqual([both.keys[0]]);
});

it("publishes no private part of a retired key that its operator left in", async () => {
  const careless = { ...during, EDGE_RETIRED_KEYS: JSON.stringify({ keys: [OLD] }) };
  expect(JSON.stringify(await published(careless))).not.toContain(OLD.d);
});

it("takes a credential of the retired key and gives a fresh one in the beat's answer, once", async () => {
  const answer = (await (await send(during, await beat(oldCredential))).json()) as HeartbeatAnswer;
  expect(kidOf(answer.credential ?? "")).toBe("new-edge");
  const again = await send(during, await beat(answer.credential ?? ""));
  expect(again.status).toBe(200);
  expect(((await again.json()) as HeartbeatAnswer).credential).toBeUndefined();
  expect((await send(after, await beat(answer.credential ?? ""))).status).toBe(200);
});

it("takes a lease of the retired key for progress and uploads", async () => {
  expect(await (await send(during, await progress(0.5))).json()).toMatchObject({ fenced: false });
  expect((await readJob(api_key, dispatch.order.job)).progress).toMatchObject({ value: 0.5 });
  expect((await send(during, await honestUpload(runner, dispatch, 0, "a picture"))).status).toBe(201);
});

it("signs dispatches and leases with the new key, which a runner finds among the published ones", async () => {
  const { job } = dispatch.order;
  const placement = { ...(await placementOf()), at: Date.now() };
  const order = { account: dispatch.order.account, job, fence: 9, placement, lease_until: Date.now() + 60_000 };
  const dispatcher = new Dispatcher(createExecutionContext(), during);
  expect(await dispatcher.dispatch({ ...order, timeout_ms: 1000, prompt: "{}" })).toMatchObject({ kind: "accepted" });
  const { token, text, url } = await runner.dispatched(job, 9);
  expect(kidOf(token)).toBe("new-edge");
  expect(kidOf((JSON.parse(text) as Order).lease)).toBe("new-edge");
  const request = { type: "dispatch+jwt", audience: runner.url, method: "POST", url, now: Date.now() } as const;
  const expected = { ...request, bodySha256: await sha256(text) };
  for (const deployed of [during, after]) {
    expect(await verifyRequest(token, expected, createLocalJWKSet(await published(deployed)))).toMatchObject({
      ok: true,
    });
  }
  const old = await verifyRequest(
    dispatch.token,
    { ...expected, bodySha256: await sha256(dispatch.text) },
    createLocalJWKSet(await published(after)),
  );
  expect(old).toEqual({ ok: false, reason: "ERR_JWKS_NO_MATCHING_KEY" });
});

async function placementOf() {
  return {
    runner: runner.runner_id,
    pool: POOL,
    boot: dispatch.order.boot,
    url: runner.url,
    jkt: await runner.thumbprint(),
    retention: "d7" as const,
  };
}

it("signs a new runner's credential with the new key", async () => {
  const other = await PlayedRunner.make(POOL);
  const { token } = await newToken(POOL);
  const body = JSON.stringify({ token, name: "x", public_jwk: other.key.jwk, url: other.url });
  const response = await send(during, await honest(other, { path: EDGE_PATHS.enrol, body, token: undefined }));
  expect(kidOf(((await response.json()) as Enrolled).credential)).toBe("new-edge");
});

it("refuses whatever the retired key signed once it is withdrawn", async () => {
  const late = [beat(oldCredential), progress(0.9), honestUpload(runner, dispatch, 1, "late"), end()];
  for (const request of late) {
    const response = await send(after, await request);
    expect(response.status).toBe(401);
    expect(await response.text()).toContain("ERR_JWKS_NO_MATCHING_KEY");
  }
  expect(await readJob(api_key, dispatch.order.job)).toMatchObject({ status: "running", progress: { value: 0.5 } });
  expect((await send(during, await end())).status).toBe(200);
});
