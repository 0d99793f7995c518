import { randomBytes, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  importJWK,
  jwtVerify,
  SignJWT,
} from "jose";
import { v7 } from "uuid";
import * as v from "valibot";
import { accountId, runnerId } from "../../schemas/ids.ts";
import type { OutputDescription } from "../../schemas/job.ts";
import {
  EDGE_PATHS,
  EndReport,
  Enrolment,
  type Execution,
  encodeOrder,
  Heartbeat,
  type HeartbeatAnswer,
  OUTPUT_HEADER,
  OutputHeader,
  type ProgressAnswer,
  ProgressReport,
  Proof,
  type PublicJwk,
  RUNNER_PATHS,
} from "../../schemas/runner-protocol.ts";
import { type RequestToSign, type Signer, sha256, signRequest, verifyRequest } from "../../schemas/signed-request.ts";

/** An answer of the fake: `lost` means that it acted and the connection then broke. */
export type Answer = { readonly status: number; readonly body?: unknown } | "lost";

export interface FakeUpload {
  readonly n: number;
  readonly description: OutputDescription;
  readonly bytes: Buffer;
  readonly content_length: string | undefined;
}

/** What a test may decide; the defaults are those of an edge on a good day. */
export interface FakeAnswers {
  heartbeat(beat: Heartbeat): Partial<HeartbeatAnswer> | Answer;
  progress(report: ProgressReport): ProgressAnswer | Answer;
  upload(upload: FakeUpload): Answer;
  end(report: EndReport): Answer;
}

export interface FakeEdge {
  readonly url: string;
  readonly token: string;
  /** What runners said, in order, each verified before it counts. */
  readonly beats: readonly Heartbeat[];
  readonly progress: readonly ProgressReport[];
  readonly uploads: readonly FakeUpload[];
  readonly ends: readonly EndReport[];
  /** Why requests were refused: empty where every runner signs as it should. */
  readonly refused: readonly string[];
  readonly enrolments: readonly v.InferOutput<typeof Enrolment>[];
  readonly answers: FakeAnswers;
  /** The edge's key as its signer. */
  readonly signer: Signer;
  boot(): number;
  lease(execution: Execution, expires_in_s?: number): Promise<string>;
  /** Posts a signed request to a runner; `changes` alter what is signed, `sent` is posted in place of the signed body. */
  post(
    runner: string,
    path: string,
    body: string,
    changes?: Partial<RequestToSign>,
    as?: Signer,
    sent?: string,
  ): Promise<Response>;
  /** Posts an order for the execution, for the current boot unless told otherwise. */
  dispatch(runner: string, execution: Execution, options?: DispatchOptions): Promise<Response>;
  close(): Promise<void>;
}

export interface DispatchOptions {
  readonly prompt?: string;
  readonly timeout_ms?: number;
  readonly boot?: number;
  readonly lease_s?: number;
}

export const anExecution = (fence = 1): Execution => ({ account: accountId(randomBytes(20)), job: v7(), fence });

