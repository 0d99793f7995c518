import { calculateJwkThumbprint, type CryptoKey, exportJWK, generateKeyPair, SignJWT } from "jose";
import { vi } from "vitest";
import type { OutputDescription } from "../../schemas/job.ts";
import {
  EDGE_PATHS,
  type Enrolled,
  type Execution,
  type HeartbeatAnswer,
  type Order,
  OUTPUT_HEADER,
  type PublicJwk,
  RUNNER_PATHS,
  type RunnerDescription,
} from "../../schemas/runner-protocol.ts";
import { type RequestToSign, sha256, signRequest } from "../../schemas/signed-request.ts";
import { BASE, call, operator } from "./service.ts";

/** What the service calls, by host: runners and receivers are played in the test itself. */
export const players = new Map<string, (request: Request) => Response | Promise<Response>>();

/** Puts the players in the place of the Internet. */
export function playInternet() {
  return vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input instanceof URL ? input.href : (input as RequestInfo), init as RequestInit);
    const player = players.get(new URL(request.url).host);
    if (!player) throw new TypeError(`Nobody plays ${request.url}`);
    const { signal } = request;
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
    return Promise.race([player(request), aborted]);
  });
}

/** A dispatch as it came over the wire. */
export interface Dispatch {
  readonly order: Order;
  readonly text: string;
  readonly token: string;
  readonly url: string;
}

export const DESCRIPTION: RunnerDescription = {
  version: "1",
  engine: { name: "played", version: "1" },
  classes: ["EmptyImage", "SaveImage"],
  models: [],
};

export const TIMES = { download_ms: 3, execution_ms: 40, upload_ms: 5 };

/** What a signed request may say wrong. */
export type Forgery = Partial<Omit<RequestToSign, "accessToken">> & {
  /** Sent in place of the signed body. */
  readonly send?: string;
  readonly key?: RunnerKey;
};

export interface RunnerKey {
  readonly privateKey: CryptoKey;
  readonly jwk: PublicJwk;
}

export async function newKey(): Promise<RunnerKey> {
  const pair = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true });
  const { x } = await exportJWK(pair.publicKey);
  return { privateKey: pair.privateKey, jwk: { kty: "OKP", crv: "Ed25519", x: String(x) } };
}

let hosts = 0;

/** A runner as the edge sees one: it proves itself, beats, takes orders and reports. */
export class PlayedRunner {
  readonly url: string;
  readonly key: RunnerKey;
  readonly pool: string;
  readonly dispatches: Dispatch[] = [];
  readonly held: (Execution & { running_ms: number })[] = [];
  runner_id = "";
  credential = "";
  /** Sent with each beat; another process has another. */
  process = crypto.randomUUID();
  boot = 0;
  n = 0;
  /** Answers a dispatch; takes it unless told otherwise. */
  onDispatch: (dispatch: Dispatch) => Response | Promise<Response> = (dispatch) => this.accept(dispatch);
  /** Answers the proof of enrolment. */
  onProof: (nonce: string) => Promise<Response> = (nonce) => this.prove(nonce);

  private constructor(key: RunnerKey, pool: string, url: string) {
    this.key = key;
    this.pool = pool;
    this.url = url;
  }

