import { generateKeyPair, SignJWT } from "jose";
import { describe, expect, test, vi } from "vitest";
import { encodeOrder, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { type RequestToSign, type Signer, sha256, signRequest } from "../../schemas/signed-request.ts";
import { MAX_ORDER_BYTES } from "../../gpu-runner/server.ts";
import { anExecution } from "../fakes/edge.ts";
import { aRunner, type Setup, untilInterrupted } from "./harness.ts";

async function anOrder({ edge }: Setup): Promise<string> {
  const execution = anExecution();
  const lease = await edge.lease(execution);
  return encodeOrder({ ...execution, boot: edge.boot(), timeout_ms: 60_000, lease }, "{}");
}

/** Expects 401 with a reason, and an engine that was never asked. */
async function expectRefused(
  response: Response,
  { engine }: Setup,
  reason: string,
  code = "unauthorized",
): Promise<void> {
  expect(response.status).toBe(401);
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  expect(error.code).toBe(code);
  expect(error.message).toContain(reason);
  expect(engine.prompts).toEqual([]);
}

const executions = RUNNER_PATHS.executions;

describe("a request that the edge did not sign as it is", () => {
  test("without a signature is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const response = await fetch(`${setup.url}${executions}`, { method: "POST", body: await anOrder(setup) });
    await expectRefused(response, setup, "no signed request");
  });

  test("by another key that claims the edge's kid is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
    const forger: Signer = { privateKey, header: { kid: "edge-1" } };
    const response = await setup.edge.post(setup.url, executions, await anOrder(setup), {}, forger);
    await expectRefused(response, setup, "ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
  });

  test("by a key that it brings along is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
    const jwk = { kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
    const response = await setup.edge.post(
      setup.url,
      executions,
      await anOrder(setup),
      {},
      { privateKey, header: { jwk } },
    );
    await expectRefused(response, setup, "ERR_JWS_SIGNATURE_VERIFICATION_FAILED");
  });

  test("with a kid that the edge does not publish is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const { privateKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
    const stranger: Signer = { privateKey, header: { kid: "stranger" } };
    const response = await setup.edge.post(setup.url, executions, await anOrder(setup), {}, stranger);
    await expectRefused(response, setup, "ERR_JWKS_NO_MATCHING_KEY");
  });

  test.each<[string, Partial<RequestToSign>, string]>([
    ["for another audience", { audience: "http://127.0.0.1:1" }, "aud"],
    ["for another method", { method: "PUT" }, "method"],
    ["for another URL", { url: "http://127.0.0.1:1/v1/executions" }, "url"],
    ["of another kind", { type: "dpop+jwt" }, "typ"],
    ["that has expired", { now: Date.now() - 200_000 }, "is the clock right?"],
    ["from a clock far ahead", { now: Date.now() + 200_000 }, "is the clock right?"],
  ])("%s is refused", async (_, changes, reason) => {
    const setup = await aRunner(untilInterrupted);
    const response = await setup.edge.post(setup.url, executions, await anOrder(setup), changes);
    await expectRefused(response, setup, reason);
  });

  test("whose body was altered on the way is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const order = await anOrder(setup);
    const altered = order.replace('"prompt":{}', '"prompt":{"1":{}}');
    const response = await setup.edge.post(setup.url, executions, order, {}, setup.edge.signer, altered);
    await expectRefused(response, setup, "body");
  });

  test("with `alg: none` is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const body = await anOrder(setup);
    const signed = await signRequest(await request(setup, body), setup.edge.signer);
    const header = Buffer.from(JSON.stringify({ alg: "none", typ: "dispatch+jwt" })).toString("base64url");
    const token = `${header}.${signed.split(".")[1]}.`;
    const response = await fetch(`${setup.url}${executions}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body,
    });
    await expectRefused(response, setup, "ERR_JOSE_ALG_NOT_ALLOWED");
  });

  test("by a key of another curve is refused", async () => {
    const setup = await aRunner(untilInterrupted);
    const body = await anOrder(setup);
    const { privateKey } = await generateKeyPair("ES256");
    const { audience, method, url, bodySha256, jti, now } = await request(setup, body);
    const claims = { aud: audience, htm: method, htu: url, jti, body_sha256: bodySha256, iat: Math.floor(now / 1000) };
    const token = await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", typ: "dispatch+jwt", kid: "edge-1" })
      .setExpirationTime("60s")
      .sign(privateKey);
    const response = await fetch(`${setup.url}${executions}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
      body,
    });
    await expectRefused(response, setup, "ERR_JOSE_ALG_NOT_ALLOWED");
  });

  test("is refused on the paths for stops and proofs too", async () => {
    const setup = await aRunner(untilInterrupted);
    for (const path of [RUNNER_PATHS.stops, RUNNER_PATHS.proof, "/v1/other"]) {
      const response = await fetch(`${setup.url}${path}`, { method: "POST", body: "{}" });
      await expectRefused(response, setup, "no signed request");
    }
  });
});

