import { env } from "cloudflare:workers";
import { base64url } from "jose";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { EDGE_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { type Dispatch, newKey, newToken, PlayedRunner, playInternet } from "./played-runner.ts";
import { by, compact, decode, honest, honestUpload, type ProvenRequest, send } from "./proven-request.ts";
import { BASE, newAccount, operator, readJob, submitted } from "./service.ts";

/** Each kind of request that a runner makes, with each part of it forged in turn (design section 7). */

const POOL = "forged";
let runner: PlayedRunner;
/** Enrolled and at work like the other, with a key, a credential and a lease of its own. */
let neighbour: PlayedRunner;
let stranger: PlayedRunner;
let dispatch: Dispatch;
let foreign: Dispatch;
let api_key: string;
let enrolToken: string;

beforeAll(async () => {
  vi.restoreAllMocks();
  playInternet();
  ({ api_key } = await newAccount("pro", POOL));
  runner = await PlayedRunner.ready(POOL, 1);
  dispatch = await runner.dispatched((await submitted(api_key)).job_id);
  neighbour = await PlayedRunner.ready(POOL, 1);
  foreign = await neighbour.dispatched((await submitted(api_key)).job_id);
  stranger = await PlayedRunner.make(POOL);
  ({ token: enrolToken } = await newToken(POOL));
  await vi.waitFor(async () => expect((await readJob(api_key, dispatch.order.job)).status).toBe("running"));
});

const json = (value: object): string => JSON.stringify(value);
const enrolBody = () => json({ token: enrolToken, name: "x", public_jwk: stranger.key.jwk, url: stranger.url });

const HONEST = {
  heartbeat: () =>
    honest(runner, { path: EDGE_PATHS.heartbeat, body: runner.beatBody({ seats: 1 }), token: runner.credential }),
  progress: () => {
    const body = json({ ...runner.word, progress: { value: 0.5 } });
    return honest(runner, { path: EDGE_PATHS.progress, body, token: dispatch.order.lease });
  },
  upload: () => honestUpload(runner, dispatch, 0, "a picture"),
  end: () => {
    const body = json({ ...runner.word, outcome: "completed", outputs: [], times: { ...TIMES } });
    return honest(runner, { path: EDGE_PATHS.end, body, token: dispatch.order.lease });
  },
  enrolment: () => honest(stranger, { path: EDGE_PATHS.enrol, body: enrolBody(), token: undefined }),
} as const;
const TIMES = { download_ms: 1, execution_ms: 2, upload_ms: 3 };
type Kind = keyof typeof HONEST;

/** Everything that a request of a runner may change. */
async function world(): Promise<unknown> {
  const { objects } = await env.STORE.list({ prefix: "o/" });
  const jobs = [await readJob(api_key, dispatch.order.job), await readJob(api_key, foreign.order.job)];
  return { jobs, objects: objects.map(({ key }) => key), runners: await operator(`/runners?pool=${POOL}`) };
}

type Forgery = (honest: ProvenRequest) => Partial<ProvenRequest> | Promise<Partial<ProvenRequest>>;
const claim =
  (name: string, value: unknown): Forgery =>
  ({ claims }) => ({ claims: { ...claims, [name]: value } });
const keyed =
  (jwk: object, sign?: ProvenRequest["sign"], alg = "EdDSA"): Forgery =>
  ({ header }) => ({ header: { ...header, alg, jwk }, ...(sign ? { sign } : {}) });
const seconds = (): number => Math.floor(Date.now() / 1000);
const junk = (length: number) => async () => new Uint8Array(length).fill(7);
const x = (length: number): string => base64url.encode(new Uint8Array(length).fill(9));
const flipped = (text: string, at: number): string =>
  text.slice(0, at) + (text[at] === "A" ? "B" : "A") + text.slice(at + 1);

async function p256(named: string): Promise<Forgery> {
  const pair = (await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
  ])) as CryptoKeyPair;
  const sign = async (input: Uint8Array<ArrayBuffer>) =>
    new Uint8Array(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, pair.privateKey, input));
  const { kty, crv, x, y } = (await crypto.subtle.exportKey("jwk", pair.publicKey)) as JsonWebKey;
  return keyed({ kty, crv, x, y }, sign, named);
}

