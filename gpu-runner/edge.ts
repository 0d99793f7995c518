import { base64url } from "jose";
import { v4 as uuid } from "uuid";
import * as v from "valibot";
import type { OutputDescription } from "../schemas/job.ts";
import {
  EDGE_PATHS,
  type EndReport,
  Enrolled,
  type Enrolment,
  type Heartbeat,
  HeartbeatAnswer,
  OUTPUT_HEADER,
  ProgressAnswer,
  type ProgressReport,
} from "../schemas/runner-protocol.ts";
import { type Signer, sha256, signRequest } from "../schemas/signed-request.ts";
import { reasonOf } from "./log.ts";
import { type FileAnswer, putFile } from "./send-file.ts";
import type { Timings } from "./timings.ts";

/** A file of an execution, ready to be sent: `sha256` is the base64url digest of the bytes at `path`. */
export interface SpooledFile {
  readonly path: string;
  readonly sha256: string;
  readonly description: OutputDescription;
}

export type EdgeAnswer<T> =
  | { readonly ok: true; readonly answer: T }
  /** The edge answered, with another status than hoped for. */
  | { readonly ok: false; readonly status: number; readonly code: string; readonly message: string }
  /** No answer, or none that could be understood: whether it took effect is unknown. */
  | { readonly ok: false; readonly status?: undefined; readonly message: string };

/** The edge, as a runner may call it (schemas/runner-protocol.ts). Every call has a time-out, and none rejects. */
export interface Edge {
  enrol(enrolment: v.InferOutput<typeof Enrolment>): Promise<EdgeAnswer<Enrolled>>;
  heartbeat(heartbeat: Heartbeat, credential: string, signal: AbortSignal): Promise<EdgeAnswer<HeartbeatAnswer>>;
  progress(report: ProgressReport, lease: string, signal: AbortSignal): Promise<EdgeAnswer<ProgressAnswer>>;
  /** Streams the file from disk as output `n` (from 0). Each call is one try. */
  upload(n: number, file: SpooledFile, lease: string, signal: AbortSignal): Promise<EdgeAnswer<undefined>>;
  end(report: EndReport, lease: string, signal: AbortSignal): Promise<EdgeAnswer<undefined>>;
}

/** The slowest line that an upload may have: beyond this it is given up and tried again. */
const UPLOAD_BYTES_PER_MS = 256;
const UPLOAD_BASE_MS = 30_000;

const Refusal = v.object({ error: v.object({ code: v.string(), message: v.string() }) });

interface Call {
  readonly method: "POST" | "PUT";
  readonly path: string;
  readonly token?: string;
  /** Text, or a file on disk. */
  readonly body: string | { readonly path: string; readonly size: number };
  readonly bodySha256: string;
  readonly headers: Record<string, string>;
  readonly timeout_ms: number;
  readonly signal?: AbortSignal;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function sendText(url: string, init: RequestInit): Promise<FileAnswer> {
  const response = await fetch(url, init);
  return { status: response.status, text: await response.text() };
}

/** `base` is the service's address without a slash at its end, as its own PUBLIC_BASE_URL spells it. */
export function createEdge({ base, signer, timings }: { base: string; signer: Signer; timings: Timings }): Edge {
  async function call<T>(request: Call, parse: (body: unknown) => T): Promise<EdgeAnswer<T>> {
    const { method, path, token, body } = request;
    const url = `${base}${path}`;
    try {
      const proof = await signRequest(
        {
          type: "dpop+jwt",
          audience: base,
          method,
          url,
          bodySha256: request.bodySha256,
          jti: uuid(),
          now: Date.now(),
          ...(token === undefined ? {} : { accessToken: token }),
        },
        signer,
      );
      const headers: Record<string, string> = { ...request.headers, dpop: proof };
      if (token !== undefined) headers.authorization = `DPoP ${token}`;
      const timeout = AbortSignal.timeout(request.timeout_ms);
      const signal = request.signal ? AbortSignal.any([timeout, request.signal]) : timeout;
      const { status, text } =
        typeof body === "string"
          ? await sendText(url, { method, headers, body, redirect: "manual", signal })
          : await putFile(url, { ...body, headers, signal });
      const answer = parseJson(text);
      if (status >= 200 && status < 300) return { ok: true, answer: parse(answer) };
      const refusal = v.safeParse(Refusal, answer);
      const { code, message } = refusal.success ? refusal.output.error : { code: "", message: "" };
      return { ok: false, status, code, message: message || `answered ${status}` };
    } catch (error) {
      const reason = error instanceof v.ValiError ? "its answer is not of this protocol" : reasonOf(error);
      return { ok: false, message: reason };
    }
  }

  type PostOptions = Pick<Call, "token" | "signal"> & { timeout_ms?: number };
  async function post<T>(path: string, message: unknown, parse: (body: unknown) => T, options: PostOptions) {
    const body = JSON.stringify(message);
    return call(
      {
        method: "POST",
        path,
        body,
        bodySha256: await sha256(body),
        headers: { "content-type": "application/json" },
        timeout_ms: timings.answer_ms,
        ...options,
      },
      parse,
    );
  }

  return {
    enrol: (enrolment) =>
      post(EDGE_PATHS.enrol, enrolment, (body) => v.parse(Enrolled, body), { timeout_ms: timings.enrol_ms }),
    heartbeat: (heartbeat, token, signal) =>
      post(EDGE_PATHS.heartbeat, heartbeat, (body) => v.parse(HeartbeatAnswer, body), { token, signal }),
    progress: (report, token, signal) =>
      post(EDGE_PATHS.progress, report, (body) => v.parse(ProgressAnswer, body), { token, signal }),
    end: (report, token, signal) => post(EDGE_PATHS.end, report, () => undefined, { token, signal }),
    upload: (n, { path, sha256: bodySha256, description }, token, signal) =>
      call(
        {
          method: "PUT",
          path: `${EDGE_PATHS.outputs}/${n}`,
          token,
          body: { path, size: description.size_bytes },
          bodySha256,
          headers: {
            "content-type": "application/octet-stream",
            [OUTPUT_HEADER]: base64url.encode(JSON.stringify(description)),
          },
          timeout_ms: UPLOAD_BASE_MS + Math.ceil(description.size_bytes / UPLOAD_BYTES_PER_MS),
          signal,
        },
        () => undefined,
      ),
  };
}
