import { base64url } from "jose";
import { EDGE_PATHS, OUTPUT_HEADER } from "../../schemas/runner-protocol.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { type Dispatch, output, type PlayedRunner } from "./played-runner.ts";
import { BASE, call } from "./service.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A runner's request in parts: a test changes any of them before it is signed, or after. */
export interface ProvenRequest {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Credential or lease. */
  readonly token: string | undefined;
  /** The proof's own header and claims. */
  readonly header: Fields;
  readonly claims: Fields;
  readonly sign: (input: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>;
  /** What happens to the finished proof on the way. */
  readonly altered?: (proof: string) => string;
}

const encode = (value: unknown): string => base64url.encode(JSON.stringify(value));
export const decode = (part: string | undefined): Record<string, unknown> =>
  JSON.parse(new TextDecoder().decode(base64url.decode(part ?? ""))) as Record<string, unknown>;

/** Signs with Ed25519, which knows nothing of what it signs. */
export const by =
  (key: CryptoKey) =>
  async (input: Uint8Array<ArrayBuffer>): Promise<Uint8Array> =>
    new Uint8Array(await crypto.subtle.sign("Ed25519", key, input));

/** A compact JWT of whatever it is given. */
export async function compact(header: Fields, claims: Fields, sign: ProvenRequest["sign"]): Promise<string> {
  const input = `${encode(header)}.${encode(claims)}`;
  const signature = await sign(new TextEncoder().encode(input) as Uint8Array<ArrayBuffer>);
  return `${input}.${base64url.encode(signature)}`;
}

/** An honest request, which the edge takes as it is. */
export async function honest(
  runner: PlayedRunner,
  {
    method = "POST",
    path,
    body,
    token,
    headers = {},
  }: Pick<ProvenRequest, "path" | "body" | "token"> & Partial<Pick<ProvenRequest, "method" | "headers">>,
): Promise<ProvenRequest> {
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    aud: BASE,
    htm: method,
    htu: BASE + path,
    iat: now,
    exp: now + 60,
    jti: crypto.randomUUID(),
    body_sha256: await sha256(body),
    ...(token === undefined ? {} : { ath: await sha256(token) }),
  };
  const header = { alg: "EdDSA", typ: "dpop+jwt", jwk: runner.key.jwk };
  return { method, path, body, headers, token, header, claims, sign: by(runner.key.privateKey) };
}

/** An honest upload of `text` as output `n`. */
export async function honestUpload(runner: PlayedRunner, { order }: Dispatch, n: number, text: string) {
  const { description } = await output(text);
  const headers = { [OUTPUT_HEADER]: encode(description), "content-length": String(text.length) };
  const path = `${EDGE_PATHS.outputs}/${n}`;
  return honest(runner, { method: "PUT", path, body: text, token: order.lease, headers });
}

/** The bytes that go over the wire; sent again, they are a replay. `via` is the service that gets them. */
export async function wire(request: ProvenRequest, via: typeof call = call): Promise<() => Promise<Response>> {
  const { method, path, body, token, header, claims, sign, altered = (proof) => proof } = request;
  const headers: Record<string, string> = { ...request.headers, dpop: altered(await compact(header, claims, sign)) };
  if (token !== undefined) headers.authorization = `DPoP ${token}`;
  return () => via(path, { method, headers, body });
}

export const send = async (request: ProvenRequest): Promise<Response> => (await wire(request))();
