import { MAX_UPLOAD_BYTES } from "../schemas/limits.ts";
import type { Edge, EdgeAnswer, SpooledFile } from "./edge.ts";
import { jittered, pause } from "./pause.ts";

/** At once, so that one large file does not hold up the small ones and none of them starves. */
const UPLOADS_AT_ONCE = 2;

/** Refusals that a later try may not meet; the others would be the same every time. */
const PASSING: readonly number[] = [401, 408, 425, 429];
/** The execution no longer is the current one, or its job is gone. */
const FENCED: readonly number[] = [404, 409, 410];

export type Uploaded =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: "fenced" }
  /** `message` is for the customer, `cause` for the log. */
  | { readonly ok: false; readonly reason: "failed"; readonly message: string; readonly cause: string };

export interface Upload {
  readonly edge: Pick<Edge, "upload">;
  readonly lease: string;
  /** Between the tries of one file, milliseconds. */
  readonly retry_ms: readonly number[];
  readonly signal: AbortSignal;
}

const isPassing = (answer: EdgeAnswer<undefined> & { ok: false }): boolean =>
  answer.status === undefined || answer.status >= 500 || PASSING.includes(answer.status);

async function uploadFile(n: number, file: SpooledFile, { edge, lease, retry_ms, signal }: Upload): Promise<Uploaded> {
  for (let tries = 0; ; tries++) {
    const answer = await edge.upload(n, file, lease, signal);
    if (answer.ok) return { ok: true };
    if (answer.status !== undefined && FENCED.includes(answer.status)) return { ok: false, reason: "fenced" };
    const wait = retry_ms[tries];
    if (wait === undefined || signal.aborted || !isPassing(answer)) {
      const message = `The output ${file.description.filename} could not be stored.`;
      return { ok: false, reason: "failed", message, cause: answer.message };
    }
    await pause(jittered(wait), signal);
  }
}

/** Sends all files; the first that fails for good ends the others. After an abort of the signal its result means nothing. */
export async function uploadOutputs(files: readonly SpooledFile[], upload: Upload): Promise<Uploaded> {
  const large = files.find((file) => file.description.size_bytes > MAX_UPLOAD_BYTES);
  if (large) {
    const { filename, size_bytes } = large.description;
    const message = `The output ${filename} has ${size_bytes} bytes; one output may have at most ${MAX_UPLOAD_BYTES}.`;
    return { ok: false, reason: "failed", message, cause: "over the limit of one upload" };
  }
  const failure = new AbortController();
  const signal = AbortSignal.any([upload.signal, failure.signal]);
  let result: Uploaded = { ok: true };
  const queue = files.entries();
  const work = async () => {
    for (const [n, file] of queue) {
      if (signal.aborted) return;
      const uploaded = await uploadFile(n, file, { ...upload, signal });
      if (uploaded.ok || signal.aborted) continue;
      result = uploaded;
      failure.abort();
    }
  };
  await Promise.all(Array.from({ length: UPLOADS_AT_ONCE }, work));
  return result;
}
