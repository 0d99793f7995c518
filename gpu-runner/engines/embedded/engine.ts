import { createReadStream } from "node:fs";
import { basename, join } from "node:path";
import type { Engine, EngineFailure, EngineOutput, EngineProgress, EngineResult, RunOptions } from "../../engine.ts";
import type { Inputs } from "../../inputs/inputs.ts";
import { readGraph } from "../graph.ts";
import { compareNodeIds } from "../node-order.ts";
import { ChildPool } from "./child-pool.ts";
import type { ChildEnd, EmbeddedChild } from "./child-process.ts";
import type { RunReport, RunRequest } from "./messages.ts";
import { MAX_FILE_BYTES } from "./input-files.ts";
import { CLASS_NAMES } from "./node-classes.ts";
import type { SavedFile } from "./output-folder.ts";

const MIB = 1024 * 1024;
/** Counts what a graph's author can see: it rises when a class or its pixels change. */
const ENGINE_VERSION = "1.0.0";
/** The longest message to a customer. */
const MAX_MESSAGE = 1000;
/** What a child needs beside pixels: Node.js, libvips and one compressed picture. */
const BASE_MEMORY_BYTES = 384 * MIB;
/** Twelve bytes for each pixel between nodes, and as many again for the 8 bit copies that coding needs. */
const MEMORY_BYTES_PER_PIXEL = 24;

export interface EmbeddedEngineOptions {
  /** Absolute path of the folder that LoadImage reads, files by their bare names. Default: none, LoadImage finds nothing. */
  readonly inputs?: string;
  /** Fetches the pictures that LoadImage is given by URL. Default: none, URLs are refused. */
  readonly fetcher?: Inputs;
  /** Pixels that one run may hold at once, every picture of a batch counted. Default: 64 Mi (768 MiB of floats). */
  readonly max_pixels?: number;
  /** Resident bytes at which a run's process is ended as `out_of_memory`. Default: 384 MiB and 24 bytes for each pixel. */
  readonly max_memory_bytes?: number;
  /** Warm processes kept ready; as many as there are seats is best. Default: 1. With 0 every run starts its own. */
  readonly spares?: number;
  /** Told the true reason of a crash or fault, which the result keeps from the customer. Default: nobody. */
  readonly onFault?: (reason: string) => void;
}

const interrupted = (execution_ms: number): EngineResult => ({ ok: false, reason: "interrupted", execution_ms });

function outputsOf(files: readonly SavedFile[], scratch: string): readonly EngineOutput[] {
  const sorted = files.toSorted((a, b) => compareNodeIds(a.node_id, b.node_id) || a.index - b.index);
  return sorted.map(({ node_id, index, filename }) => {
    const path = join(scratch, basename(filename));
    return { node_id, index, filename, kind: "image", content_type: "image/png", open: () => createReadStream(path) };
  });
}

function failureOfEnd({ reason, progress }: ChildEnd): EngineFailure {
  const where = progress?.node_class ? ` in node ${progress.node_id} (${progress.node_class})` : "";
  const node = progress?.node_id === undefined ? {} : { node_id: progress.node_id };
  return reason === "over_memory"
    ? { code: "out_of_memory", message: `The run needed more memory than this engine has${where}.`, ...node }
    : { code: "engine_crashed", message: `The process that executed the graph ended unexpectedly${where}.`, ...node };
}

const failed = (error: EngineFailure, execution_ms: number): EngineResult => ({
  ok: false,
  reason: "failed",
  error: { ...error, message: error.message.slice(0, MAX_MESSAGE) },
  execution_ms,
});

function resultOf(report: RunReport, scratch: string): EngineResult {
  if (!report.ok) return failed(report.error, report.execution_ms);
  const outputs = outputsOf(report.files, scratch);
  if (outputs.length > 0) return { ok: true, outputs, execution_ms: report.execution_ms, download_ms: 0 };
  return failed({ code: "no_outputs", message: "The graph saved no picture." }, report.execution_ms);
}

/** The pictures that a graph names by URL. What is no graph names none; the child refuses it in its own words. */
function picturesByUrl(prompt: string): readonly { readonly node_id: string; readonly url: string }[] {
  if (!/https?:/i.test(prompt)) return [];
  const read = readGraph(prompt);
  if (!read.ok) return [];
  return [...read.graph].flatMap(([node_id, { class_type, inputs }]) => {
    const image = inputs.get("image");
    return class_type === "LoadImage" && typeof image === "string" && /^https?:/i.test(image)
      ? [{ node_id, url: image }]
      : [];
  });
}

