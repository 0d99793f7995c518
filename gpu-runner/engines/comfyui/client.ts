import { openAsBlob } from "node:fs";
import { reasonOf } from "../../log.ts";
import { isObject, type Json, parseLenient } from "./json.ts";

/** The codes of an error and of all beneath it: a name with two addresses fails with one error for each. */
const codesOf = (error: unknown): readonly string[] => {
  if (error instanceof AggregateError) return error.errors.flatMap(codesOf);
  if (!(error instanceof Error)) return [];
  return ["code" in error ? String(error.code) : "", ...codesOf(error.cause)].filter((code) => code !== "");
};

const NOBODY_THERE = /^(?:ECONNREFUSED|EHOSTUNREACH|ENETUNREACH)$/;

/** An answer is longer than any that the engine reads: a graph can make texts of gigabytes. */
export class TooLong extends Error {
  override readonly name = "TooLong";
}

/** A call of the server had no usable answer: refused, broken off, timed out, or not of ComfyUI's shape. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
  /** Nothing listens there: the server's process is gone. */
  readonly gone: boolean;

  constructor(what: string, cause?: unknown) {
    super(`${what}: ${reasonOf(cause)}`);
    const codes = codesOf(cause);
    this.gone = codes.length > 0 && codes.every((code) => NOBODY_THERE.test(code));
  }
}

/** A file as ComfyUI names it. */
export interface ServerFile {
  readonly filename: string;
  /** Without a slash at either end; empty for the folder itself. */
  readonly subfolder: string;
  readonly type: "input" | "output" | "temp";
}

/** The end of a prompt, from its history entry. */
export interface HistoryEntry {
  readonly outputs: Json;
  readonly succeeded: boolean;
  /** Events of its execution, oldest first. */
  readonly messages: readonly { readonly type: string; readonly data: Json }[];
  /** The node of the submitted graph, by the id under which an output stands. */
  readonly displayNodes: ReadonlyMap<string, string>;
}

export interface Queue {
  readonly running: readonly string[];
  readonly pending: readonly string[];
  /** Who submitted each of them, where that was told. */
  readonly clients: ReadonlyMap<string, string>;
}

export type Submitted =
  | { readonly ok: true; readonly prompt_id: string; readonly node_errors: Json }
  /** Refused; `body` is ComfyUI's own words, never to be handed on. */
  | { readonly ok: false; readonly status: number; readonly body: Json };

export interface Device {
  readonly name: string;
  readonly type: string;
  readonly vram_total: number;
  readonly vram_free: number;
}

export interface SystemStats {
  readonly version: string;
  readonly argv: readonly string[];
  readonly devices: readonly Device[];
}

