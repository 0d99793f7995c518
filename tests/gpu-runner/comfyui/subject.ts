import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import type { Engine, EngineFailure, EngineOutput, EngineResult, RunOptions } from "../../../gpu-runner/engine.ts";
import { parseAllow } from "../../../gpu-runner/engines/comfyui/allowed-classes.ts";
import { type ComfyuiEngineOptions, createComfyuiEngine } from "../../../gpu-runner/engines/comfyui/engine.ts";
import type { Timings } from "../../../gpu-runner/engines/comfyui/timings.ts";
import { createInputs } from "../../../gpu-runner/inputs/create-inputs.ts";

/** Waits of the engine, shortened: they decide how soon something is seen, and in no test what. */
export const QUICK: Partial<Timings> = {
  poll_first_ms: 5,
  poll_most_ms: 100,
  queue_ms: 50,
  idle_check_ms: 100,
  gate_retry_ms: [20, 200],
  trial_ms: 5_000,
  socket_ms: 500,
  ready_ms: 3_000,
  last_stop_ms: 300,
  free_ms: 300,
  lost_submit_ms: 100,
  view_retry_ms: [10, 20],
};

export interface ReadOutput extends EngineOutput {
  readonly bytes: Buffer;
}

export interface Executed {
  readonly result: EngineResult;
  /** With their bytes, read before they were discarded. */
  readonly outputs: readonly ReadOutput[];
  /** Of a run that failed; an empty code for any other. */
  readonly error: Pick<EngineFailure, "message" | "node_id" | "details"> & { readonly code: string };
}

export interface Subject {
  readonly engine: Engine;
  /** What it told its operator, a line each. */
  readonly log: readonly string[];
  /** Runs a graph, reads its outputs and discards them. */
  run(graph: object | string, options?: Partial<RunOptions>): Promise<Executed>;
  close(): Promise<void>;
}

export async function bytesOf(output: EngineOutput): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of output.open()) parts.push(part);
  return Buffer.concat(parts);
}

export interface SubjectOptions extends Omit<Partial<ComfyuiEngineOptions>, "allow"> {
  readonly servers: ComfyuiEngineOptions["servers"];
  /** As `COMFYUI_ALLOW`. */
  readonly allow?: string;
}

/** The engine, with its servers and a cache of its own. */
export async function startSubject({ allow = "core", timings, ...options }: SubjectOptions): Promise<Subject> {
  const parsed = parseAllow(allow);
  if (!parsed.ok) throw new Error(parsed.mistake);
  const folder = await mkdtemp(join(tmpdir(), "darkroom-comfyui-"));
  const log: string[] = [];
  const tell = (line: string): void => void log.push(line);
  const engine = createComfyuiEngine({
    inputs: await createInputs({ folder: join(folder, "cache"), loopback: true }),
    log: { info: tell, warn: tell },
    ...options,
    allow: parsed.allow,
    timings: { ...QUICK, ...timings },
  });
  return {
    engine,
    log,
    async run(graph, run = {}) {
      const prompt = typeof graph === "string" ? graph : JSON.stringify(graph);
      const signal = new AbortController().signal;
      const result = await engine.run(prompt, { signal, onProgress() {}, scratch: folder, ...run });
      const outputs: ReadOutput[] = [];
      if (result.ok) {
        for (const output of result.outputs) outputs.push({ ...output, bytes: await bytesOf(output) });
        await result.discard?.();
      }
      const error = !result.ok && result.reason === "failed" ? result.error : { code: "", message: "" };
      return { result, outputs, error };
    },
    async close() {
      await engine.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** A customer's web server, on loopback. */
export interface FileServer {
  /** Where a file of this name is served. */
  urlOf(name: string): string;
  close(): Promise<void>;
}

export async function serveFiles(files: ReadonlyMap<string, Uint8Array>): Promise<FileServer> {
  const server = createServer((request, response) => {
    const bytes = files.get((request.url ?? "").slice(1));
    response.writeHead(bytes ? 200 : 404);
    response.end(bytes);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    urlOf: (name) => `http://127.0.0.1:${port}/${name}`,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A picture of one colour. */
export const pictureOf = (width: number, height: number, background: string): Promise<Buffer> =>
  sharp({ create: { width, height, channels: 3, background } })
    .png()
    .toBuffer();

let colour = 1;
/** An EmptyImage that no cache knows. */
export const freshImage = (width = 64, height = width, batch_size = 1) => ({
  class_type: "EmptyImage",
  inputs: { width, height, batch_size, color: (Date.now() + colour++ * 7919) % 0x1000000 },
});

export const saveImage = (from: string, filename_prefix = "picture") => ({
  class_type: "SaveImage",
  inputs: { images: [from, 0], filename_prefix },
});

/** Resolves when `holds` does; rejects after some seconds. */
export async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`still not: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
