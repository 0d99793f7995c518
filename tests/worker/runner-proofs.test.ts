import { base64url, SignJWT } from "jose";
import { beforeAll, expect, it, vi } from "vitest";
import { EDGE_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { type Dispatch, type Forgery, newKey, PlayedRunner, playInternet } from "./played-runner.ts";
import { BASE, call, newAccount, readJob, submitted } from "./service.ts";

/** Every request of a runner is worth exactly what its token and its proof are worth (design section 7). */

let runner: PlayedRunner;
let dispatch: Dispatch;
let api_key: string;

beforeAll(async () => {
  vi.restoreAllMocks();
  playInternet();
  runner = await PlayedRunner.ready("proofs");
  ({ api_key } = await newAccount("pro", "proofs"));
  const { job_id } = await submitted(api_key);
  dispatch = await runner.dispatched(job_id);
  await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
});

const endBody = (): string => JSON.stringify({ ...runner.word, outcome: "handed_back" });

/** The job's end by a request that must not count. */
async function expectNoEnd(send: () => Promise<Response>): Promise<void> {
  const response = await send();
  expect(response.status).toBe(401);
  expect(response.headers.get("www-authenticate")).toBe("DPoP");
  expect(await response.json()).toMatchObject({ error: { code: "unauthorized" } });
  expect((await readJob(api_key, dispatch.order.job)).status).toBe("running");
}

it("refuses a proof that was made for anything else than this request", async () => {
  const other = await newKey();
  const forgeries: Record<string, Forgery> = {
    "another body": { send: JSON.stringify({ ...runner.word, outcome: "stopped" }) },
    "no body": { send: "" },
    "another method": { method: "PUT" },
    "another path": { url: BASE + EDGE_PATHS.progress },
    "another origin": { url: `https://elsewhere.example.org${EDGE_PATHS.end}` },
    "another audience": { audience: "https://elsewhere.example.org" },
    "another type": { type: "dispatch+jwt" },
    "too old": { now: Date.now() - 190_000 },
    "from the future": { now: Date.now() + 190_000 },
    "another key": { key: other },
    "a key that is not the one that signed": { key: { privateKey: other.privateKey, jwk: runner.key.jwk } },
  };
  for (const forgery of Object.values(forgeries)) {
    await expectNoEnd(() => runner.signed(EDGE_PATHS.end, endBody(), dispatch.order.lease, forgery));
  }
});

it("refuses a proof that goes with another token", async () => {
  const second = await submitted(api_key);
  const other = await runner.dispatched(second.job_id);
  const body = endBody();
  const proof = await new SignJWT({
    aud: BASE,
    htm: "POST",
    htu: BASE + EDGE_PATHS.end,
    jti: crypto.randomUUID(),
    body_sha256: await sha256(body),
    ath: await sha256(other.order.lease),
  })
    .setProtectedHeader({ alg: "EdDSA", typ: "dpop+jwt", jwk: { ...runner.key.jwk } })
    .setIssuedAt()
    .setExpirationTime("60s")
    .sign(runner.key.privateKey);
  const headers = { authorization: `DPoP ${dispatch.order.lease}`, dpop: proof };
  await expectNoEnd(() => call(EDGE_PATHS.end, { method: "POST", headers, body }));
});

it("refuses a missing proof, a missing token, a bearer and an unsigned one", async () => {
  const body = endBody();
  const { lease } = dispatch.order;
  const encode = (value: object): string => base64url.encode(JSON.stringify(value));
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    aud: BASE,
    htm: "POST",
    htu: BASE + EDGE_PATHS.end,
    iat: now,
    exp: now + 60,
    jti: crypto.randomUUID(),
    body_sha256: await sha256(body),
    ath: await sha256(lease),
  };
  const header = { alg: "none", typ: "dpop+jwt", jwk: runner.key.jwk };
  const unsigned = `${encode(header)}.${encode(claims)}.`;
  const hmac = await new SignJWT(claims)
    .setProtectedHeader({ ...header, alg: "HS256", jwk: { ...runner.key.jwk } })
    .sign(new TextEncoder().encode(runner.key.jwk.x));
  const authorization = `DPoP ${lease}`;
  const headers: Record<string, string>[] = [
    {},
    { authorization },
    { dpop: unsigned },
    { authorization, dpop: unsigned },
    { authorization, dpop: hmac },
    { authorization: `Bearer ${lease}`, dpop: unsigned },
    { authorization, dpop: lease },
  ];
  for (const one of headers) await expectNoEnd(() => call(EDGE_PATHS.end, { method: "POST", headers: one, body }));
});

it("refuses an altered, an unsigned and a stranger's lease", async () => {
  const { lease } = dispatch.order;
  const [head = "", payload = "", signature = ""] = lease.split(".");
  const claims = JSON.parse(new TextDecoder().decode(base64url.decode(payload))) as Record<string, unknown>;
  const encode = (value: object): string => base64url.encode(JSON.stringify(value));
  const raised = encode({ ...claims, fence: 2 });
  const ownKey = await new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: "lease+jwt", kid: "test-edge" })
    .sign(runner.key.privateKey);
  const leases = [
    `${head}.${raised}.${signature}`,
    `${encode({ alg: "none", typ: "lease+jwt" })}.${payload}.`,
    `${head}.${payload}.${"A".repeat(86)}`,
    ownKey,
  ];
  for (const one of leases) await expectNoEnd(() => runner.signed(EDGE_PATHS.end, endBody(), one));
});

it("takes no credential for a lease and no lease for a credential", async () => {
  for (const path of [EDGE_PATHS.end, EDGE_PATHS.progress]) {
    await expectNoEnd(() => runner.signed(path, endBody(), runner.credential));
  }
  await expectNoEnd(() => runner.signed(EDGE_PATHS.heartbeat, runner.beatBody(), dispatch.order.lease));
});

it("takes no lease of one runner from another", async () => {
  const thief = await PlayedRunner.ready("proofs");
  await expectNoEnd(() => thief.signed(EDGE_PATHS.end, endBody(), dispatch.order.lease));
  await expectNoEnd(() => thief.signed(EDGE_PATHS.heartbeat, thief.beatBody(), runner.credential));
});

it("refuses a body that is signed and makes no sense, and changes nothing", async () => {
  const { lease } = dispatch.order;
  const bodies = ["", "{", "{}", JSON.stringify({ ...runner.word, outcome: "won" })];
  bodies.push(
    JSON.stringify({ ...runner.word, outcome: "failed", times: {}, error: { code: "made_up", message: "" } }),
  );
  for (const body of bodies) {
    const response = await runner.signed(EDGE_PATHS.end, body, lease);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_request" } });
  }
  expect((await readJob(api_key, dispatch.order.job)).status).toBe("running");
});

it("takes an end report with an honest proof", async () => {
  const error = { code: "execution_failed", message: "It failed." };
  expect((await runner.end(dispatch, { outcome: "failed", error })).status).toBe(200);
  expect((await readJob(api_key, dispatch.order.job)).status).toBe("failed");
});
