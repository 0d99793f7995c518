import { randomBytes } from "node:crypto";
import type { EngineFailure } from "../../engine.ts";
import type { InputFile, Inputs } from "../../inputs/inputs.ts";
import type { Client, ServerFile } from "./client.ts";
import type { GraphPlan, WantedFile } from "./plan.ts";
import { fileKey, OUTPUT_PARENT } from "./write-graph.ts";

/** What an upload has beside the file: the server's limit is on the whole of it. */
const FORM_BYTES = 4096;

export type Given =
  /** `files`: the name on the server, by `fileKey`. */
  | { readonly how: "given"; readonly files: ReadonlyMap<string, string>; readonly download_ms: number }
  | { readonly how: "failed"; readonly error: EngineFailure }
  /** The signal was aborted. */
  | { readonly how: "aborted" };

export interface InputSite {
  readonly client: Client;
  readonly inputs: Inputs;
  /** Bytes that one upload may have. */
  readonly max_upload: number;
  /** Told every name under which a file may lie on the server, before it does. */
  uploading(file: ServerFile, wanted: WantedFile): void;
}

async function upload(
  wanted: WantedFile,
  file: InputFile,
  { client, uploading }: InputSite,
  signal: AbortSignal,
): Promise<string> {
  const stored: ServerFile = {
    filename: `${OUTPUT_PARENT}-${randomBytes(16).toString("hex")}.${file.extension}`,
    subfolder: "",
    type: "input",
  };
  uploading(stored, wanted);
  const { filename } = await client.upload(file.path, stored, signal);
  if (filename !== stored.filename) uploading({ ...stored, filename }, wanted);
  return filename;
}

/** Fetches the files that a graph names, and gives them to the server under random names. Rejects with Unreachable. */
export async function giveInputs({ files: wanted }: GraphPlan, site: InputSite, signal: AbortSignal): Promise<Given> {
  if (wanted.length === 0) return { how: "given", files: new Map(), download_ms: 0 };
  const max_bytes = Math.max(0, site.max_upload - FORM_BYTES);
  const fetched = await site.inputs.fetch(
    wanted.map(({ url, kind }) => ({ url, kind, max_bytes })),
    signal,
  );
  if (!fetched.ok) {
    if (fetched.reason === "aborted") return { how: "aborted" };
    const node = wanted.find(({ url }) => url === fetched.url);
    const error: EngineFailure = { code: "input_download_failed", message: fetched.message };
    return {
      how: "failed",
      error: node ? { ...error, node_id: node.node_id, details: { field: node.field } } : error,
    };
  }
  const files = new Map<string, string>();
  try {
    for (const one of wanted) {
      if (signal.aborted) return { how: "aborted" };
      const file = fetched.files.get(one.url);
      if (!file) throw new Error("an input was fetched and is not there");
      files.set(fileKey(one.node_id, one.field), await upload(one, file, site, signal));
    }
    return { how: "given", files, download_ms: fetched.download_ms };
  } catch (error) {
    if (signal.aborted) return { how: "aborted" };
    throw error;
  } finally {
    fetched.release();
  }
}