/** The calls of one ComfyUI server. All but `view` read their answer whole; all reject with Unreachable. */
export interface Client {
  /** Base URL without a slash at its end. */
  readonly url: string;
  systemStats(): Promise<SystemStats>;
  /** Bytes that one upload may have; undefined where the server does not say. */
  maxUpload(): Promise<number | undefined>;
  objectInfo(): Promise<unknown>;
  /** @param graph JSON text */
  submit(
    graph: string,
    ids: { readonly prompt_id: string; readonly client_id: string },
    signal?: AbortSignal,
  ): Promise<Submitted>;
  /** Undefined while there is none. Rejects with TooLong where it is longer than 32 MiB. */
  history(prompt_id: string): Promise<HistoryEntry | undefined>;
  queue(): Promise<Queue>;
  deleteQueued(prompt_id: string): Promise<void>;
  /** Stops exactly this prompt where the server is new enough, and whatever runs where it is not. */
  interrupt(prompt_id: string): Promise<void>;
  /** `/api/jobs/{id}/cancel`. False: the server has no such call. */
  cancel(prompt_id: string): Promise<boolean>;
  forget(prompt_id: string): Promise<void>;
  /** Unloads models and drops cached results, between prompts. */
  free(): Promise<void>;
  /** Stores a file under a name of its folder, in place of one of that name. @param source a file's path, or the bytes */
  upload(source: string | Uint8Array<ArrayBuffer>, as: ServerFile, signal?: AbortSignal): Promise<ServerFile>;
  /** The bytes of a file. Its caller reads the body or cancels it. A missing file is undefined. */
  view(file: ServerFile, signal?: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined>;
}

/** A long graph makes ComfyUI slow to answer: seconds were seen (950 nodes in a chain). */
const ANSWER_MS = 30_000;
/** Graphs of 10 MiB are parsed and validated before the answer. */
const SUBMIT_MS = 60_000;
/** For one file to the server; 100 MiB is what it takes unless told otherwise. */
const UPLOAD_MS = 120_000;
/** Graphs of 10 MiB stand in the queue and in each history entry; the classes of ComfyUI 0.33 have 1.6 MB. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024;
/** A graph, and the texts that its nodes show. */
const MAX_HISTORY_BYTES = 32 * 1024 * 1024;
/** To the head of a file's answer. */
const VIEW_MS = 60_000;

const textOf = (value: unknown): string => (typeof value === "string" ? value : "");
const numberOf = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

function readHistory(value: unknown): HistoryEntry | undefined {
  if (!isObject(value)) return undefined;
  const status = isObject(value.status) ? value.status : {};
  const messages = Array.isArray(status.messages) ? status.messages : [];
  const meta = isObject(value.meta) ? value.meta : {};
  return {
    outputs: isObject(value.outputs) ? value.outputs : {},
    succeeded: status.status_str === "success",
    messages: messages.flatMap((message: unknown) => {
      const [type, data] = Array.isArray(message) ? message : [];
      return typeof type === "string" && isObject(data) ? [{ type, data }] : [];
    }),
    displayNodes: new Map(
      Object.entries(meta).flatMap(([id, entry]) =>
        isObject(entry) && typeof entry.display_node === "string" ? [[id, entry.display_node] as const] : [],
      ),
    ),
  };
}

const idsOf = (items: unknown): readonly string[] =>
  (Array.isArray(items) ? items : []).flatMap((item: unknown) =>
    Array.isArray(item) && typeof item[1] === "string" ? [item[1]] : [],
  );

const clientsOf = (items: unknown): readonly (readonly [string, string])[] =>
  (Array.isArray(items) ? items : []).flatMap((item: unknown) => {
    const [, id, , extra] = Array.isArray(item) ? item : [];
    return typeof id === "string" && isObject(extra) && typeof extra.client_id === "string"
      ? [[id, extra.client_id] as const]
      : [];
  });

async function readText(response: Response, most: number): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.length;
    if (size > most) throw new TooLong(`an answer of more than ${most} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

export function createClient(url: string): Client {
  async function send(path: string, init: RequestInit, timeout_ms: number): Promise<Response> {
    const timeout = AbortSignal.timeout(timeout_ms);
    const signal = init.signal ? AbortSignal.any([init.signal, timeout]) : timeout;
    try {
      return await fetch(`${url}${path}`, { redirect: "error", ...init, signal });
    } catch (error) {
      throw new Unreachable(path.replace(/\?.*/, ""), error);
    }
  }

  async function call(path: string, init: RequestInit = {}, timeout_ms = ANSWER_MS, most = MAX_ANSWER_BYTES) {
    const response = await send(path, init, timeout_ms);
    try {
      return { status: response.status, text: await readText(response, most) };
    } catch (error) {
      if (error instanceof TooLong && most < MAX_ANSWER_BYTES) throw error;
      throw new Unreachable(path, error);
    }
  }

  const post = (path: string, body: unknown) => call(path, { method: "POST", body: JSON.stringify(body) });

  async function get(path: string, most?: number): Promise<unknown> {
    const { status, text } = await call(path, {}, ANSWER_MS, most);
    const value = parseLenient(text);
    if (status !== 200 || value === undefined) throw new Unreachable(path, `answered ${status} without JSON`);
    return value;
  }

  async function done(path: string, body: unknown): Promise<void> {
    const { status } = await post(path, body);
    if (status !== 200) throw new Unreachable(path, `answered ${status}`);
  }

  return {
    url,

    async systemStats() {
      const value = await get("/system_stats");
      const stats = isObject(value) ? value : {};
      const system = isObject(stats.system) ? stats.system : {};
      const devices = Array.isArray(stats.devices) ? stats.devices.filter(isObject) : [];
      return {
        version: textOf(system.comfyui_version) || "unknown",
        argv: Array.isArray(system.argv) ? system.argv.map(textOf) : [],
        devices: devices.map((device) => ({
          name: textOf(device.name),
          type: textOf(device.type),
          vram_total: numberOf(device.vram_total),
          vram_free: numberOf(device.vram_free),
        })),
      };
    },

    async maxUpload() {
      const { status, text } = await call("/features");
      const value = status === 200 ? parseLenient(text) : undefined;
      return isObject(value) && typeof value.max_upload_size === "number" ? value.max_upload_size : undefined;
    },

    objectInfo: () => get("/object_info"),

    async submit(graph, { prompt_id, client_id }, signal) {
      const { status, text } = await call(
        "/prompt",
        {
          method: "POST",
          // The graph's own text: parsing it here again would lose the spelling of numbers. After a 413 the connection is dead.
          body: `{"prompt_id":${JSON.stringify(prompt_id)},"client_id":${JSON.stringify(client_id)},"prompt":${graph}}`,
          headers: { connection: "close" },
          signal: signal ?? null,
        },
        SUBMIT_MS,
      );
      // A proxy's words: whether the server has the prompt is not known.
      if (status >= 502 && status <= 504) throw new Unreachable("/prompt", `answered ${status}`);
      const value = parseLenient(text);
      const body = isObject(value) ? value : {};
      if (status !== 200) return { ok: false, status, body };
      if (typeof body.prompt_id !== "string") throw new Unreachable("/prompt", "answered without a prompt_id");
      const { node_errors } = body;
      return { ok: true, prompt_id: body.prompt_id, node_errors: isObject(node_errors) ? node_errors : {} };
    },

    async history(prompt_id) {
      const value = await get(`/history/${encodeURIComponent(prompt_id)}`, MAX_HISTORY_BYTES);
      return isObject(value) ? readHistory(value[prompt_id]) : undefined;
    },

    async queue() {
      const value = await get("/queue");
      const { queue_running, queue_pending } = isObject(value) ? value : {};
      return {
        running: idsOf(queue_running),
        pending: idsOf(queue_pending),
        clients: new Map([...clientsOf(queue_running), ...clientsOf(queue_pending)]),
      };
    },

    deleteQueued: (prompt_id) => done("/queue", { delete: [prompt_id] }),
    interrupt: (prompt_id) => done("/interrupt", { prompt_id }),

    async cancel(prompt_id) {
      const { status } = await post(`/api/jobs/${encodeURIComponent(prompt_id)}/cancel`, {});
      return status === 200;
    },

    forget: (prompt_id) => done("/history", { delete: [prompt_id] }),
    free: () => done("/free", { unload_models: true, free_memory: true }),

    async upload(source, { filename, subfolder, type }, signal) {
      const form = new FormData();
      const blob = typeof source === "string" ? await openAsBlob(source) : new Blob([source]);
      form.set("image", blob, filename);
      form.set("type", type);
      form.set("overwrite", "true");
      if (subfolder !== "") form.set("subfolder", subfolder);
      const init: RequestInit = { method: "POST", body: form, headers: { connection: "close" } };
      const { status, text } = await call("/upload/image", signal ? { ...init, signal } : init, UPLOAD_MS);
      const value = parseLenient(text);
      if (status !== 200 || !isObject(value) || typeof value.name !== "string")
        throw new Unreachable("/upload/image", `answered ${status}`);
      return { filename: value.name, subfolder: textOf(value.subfolder), type };
    },

    async view({ filename, subfolder, type }, signal) {
      const query = new URLSearchParams({ filename, subfolder, type });
      const head = new AbortController();
      const timer = setTimeout(() => head.abort(new Error("timed out")), VIEW_MS);
      try {
        const stop = signal ? AbortSignal.any([signal, head.signal]) : head.signal;
        const response = await fetch(`${url}/view?${query}`, { redirect: "error", signal: stop });
        if (response.status === 200 && response.body) return response.body;
        await response.body?.cancel();
        if (response.status === 404) return undefined;
        throw new Error(`answered ${response.status}`);
      } catch (error) {
        throw new Unreachable("/view", error);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}
