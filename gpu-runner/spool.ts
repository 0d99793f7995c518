import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import * as v from "valibot";
import { OutputDescription } from "../schemas/job.ts";
import { MAX_OUTPUT_BYTES, MAX_OUTPUT_FILES } from "../schemas/limits.ts";
import type { SpooledFile } from "./edge.ts";
import type { EngineOutput } from "./engine.ts";

export interface SpoolLimits {
  readonly files: number;
  /** Of all files of an execution together. */
  readonly bytes: number;
}

export const SPOOL_LIMITS: SpoolLimits = { files: MAX_OUTPUT_FILES, bytes: MAX_OUTPUT_BYTES };

export type Spooled =
  | { readonly ok: true; readonly files: readonly SpooledFile[] }
  /** `message` is for the customer. Nothing beyond the limit was written. */
  | { readonly ok: false; readonly reason: "outputs_too_large"; readonly message: string };

class TooLarge extends Error {}

/**
 * Writes each output to `<folder>/<n>` while hashing it, in order. Rejects for faults of the disk, of the engine's streams, and for
 * an output whose description no edge would take; and when the signal is aborted.
 */
export async function spoolOutputs(
  outputs: readonly EngineOutput[],
  folder: string,
  signal: AbortSignal,
  limits: SpoolLimits = SPOOL_LIMITS,
): Promise<Spooled> {
  const tooLarge = (message: string): Spooled => ({ ok: false, reason: "outputs_too_large", message });
  if (outputs.length > limits.files)
    return tooLarge(`The workflow produced ${outputs.length} files; a job may have ${limits.files}.`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files: SpooledFile[] = [];
  let left = limits.bytes;
  for (const [n, output] of outputs.entries()) {
    const path = join(folder, String(n));
    const hash = createHash("sha256");
    let size = 0;
    const hashed = async function* (chunks: AsyncIterable<Uint8Array>) {
      for await (const chunk of chunks) {
        size += chunk.length;
        if (size > left) throw new TooLarge();
        hash.update(chunk);
        yield chunk;
      }
    };
    try {
      await pipeline(output.open(signal), hashed, createWriteStream(path, { mode: 0o600 }), { signal });
    } catch (error) {
      if (error instanceof TooLarge) return tooLarge(`The outputs have more than ${limits.bytes} bytes in all.`);
      throw error;
    }
    left -= size;
    const digest = hash.digest();
    const { node_id, filename, kind, content_type } = output;
    const description = { node_id, filename, kind, content_type, size_bytes: size, sha256: digest.toString("hex") };
    files.push({ path, sha256: digest.toString("base64url"), description: v.parse(OutputDescription, description) });
  }
  return { ok: true, files };
}

/** Removes what an earlier process left behind in the folder of all executions, and makes sure that it exists. */
export async function clearScratch(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true, force: true });
}