async function request({ url }: Setup, body: string): Promise<RequestToSign> {
  return {
    type: "dispatch+jwt",
    audience: url,
    method: "POST",
    url: `${url}${executions}`,
    bodySha256: await sha256(body),
    jti: "a-name-of-this-test",
    now: Date.now(),
  };
}

test("a signed request acts once", async () => {
  const setup = await aRunner(untilInterrupted);
  const body = JSON.stringify({ nonce: "a-nonce-of-this-test" });
  const jti = "a-name-of-this-test";
  const first = await setup.edge.post(setup.url, RUNNER_PATHS.proof, body, { jti });
  expect(first.status).toBe(200);
  const again = await setup.edge.post(setup.url, RUNNER_PATHS.proof, body, { jti });
  await expectRefused(again, setup, "seen before", "replayed");
});

test("a signed request is judged by the runner's own URL, whatever Host says", async () => {
  const setup = await aRunner(untilInterrupted);
  const other = setup.url.replace("127.0.0.1", "localhost");
  const body = JSON.stringify({ nonce: "a-nonce-of-this-test" });
  const changes = { audience: other, url: `${other}${RUNNER_PATHS.proof}` };
  await expectRefused(await setup.edge.post(setup.url, RUNNER_PATHS.proof, body, changes), setup, "aud");
});

test("an order over the limit is refused while it arrives, whether it says its length or not", async () => {
  const setup = await aRunner(untilInterrupted);
  const large = "x".repeat(MAX_ORDER_BYTES + 1);
  expect((await setup.edge.post(setup.url, executions, large)).status).toBe(413);

  const token = await signRequest(await request(setup, "{}"), setup.edge.signer);
  const unsized = new ReadableStream({
    start(controller) {
      for (let n = 0; n < 14; n++) controller.enqueue(new Uint8Array(1 << 20));
      controller.close();
    },
  });
  const response = await fetch(`${setup.url}${executions}`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}` },
    body: unsized,
    duplex: "half",
  } as RequestInit);
  expect(response.status).toBe(413);
  expect(setup.engine.prompts).toEqual([]);
});

test("an order that is not of the protocol is answered 400", async () => {
  const setup = await aRunner(untilInterrupted);
  for (const body of ["{", "[]", '{"prompt":{}}', (await anOrder(setup)).replace('"prompt":{}', '"prompt":1')])
    expect((await setup.edge.post(setup.url, executions, body)).status).toBe(400);
  expect(setup.engine.prompts).toEqual([]);
});

test("a second order beyond the seats is refused as full, and a repeat of the first is one run with the same beat", async () => {
  const { edge, url, engine } = await aRunner(untilInterrupted);
  const held = anExecution();
  const first = await edge.dispatch(url, held);
  expect(first.status).toBe(202);
  expect((await edge.dispatch(url, anExecution())).status).toBe(429);
  const beats = edge.beats.length;
  await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 1));
  const again = await edge.dispatch(url, held);
  expect(again.status).toBe(202);
  const accepted = (await first.json()) as { beat: unknown };
  expect(await again.json()).toMatchObject({ beat: accepted.beat });
  expect(engine.prompts).toHaveLength(1);
});

test("a prompt reaches the engine as it was written", async () => {
  const { edge, url, engine } = await aRunner(untilInterrupted);
  const prompt = '{"3": {"class_type":"KSampler", "inputs":{"seed":18446744073709551615, "cfg":7.0}}}';
  await edge.dispatch(url, anExecution(), { prompt });
  await vi.waitFor(() => expect(engine.prompts).toEqual([prompt]));
});

test("an order for another boot is refused with 409", async () => {
  const { edge, url, engine } = await aRunner(untilInterrupted);
  expect((await edge.dispatch(url, anExecution(), { boot: edge.boot() + 1 })).status).toBe(409);
  expect(engine.prompts).toEqual([]);
});

test("a dispatch that its stop overtook is refused with 410", async () => {
  const { edge, url, engine } = await aRunner(untilInterrupted);
  const execution = anExecution();
  expect((await edge.post(url, RUNNER_PATHS.stops, JSON.stringify(execution))).status).toBe(204);
  expect((await edge.dispatch(url, execution)).status).toBe(410);
  expect(engine.prompts).toEqual([]);
});

test("health is public and says nothing but ok", async () => {
  const { url } = await aRunner(untilInterrupted);
  const response = await fetch(`${url}${RUNNER_PATHS.health}`);
  expect([response.status, await response.text()]).toEqual([200, "ok"]);
});