  /** A runner that listens at a host of its own and is not enrolled yet. */
  static async make(pool = "default", url = `https://runner-${++hosts}.example.org`): Promise<PlayedRunner> {
    const runner = new PlayedRunner(await newKey(), pool, url);
    if (URL.canParse(url)) players.set(new URL(url).host, (request) => runner.#answer(request));
    return runner;
  }

  /** An enrolled runner that has beaten twice and waits for work. */
  static async ready(pool = "default", seats = 2): Promise<PlayedRunner> {
    const runner = await PlayedRunner.make(pool);
    const { token } = await newToken(pool);
    const response = await runner.enrol(token);
    if (!response.ok) throw new Error(`enrol: ${response.status} ${await response.text()}`);
    runner.take((await response.json()) as Enrolled);
    await runner.start(seats);
    return runner;
  }

  take({ runner_id, credential }: Enrolled): void {
    this.runner_id = runner_id;
    this.credential = credential;
  }

  /** A process of its own. */
  async start(seats = 2): Promise<void> {
    this.process = crypto.randomUUID();
    const answer = await this.beat({ beat: undefined, seats, describe: DESCRIPTION });
    this.boot = answer.boot;
    this.n = 0;
    await this.beat({ seats });
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const text = await request.text();
    if (pathname.endsWith(RUNNER_PATHS.proof)) return this.onProof((JSON.parse(text) as { nonce: string }).nonce);
    if (!pathname.endsWith(RUNNER_PATHS.executions)) return new Response(null, { status: 204 });
    const token = request.headers.get("authorization")?.replace(/^Bearer /, "") ?? "";
    const dispatch = { order: JSON.parse(text) as Order, text, token, url: request.url };
    this.dispatches.push(dispatch);
    return this.onDispatch(dispatch);
  }

  async prove(nonce: string, key = this.key): Promise<Response> {
    const proof = await new SignJWT({ nonce })
      .setProtectedHeader({ alg: "EdDSA", typ: "proof+jwt" })
      .setIssuer(this.url)
      .setAudience(BASE)
      .sign(key.privateKey);
    return Response.json({ proof });
  }

  /** The 202 of a dispatch, after which the beats list it. */
  accept({ order: { account, job, fence } }: Dispatch): Response {
    const word = this.word;
    this.held.push({ account, job, fence, running_ms: 0 });
    return Response.json(word, { status: 202 });
  }

  /** What every message of an execution carries. */
  get word() {
    return { beat: { boot: this.boot, n: this.n }, running_ms: 0 };
  }

  drop(job: string): void {
    const at = this.held.findIndex((held) => held.job === job);
    if (at >= 0) this.held.splice(at, 1);
  }

  /** A signed request; `forgery` changes what is signed or sent. */
  async signed(path: string, body: string, accessToken: string | undefined, forgery: Forgery = {}): Promise<Response> {
    const { send = body, key = this.key, ...claims } = forgery;
    const proof = await signRequest(
      {
        type: "dpop+jwt",
        audience: BASE,
        method: "POST",
        url: BASE + path,
        bodySha256: await sha256(body),
        jti: crypto.randomUUID(),
        now: Date.now(),
        ...(accessToken === undefined ? {} : { accessToken }),
        ...claims,
      },
      { privateKey: key.privateKey, header: { jwk: { ...key.jwk } } },
    );
    return call(path, { method: "POST", headers: bearer(proof, accessToken), body: send });
  }

  enrol(token: string, change: Record<string, unknown> = {}): Promise<Response> {
    const body = JSON.stringify({ token, name: "played", public_jwk: this.key.jwk, url: this.url, ...change });
    return this.signed(EDGE_PATHS.enrol, body, undefined);
  }

  beatBody(change: Record<string, unknown> = {}): string {
    const beat = { boot: this.boot, n: ++this.n };
    return JSON.stringify({ beat, process: this.process, seats: 2, draining: false, held: this.held, ...change });
  }

  async beat(change: Record<string, unknown> = {}): Promise<HeartbeatAnswer> {
    const response = await this.signed(EDGE_PATHS.heartbeat, this.beatBody(change), this.credential);
    if (!response.ok) throw new Error(`beat: ${response.status} ${await response.text()}`);
    return (await response.json()) as HeartbeatAnswer;
  }

  progress({ order }: Dispatch, value: number): Promise<Response> {
    const body = JSON.stringify({ ...this.word, progress: { value, nodes_done: 1, nodes_total: 2 } });
    return this.signed(EDGE_PATHS.progress, body, order.lease);
  }

  /** Reports an end. `report` is the outcome with what belongs to it. */
  end({ order }: Dispatch, report: Record<string, unknown>): Promise<Response> {
    const body = JSON.stringify({ ...this.word, times: TIMES, ...report });
    return this.signed(EDGE_PATHS.end, body, order.lease);
  }

  async upload(
    { order }: Pick<Dispatch, "order">,
    n: number,
    bytes: Uint8Array<ArrayBuffer>,
    description: OutputDescription,
    send = bytes,
  ): Promise<Response> {
    const path = `${EDGE_PATHS.outputs}/${n}`;
    const proof = await signRequest(
      {
        type: "dpop+jwt",
        audience: BASE,
        method: "PUT",
        url: BASE + path,
        bodySha256: await sha256(bytes),
        jti: crypto.randomUUID(),
        now: Date.now(),
        accessToken: order.lease,
      },
      { privateKey: this.key.privateKey, header: { jwk: { ...this.key.jwk } } },
    );
    const headers = {
      ...bearer(proof, order.lease),
      "content-length": String(send.length),
      [OUTPUT_HEADER]: btoa(JSON.stringify(description)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, ""),
    };
    return call(path, { method: "PUT", headers, body: send });
  }

  /** The dispatch of a job, once it has come; of its latest fence. */
  dispatched(job: string, fence = 1): Promise<Dispatch> {
    return vi.waitFor(() => this.#latest(job, fence), { timeout: 4_000, interval: 10 });
  }

  /** The same while it beats: a refusal holds the fleet back until the next beat. */
  dispatchedAfterBeat(job: string, fence: number): Promise<Dispatch> {
    return vi.waitFor(
      async () => {
        await this.beat();
        return this.#latest(job, fence);
      },
      { timeout: 4_000 },
    );
  }

  #latest(job: string, fence: number): Dispatch {
    const found = this.dispatches.findLast(({ order }) => order.job === job && order.fence === fence);
    if (!found) throw new Error(`Fence ${fence} of ${job} was not dispatched.`);
    return found;
  }

  thumbprint = (): Promise<string> => calculateJwkThumbprint(this.key.jwk);
}

const bearer = (proof: string, accessToken: string | undefined): Record<string, string> =>
  accessToken === undefined ? { dpop: proof } : { dpop: proof, authorization: `DPoP ${accessToken}` };

export const newToken = (pool = "default", max_seats = 8): Promise<{ token: string }> =>
  operator("/runner-tokens", { pool, max_seats });

/** Bytes and what the record says of them. */
export async function output(
  text: string,
  change: Partial<OutputDescription> = {},
): Promise<{ bytes: Uint8Array<ArrayBuffer>; description: OutputDescription }> {
  const bytes = new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const description: OutputDescription = {
    node_id: "2",
    filename: "hello_00001_.png",
    kind: "image",
    content_type: "image/png",
    size_bytes: bytes.length,
    sha256: hex,
    ...change,
  };
  return { bytes, description };
}
