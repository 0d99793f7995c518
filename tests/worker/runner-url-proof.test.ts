import { base64url, createLocalJWKSet, type JSONWebKeySet, SignJWT } from "jose";
import { beforeEach, expect, it, vi } from "vitest";
import { EDGE_PATHS, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256, verifyRequest } from "../../schemas/signed-request.ts";
import { newKey, newToken, PlayedRunner, players, playInternet } from "./played-runner.ts";
import { BASE, call, operator } from "./service.ts";

/** A runner's URL is proven by its own key before anything is enrolled (design section 7, "Enrolment"). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

/** The proof as it should be; `change` spoils it. */
async function proof(
  { key, url }: PlayedRunner,
  nonce: string,
  change: { header?: object; claims?: object; privateKey?: CryptoKey } = {},
): Promise<Response> {
  const signed = await new SignJWT({ nonce, iss: url, aud: BASE, ...change.claims })
    .setProtectedHeader({ alg: "EdDSA", typ: "proof+jwt", ...change.header })
    .sign(change.privateKey ?? key.privateKey);
  return Response.json({ proof: signed });
}

const encode = (value: object): string => base64url.encode(JSON.stringify(value));

it("takes no proof but that of this nonce, by this key, at this URL, for this service", async () => {
  const runner = await PlayedRunner.make("url-proof");
  const { token } = await newToken("url-proof");
  const other = await newKey();
  let previous = "";
  const answers: Record<string, (nonce: string) => Promise<Response>> = {
    "by another key": (nonce) => proof(runner, nonce, { privateKey: other.privateKey }),
    "by another key that it brings along": (nonce) =>
      proof(runner, nonce, { privateKey: other.privateKey, header: { jwk: other.jwk } }),
    "of another nonce": () => proof(runner, "a nonce of somebody else"),
    "of no nonce": (nonce) => proof(runner, nonce, { claims: { nonce: undefined } }),
    "at another URL": (nonce) => proof(runner, nonce, { claims: { iss: "https://elsewhere.example.org" } }),
    "at no URL": (nonce) => proof(runner, nonce, { claims: { iss: undefined } }),
    "for another service": (nonce) => proof(runner, nonce, { claims: { aud: "https://elsewhere.example.org" } }),
    "of another type": (nonce) => proof(runner, nonce, { header: { typ: "dpop+jwt" } }),
    "that has expired": (nonce) => proof(runner, nonce, { claims: { exp: Math.floor(Date.now() / 1000) - 1 } }),
    unsigned: async (nonce) => {
      const claims = { nonce, iss: runner.url, aud: BASE };
      return Response.json({ proof: `${encode({ alg: "none", typ: "proof+jwt" })}.${encode(claims)}.` });
    },
    "of an earlier nonce": async () => Response.json({ proof: previous }),
  };
  runner.onProof = async (nonce) => {
    previous = ((await (await proof(runner, nonce)).json()) as { proof: string }).proof;
    return new Response(null, { status: 503 });
  };
  expect((await runner.enrol(token)).status).toBe(400);
  for (const [name, answer] of Object.entries(answers)) {
    runner.onProof = answer;
    const refused = await runner.enrol(token);
    expect(refused.status, name).toBe(400);
    expect(await refused.json(), name).toMatchObject({ error: { code: "unreachable" } });
  }
  expect(await operator("/runners?pool=url-proof")).toMatchObject({ runners: [] });
  runner.onProof = (nonce) => proof(runner, nonce);
  expect((await runner.enrol(token)).status).toBe(200);
});

it("reads no more of a stranger's enrolment than an enrolment is long", async () => {
  const runner = await PlayedRunner.make("url-long");
  runner.onProof = vi.fn(runner.onProof);
  const refused = await runner.enrol(`dre_url-long_${"a".repeat(43)}`, { padding: "x".repeat(100_000) });
  expect(refused.status).toBe(413);
  expect(runner.onProof).not.toHaveBeenCalled();
});

it("asks for the proof with a request that a runner can hold to the published keys, another nonce each time", async () => {
  const runner = await PlayedRunner.make("url-asked");
  const { token } = await newToken("url-asked");
  const asked: { url: string; body: string; signed: string }[] = [];
  players.set(new URL(runner.url).host, async (request) => {
    const signed = request.headers.get("authorization")?.replace("Bearer ", "") ?? "";
    asked.push({ url: request.url, body: await request.text(), signed });
    return new Response(null, { status: 503 });
  });
  await runner.enrol(token);
  await runner.enrol(token);
  const keys = createLocalJWKSet((await (await call(EDGE_PATHS.jwks)).json()) as JSONWebKeySet);
  const nonces = new Set<string>();
  const url = runner.url + RUNNER_PATHS.proof;
  for (const { body, signed, ...request } of asked) {
    nonces.add(body);
    const expected = { type: "dispatch+jwt", audience: runner.url, method: "POST", url, now: Date.now() } as const;
    expect(request.url).toBe(url);
    expect(await verifyRequest(signed, { ...expected, bodySha256: await sha256(body) }, keys)).toMatchObject({
      ok: true,
    });
    expect(body).not.toContain(token.slice(-43));
  }
  expect([asked.length, nonces.size]).toEqual([2, 2]);
});