/**
 * The engine that needs no GPU, no Python and no model: ComfyUI's core image nodes on the CPU, pixel for pixel. A graph runs in
 * a process of bounded memory that has nothing of the runner's environment; it can kill that process, and nothing else.
 */
export function createEmbeddedEngine(options: EmbeddedEngineOptions = {}): Engine {
  const { inputs, fetcher, max_pixels = 64 * MIB, spares = 1, onFault = () => {} } = options;
  const maxMemory = options.max_memory_bytes ?? BASE_MEMORY_BYTES + max_pixels * MEMORY_BYTES_PER_PIXEL;
  const pool = new ChildPool({ maxMemory, spares });
  const running = new Set<Promise<EngineResult>>();
  let closed: Promise<void> | undefined;

  /** Fetches what the graph names by URL, and executes it with that. */
  async function fetchAndExecute(child: EmbeddedChild, prompt: string, run: RunOptions): Promise<EngineResult> {
    const wanted = fetcher ? picturesByUrl(prompt) : [];
    if (!fetcher || wanted.length === 0) return execute(child, prompt, run, []);
    const fetched = await fetcher.fetch(
      wanted.map(({ url }) => ({ url, kind: "image", max_bytes: MAX_FILE_BYTES })),
      run.signal,
    );
    if (!fetched.ok) {
      if (fetched.reason === "aborted") return interrupted(0);
      const node = wanted.find(({ url }) => url === fetched.url);
      const error: EngineFailure = { code: "input_download_failed", message: fetched.message };
      return failed(node ? { ...error, node_id: node.node_id, details: { field: "image" } } : error, 0);
    }
    try {
      const files = [...fetched.files].map(([url, { path }]) => [url, path] as const);
      const result = await execute(child, prompt, run, files);
      return result.ok ? { ...result, download_ms: fetched.download_ms } : result;
    } finally {
      fetched.release();
    }
  }

  async function execute(
    child: EmbeddedChild,
    prompt: string,
    run: RunOptions,
    fetched: NonNullable<RunRequest["fetched"]>,
  ): Promise<EngineResult> {
    const died = await child.ready;
    if (run.signal.aborted || closed) return interrupted(0);
    if (died) throw new Error(`The embedded engine can't start its process: ${died.description}`);
    let value = 0;
    const onProgress = (progress: EngineProgress): void => {
      value = Math.max(value, progress.value);
      if (!run.signal.aborted && !closed) run.onProgress({ ...progress, value });
    };
    const start = performance.now();
    const request = {
      prompt,
      scratch: run.scratch,
      maxPixels: max_pixels,
      fetched,
      ...(inputs === undefined ? {} : { inputs }),
    };
    const ended = await child.run(request, onProgress);
    if (ended.ended) {
      const elapsed = performance.now() - start;
      if (ended.end.reason === "killed") return interrupted(elapsed);
      onFault(ended.end.description);
      return failed(failureOfEnd(ended.end), elapsed);
    }
    if (!ended.report.ok && ended.report.reason) onFault(ended.report.reason);
    return resultOf(ended.report, run.scratch);
  }

  async function runInChild(prompt: string, run: RunOptions): Promise<EngineResult> {
    if (run.signal.aborted || closed) return interrupted(0);
    const child = pool.take();
    const kill = (): void => void child.kill();
    run.signal.addEventListener("abort", kill, { once: true });
    try {
      return await fetchAndExecute(child, prompt, run);
    } finally {
      run.signal.removeEventListener("abort", kill);
      await pool.giveBack(child);
    }
  }

  return {
    async describe() {
      pool.prepare();
      const child = pool.take();
      const died = await child.ready;
      await pool.giveBack(child);
      if (died) throw new Error(`The embedded engine can't start its process: ${died.description}`);
      return { name: "embedded", version: ENGINE_VERSION, classes: CLASS_NAMES, models: [] };
    },

    async run(prompt, run) {
      const result = runInChild(prompt, run);
      running.add(result);
      try {
        return await result;
      } finally {
        running.delete(result);
      }
    },

    async close() {
      closed ??= pool.close().then(async () => {
        await Promise.allSettled(running);
      });
      await closed;
    },
  };
}