/** Of the proof alone: every kind of request has one. */
const PROOFS: Record<string, Forgery> = {
  "by another key, which it names": async (request) => {
    const { jwk, privateKey } = await newKey();
    return keyed(jwk, by(privateKey))(request);
  },
  "by another key under the runner's": async () => ({ sign: by((await newKey()).privateKey) }),
  "by an enrolled neighbour": (request) => keyed(neighbour.key.jwk, by(neighbour.key.privateKey))(request),
  "with an altered payload": ({ claims }) => ({
    altered: (proof) => proof.replace(/\.[^.]*\./, `.${base64url.encode(json({ ...claims, exp: seconds() + 90 }))}.`),
  }),
  "with an altered signature": () => ({ altered: (proof) => flipped(proof, proof.length - 40) }),
  "without a signature": () => ({ altered: (proof) => proof.replace(/[^.]*$/, "") }),
  expired: ({ claims }) => ({ claims: { ...claims, iat: seconds() - 190, exp: seconds() - 130 } }),
  "old, with an expiry of its own choice": ({ claims }) => ({
    claims: { ...claims, iat: seconds() - 190, exp: seconds() + 3600 },
  }),
  "from the future": ({ claims }) => ({ claims: { ...claims, iat: seconds() + 190, exp: seconds() + 250 } }),
  "without an expiry": claim("exp", undefined),
  "without a name of its own": claim("jti", undefined),
  "for another audience": claim("aud", "https://elsewhere.example.org"),
  "for another method": claim("htm", "DELETE"),
  "for another path": claim("htu", `${BASE}/runners/other`),
  "for another host": ({ path }) => claim("htu", `https://elsewhere.example.org${path}`)({} as ProvenRequest),
  "for another body": async (request) => claim("body_sha256", await sha256(`${request.body} `))(request),
  "for no body": claim("body_sha256", undefined),
  "of the edge's type": ({ header }) => ({ header: { ...header, typ: "dispatch+jwt" } }),
  "with `alg: none`": ({ header }) => ({ header: { ...header, alg: "none" }, sign: junk(0) }),
  "with `alg: none` and a good signature": ({ header }) => ({ header: { ...header, alg: "none" } }),
  "with the public key as an HMAC secret": ({ header }) => ({ header: { ...header, alg: "HS256" }, sign: junk(32) }),
  "on the curve P-256": async (request) => (await p256("ES256"))(request),
  "on the curve P-256 as EdDSA": async (request) => (await p256("EdDSA"))(request),
  "on the curve Ed448": keyed({ kty: "OKP", crv: "Ed448", x: x(57) }, junk(114)),
  "with a key of X25519": keyed({ kty: "OKP", crv: "X25519", x: x(32) }),
  "with a broken key": keyed({ kty: "OKP", crv: "Ed25519", x: x(31) }),
  "with a key that may not verify": ({ header }) => ({
    header: { ...header, jwk: { ...(header.jwk as object), key_ops: ["sign"] } },
  }),
  "with no key": ({ header }) => ({ header: { ...header, jwk: undefined } }),
  "with the edge's name for a key": ({ header }) => ({ header: { ...header, jwk: undefined, kid: "test-edge" } }),
};

/** A token that differs from `token`, with a proof that goes with it. */
const withToken = async ({ claims }: ProvenRequest, token: string): Promise<Partial<ProvenRequest>> => ({
  token,
  claims: { ...claims, ath: await sha256(token) },
});
const rewritten =
  (change: object, header: object, sign: ProvenRequest["sign"]): Forgery =>
  async (request) => {
    const [head, payload] = (request.token ?? "").split(".");
    return withToken(request, await compact({ ...decode(head), ...header }, { ...decode(payload), ...change }, sign));
  };

/** Of the token, or of what joins the two. */
const TOKENS: Record<string, Forgery> = {
  "whose proof names no token": claim("ath", undefined),
  "whose proof goes with another token": async (request) => claim("ath", await sha256(foreign.order.lease))(request),
  "whose token is altered": (request) => {
    const [head, payload, signature] = (request.token ?? "").split(".");
    const raised = base64url.encode(json({ ...decode(payload), fence: 2, pool: "default" }));
    return withToken(request, `${head}.${raised}.${signature}`);
  },
  "whose token the runner signed itself": (request) => rewritten({}, {}, by(runner.key.privateKey))(request),
  "whose token is unsigned": rewritten({}, { alg: "none" }, junk(0)),
  "whose token is a neighbour's": (request) =>
    withToken(request, request.path === EDGE_PATHS.heartbeat ? neighbour.credential : foreign.order.lease),
  "whose token is of the other kind": (request) =>
    withToken(request, request.path === EDGE_PATHS.heartbeat ? dispatch.order.lease : runner.credential),
  "whose token is missing": () => ({ token: undefined }),
};

async function expectRefused(kind: Kind, forgery: Forgery): Promise<void> {
  const request = await HONEST[kind]();
  const response = await send({ ...request, ...(await forgery(request)) });
  const text = await response.text();
  expect(response.status, text).toBe(401);
  expect(response.headers.get("www-authenticate")).toBe("DPoP");
  expect(JSON.parse(text)).toMatchObject({ error: { code: "unauthorized" } });
}

describe.each<Kind>(["heartbeat", "progress", "upload", "end", "enrolment"])("the %s", (kind) => {
  let before: unknown;
  beforeAll(async () => {
    before = await world();
  });

  // An upload's digest is also in its header, and R2 checks the bytes: tests/worker/execution.test.ts.
  const proofs = Object.entries(PROOFS).filter(([name]) => kind !== "upload" || name !== "for another body");
  it.each(proofs)("with a proof %s is refused", (_, forgery) => expectRefused(kind, forgery));

  const tokens = kind === "enrolment" ? [] : Object.entries(TOKENS);
  it.each(tokens)("%s is refused", (_, forgery) => expectRefused(kind, forgery));

  it("so refused has changed nothing", async () => {
    expect(await world()).toEqual(before);
  });
});

it("takes each of them as it is, so that nothing else was wrong with the forged ones", async () => {
  const before = await world();
  for (const kind of ["heartbeat", "progress", "upload", "enrolment", "end"] as const) {
    expect((await send(await HONEST[kind]())).status, kind).toBe(kind === "upload" ? 201 : 200);
  }
  expect(await world()).not.toEqual(before);
  expect((await readJob(api_key, dispatch.order.job)).status).toBe("completed");
});