async function readAll(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Plays the edge over real HTTP on loopback: publishes keys, enrols, verifies every proof, records, and answers. */
export async function startFakeEdge(): Promise<FakeEdge> {
  const { privateKey, publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519" });
  const jwk = { ...(await exportJWK(publicKey)), kid: "edge-1", alg: "EdDSA", use: "sig" };
  const keys = createLocalJWKSet({ keys: [jwk] });
  const signer: Signer = { privateKey, header: { kid: "edge-1" } };
  const token = `dre_default_${randomBytes(32).toString("base64url")}`;
  const beats: Heartbeat[] = [];
  const progress: ProgressReport[] = [];
  const uploads: FakeUpload[] = [];
  const ends: EndReport[] = [];
  const refused: string[] = [];
  const enrolments: v.InferOutput<typeof Enrolment>[] = [];
  const runners = new Map<string, PublicJwk>();
  let boot = 6;
  const answers: FakeAnswers = {
    heartbeat: () => ({}),
    progress: () => ({ fenced: false, next_in_ms: 100 }),
    upload: () => ({ status: 201 }),
    end: () => ({ status: 200, body: { ok: true } }),
  };
  const refuse = (status: number, message: string): Answer => ({
    status,
    body: { error: { code: "refused", message } },
  });

  const post: FakeEdge["post"] = async (runner, path, body, changes = {}, as = signer, sent = body) => {
    const request: RequestToSign = {
      type: "dispatch+jwt",
      audience: runner,
      method: "POST",
      url: `${runner}${path}`,
      bodySha256: await sha256(body),
      jti: randomUUID(),
      now: Date.now(),
      ...changes,
    };
    const headers = { authorization: `Bearer ${await signRequest(request, as)}`, "content-type": "application/json" };
    return fetch(`${runner}${path}`, { method: "POST", headers, body: sent });
  };

  const sign = (claims: Record<string, unknown>, type: string) =>
    new SignJWT(claims).setProtectedHeader({ alg: "EdDSA", typ: type, kid: "edge-1" });

  const lease: FakeEdge["lease"] = (execution, expires_in_s = 600) =>
    sign({ ...execution }, "lease+jwt")
      .setExpirationTime(Math.floor(Date.now() / 1000) + expires_in_s)
      .sign(privateKey);

  async function enrol(body: Buffer): Promise<Answer> {
    const enrolment = v.parse(Enrolment, JSON.parse(body.toString()));
    if (enrolment.token !== token) return refuse(401, "unknown token");
    const nonce = randomUUID();
    const response = await post(enrolment.url, RUNNER_PATHS.proof, JSON.stringify({ nonce }));
    if (response.status !== 200) return refuse(422, `the runner answered ${response.status}`);
    const { proof } = v.parse(Proof, await response.json());
    const key = await importJWK(enrolment.public_jwk, "EdDSA");
    const verified = await jwtVerify(proof, key, { typ: "proof+jwt", issuer: enrolment.url, audience: url });
    if (verified.payload.nonce !== nonce) return refuse(422, "another nonce");
    const thumbprint = await calculateJwkThumbprint(enrolment.public_jwk);
    runners.set(thumbprint, enrolment.public_jwk);
    enrolments.push(enrolment);
    const runner_id = runnerId(randomBytes(20));
    const credential = await sign({ sub: runner_id, cnf: { jkt: thumbprint } }, "credential+jwt").sign(privateKey);
    return { status: 200, body: { runner_id, pool: "default", max_seats: 4, credential } };
  }

  function heartbeat(body: Buffer): Answer {
    const beat = v.parse(Heartbeat, JSON.parse(body.toString()));
    if (!beat.beat) boot++;
    beats.push(beat);
    const answer = answers.heartbeat(beat);
    if (answer === "lost" || "status" in answer) return answer;
    return { status: 200, body: { boot, stop: [], describe: false, next_in_ms: 100, ...answer } };
  }

  function report(body: Buffer): Answer {
    const said = v.parse(ProgressReport, JSON.parse(body.toString()));
    progress.push(said);
    const answer = answers.progress(said);
    return answer === "lost" || "status" in answer ? answer : { status: 200, body: answer };
  }

  function upload(path: string, request: IncomingMessage, bytes: Buffer): Answer {
    const header = Buffer.from(String(request.headers[OUTPUT_HEADER]), "base64url").toString();
    const received: FakeUpload = {
      n: Number(path.slice(EDGE_PATHS.outputs.length + 1)),
      description: v.parse(OutputHeader, JSON.parse(header)),
      bytes,
      content_length: request.headers["content-length"],
    };
    uploads.push(received);
    return answers.upload(received);
  }

  async function answer(request: IncomingMessage, path: string): Promise<Answer> {
    if (path === EDGE_PATHS.jwks) return { status: 200, body: { keys: [jwk] } };
    const bytes = await readAll(request);
    const accessToken = /^DPoP (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const verified = await verifyRequest(
      String(request.headers.dpop),
      {
        type: "dpop+jwt",
        audience: url,
        method: request.method ?? "",
        url: `${url}${path}`,
        bodySha256: await sha256(bytes),
        now: Date.now(),
        ...(accessToken === undefined ? {} : { accessToken }),
      },
      "embedded",
    );
    if (!verified.ok) return refuse(401, verified.reason);
    if (path === EDGE_PATHS.enrol) return enrol(bytes);
    if (!runners.has(verified.thumbprint ?? "")) return refuse(401, "another key");
    const typ = path === EDGE_PATHS.heartbeat ? "credential+jwt" : "lease+jwt";
    await jwtVerify(accessToken ?? "", keys, { typ });
    if (path === EDGE_PATHS.heartbeat) return heartbeat(bytes);
    if (path === EDGE_PATHS.progress) return report(bytes);
    if (path.startsWith(`${EDGE_PATHS.outputs}/`)) return upload(path, request, bytes);
    const end = v.parse(EndReport, JSON.parse(bytes.toString()));
    ends.push(end);
    return answers.end(end);
  }

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    const given = await answer(request, path).catch((error: unknown) => refuse(400, String(error)));
    if (given === "lost") {
      response.destroy();
      return;
    }
    if (given.status === 400 || given.status === 401) refused.push(`${path}: ${JSON.stringify(given.body)}`);
    response.writeHead(given.status, { "content-type": "application/json" });
    response.end(JSON.stringify(given.body ?? {}));
  }

  const server = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    url,
    token,
    beats,
    progress,
    uploads,
    ends,
    refused,
    enrolments,
    answers,
    signer,
    boot: () => boot,
    lease,
    post,
    async dispatch(runner, execution, { prompt = "{}", timeout_ms = 60_000, lease_s = 600, ...options } = {}) {
      const order = { ...execution, boot: options.boot ?? boot, timeout_ms, lease: await lease(execution, lease_s) };
      return post(runner, RUNNER_PATHS.executions, encodeOrder(order, prompt));
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
