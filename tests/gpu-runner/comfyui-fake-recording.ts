import { readFileSync } from "node:fs";
import { join } from "node:path";
import { isObject, type Json, type JsonObject } from "../fakes/comfyui/python-json.ts";
import type { SeenMessage } from "./comfyui-fake-normal.ts";

/*
 * The recordings were made with ComfyUI 0.33.0 on a machine without a GPU. Cut out of them are clocks, the bytes of
 * pictures, tracebacks, the text of tensors and repeated refusals of a dead server's port. In `upload` the recorder had
 * changed its request objects after sending them: there the graphs are those of the history.
 */

export interface RecordedPart {
  readonly name: string;
  readonly value?: string;
  readonly filename?: string;
  readonly content_type?: string;
  readonly base64?: string;
  readonly text?: string;
}

/** A request and its reply; without a method something done outside the protocol. */
export interface RecordedHttp {
  readonly seq: number;
  readonly case?: string;
  readonly outside?: string;
  readonly method?: string;
  readonly path?: string;
  readonly request_headers?: Readonly<Record<string, string>>;
  readonly request_body?: Json;
  readonly status?: number;
  readonly response_headers?: Readonly<Record<string, string>>;
  readonly response_body?: Json;
  readonly error?: string;
}

export interface RecordedMessage {
  readonly seq: number;
  readonly client: string;
  readonly type?: string;
  readonly data?: JsonObject;
  readonly binary?: string;
  readonly image_type?: string;
  readonly metadata?: JsonObject;
  readonly event?: string;
  readonly path?: string;
  readonly code?: number | null;
  readonly how?: string;
  readonly sent?: Json;
  readonly sent_text?: string;
}

export interface Recording {
  readonly scenario: string;
  readonly notes: string;
  readonly http: readonly RecordedHttp[];
  readonly ws: readonly RecordedMessage[];
}

export function readRecording<Shape = Recording>(name: string): Shape {
  const url = new URL(`../fakes/comfyui/recordings/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8")) as Shape;
}

export const isMessage = ({ type, binary }: RecordedMessage): boolean => type !== undefined || binary !== undefined;

export function recordedMessage({ type, data, binary, image_type, metadata }: RecordedMessage): SeenMessage {
  if (type !== undefined) return { type, data: data ?? null };
  return { type: binary ?? "", data: metadata ?? image_type ?? null };
}

/** The outputs of a prompt in the order in which the recorder's server took them up; empty where that was not shown. */
export function recordedOutputs({ http }: Recording, prompt_id: string): readonly string[] {
  const found: string[][] = [];
  const look = (value: Json): void => {
    if (Array.isArray(value) && value.length === 5 && value[1] === prompt_id) found.push(value[4] as string[]);
    else if (Array.isArray(value)) value.forEach(look);
    else if (isObject(value)) Object.values(value).forEach(look);
  };
  for (const { response_body } of http) look(response_body ?? null);
  return found[0] ?? [];
}

/** Files that earlier scenarios had left: a recorded counter goes on from them. */
export function earlierFiles(recording: Recording): string[] {
  const lowest = new Map<string, number>();
  for (const [, name = "", counter = "", subfolder = ""] of JSON.stringify(recording).matchAll(
    /"filename":"([^"]+)_(\d{5})_\.\w+","subfolder":"([^"]*)","type":"output"/g,
  )) {
    const prefix = join(subfolder, name);
    lowest.set(prefix, Math.min(lowest.get(prefix) ?? Number.POSITIVE_INFINITY, Number(counter)));
  }
  return [...lowest]
    .filter(([, counter]) => counter > 1)
    .map(([prefix, counter]) => `${prefix}_${String(counter - 1).padStart(5, "0")}_.png`);
}

/** The number of the first prompt: how far the recorder's server had counted. */
export function firstNumber({ http }: Recording): number {
  for (const { response_body } of http) {
    if (isObject(response_body) && typeof response_body.number === "number") return response_body.number;
  }
  return 0;
}

/** Requests before the first numbered one that count too. */
export function countedBefore({ http }: Recording): number {
  const first = http.findIndex(
    ({ response_body }) => isObject(response_body) && typeof response_body.number === "number",
  );
  return http.slice(0, Math.max(0, first)).filter(({ method, path, request_body }) => {
    const isPrompt = method === "POST" && path === "/prompt";
    return isPrompt && isObject(request_body) && request_body.number === undefined;
  }).length;
}
