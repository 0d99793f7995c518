import { checkTarget } from "../../schemas/targets.ts";
import type { Want } from "./admission.ts";
import { type Download, downloadInput } from "./download.ts";
import type { InputFile, InputsFetched, WantedInput } from "./inputs.ts";
import type { InputLimits } from "./limits.ts";
import { Refused } from "./refused.ts";

export interface Fetching extends Pick<Download, "rules" | "dialling" | "content" | "remembered"> {
  readonly limits: InputLimits;
}

/** Names longer than any host has are no help to a reader. */
const MAX_HOST_CHARACTERS = 253;

/** How a message names an input: by its host, or by nothing. */
function subjectOf(url: string): string {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return host === "" || host.length > MAX_HOST_CHARACTERS ? "An input" : `The input at ${host}`;
}

/** One want for each different URL, which is the sum of all for it. */
function merged(wanted: readonly WantedInput[], bytes: number): Map<string, Want> {
  const wants = new Map<string, Want>();
  for (const { url, kind, max_bytes = bytes } of wanted) {
    const { kinds, max_bytes: most } = wants.get(url) ?? { kinds: [], max_bytes: bytes };
    wants.set(url, { kinds: [...kinds, kind], max_bytes: Math.min(max_bytes, most) });
  }
  return wants;
}

type Fetched = { readonly ok: true; readonly file: InputFile } | { readonly ok: false; readonly predicate: string };

/** One URL, for as long as it may take. Rejects for faults of the disk, and for an abort of the signal. */
async function fetchInput(target: URL, download: Download, most_ms: number): Promise<Fetched> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), most_ms);
  try {
    const signal = AbortSignal.any([download.signal, late.signal]);
    const { path, size_bytes, sha256, type } = await downloadInput(target, { ...download, signal });
    const { content_type, extension } = type;
    return { ok: true, file: { path, size_bytes, sha256, content_type, extension } };
  } catch (error) {
    download.signal.throwIfAborted();
    if (late.signal.aborted) return { ok: false, predicate: `took longer than ${most_ms / 1000} s` };
    if (error instanceof Refused) return { ok: false, predicate: error.predicate };
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Fetches the inputs of one job; see `Inputs.fetch`. */
export async function fetchInputs(
  wanted: readonly WantedInput[],
  signal: AbortSignal,
  { limits, ...shared }: Fetching,
): Promise<InputsFetched> {
  const started = performance.now();
  const elapsed = (): number => Math.round(performance.now() - started);
  const refuse = (url: string, message: string): InputsFetched => {
    return { ok: false, reason: "refused", url, message, download_ms: elapsed() };
  };

  const targets: { url: string; want: Want; target: URL }[] = [];
  for (const [url, want] of merged(wanted, limits.bytes)) {
    if (targets.length === limits.urls) return refuse(url, `A job may fetch at most ${limits.urls} different URLs.`);
    const check = checkTarget(url, shared.rules);
    if (!check.ok) return refuse(url, `${subjectOf(url)} is refused: ${check.rule}.`);
    targets.push({ url, want, target: check.url });
  }

  const files = new Map<string, InputFile>();
  let failed: { url: string; predicate: string } | undefined;
  const failure = new AbortController();
  const ended = AbortSignal.any([signal, failure.signal]);
  const allowance = { bytes: limits.bytes, left: limits.bytes };
  const common = { ...shared, allowance, redirects: limits.redirects, signal: ended };
  const queue = targets.values();
  const work = async (): Promise<void> => {
    for (const { url, want, target } of queue) {
      if (ended.aborted) return;
      const fetched = await fetchInput(target, { ...common, want }, limits.each_ms);
      if (fetched.ok) files.set(url, fetched.file);
      else {
        failed = { url, predicate: fetched.predicate };
        failure.abort();
      }
    }
  };
  const faults: unknown[] = [];
  const workers = Array.from({ length: limits.at_once }, () =>
    work().catch((error: unknown) => {
      // What an abort does to the others is none.
      if (!ended.aborted) faults.push(error);
      failure.abort();
    }),
  );
  await Promise.all(workers);

  let released = false;
  const release = (): void => {
    if (!released) for (const { sha256 } of files.values()) shared.content.letGo(sha256);
    released = true;
  };
  if (!signal.aborted && !failure.signal.aborted) return { ok: true, files, download_ms: elapsed(), release };
  release();
  if (signal.aborted) return { ok: false, reason: "aborted" };
  if (failed) return refuse(failed.url, `${subjectOf(failed.url)} ${failed.predicate}.`);
  throw faults[0];
}
