import { getMimeType } from "hono/utils/mime";
import { type EngineOutput, OutputLost, type OutputKind } from "../../engine.ts";
import { pause } from "../../pause.ts";
import { compareNodeIds } from "../node-order.ts";
import { type Client, type HistoryEntry, type ServerFile, Unreachable } from "./client.ts";
import { isObject } from "./json.ts";
import { withoutPngMetadata } from "./png-metadata.ts";
import { OUTPUT_PARENT } from "./write-graph.ts";

/** One thing that a node shows: a file on the server, or a text in its answer. */
type Shown = { readonly node_id: string; readonly index: number } & (
  | { readonly file: ServerFile; readonly format?: string }
  | { readonly text: string }
);

const FOLDERS: readonly unknown[] = ["output", "temp"] satisfies ServerFile["type"][];

function fileOf(entry: unknown): { file: ServerFile; format?: string } | undefined {
  if (!isObject(entry) || typeof entry.filename !== "string" || entry.filename === "") return undefined;
  const type = entry.type ?? "output";
  if (!FOLDERS.includes(type)) return undefined;
  const subfolder = typeof entry.subfolder === "string" ? entry.subfolder : "";
  const file: ServerFile = { filename: entry.filename, subfolder, type: type === "temp" ? "temp" : "output" };
  return { file, ...(typeof entry.format === "string" ? { format: entry.format } : {}) };
}

/** Who saves a text as a file shows the same text beside it. */
const isTextFile = (shown: object): boolean =>
  "file" in shown && isObject(shown.file) && /\.(?:txt|md|json|csv)$/i.test(String(shown.file.filename));

/** Everything that a prompt's history entry shows, in order of the submitted graph's nodes. */
function shownIn({ outputs, displayNodes }: HistoryEntry): readonly Shown[] {
  const byNode = new Map<string, ({ file: ServerFile; format?: string } | { text: string })[]>();
  for (const id of Object.keys(outputs).sort(compareNodeIds)) {
    const kinds = outputs[id];
    if (!isObject(kinds)) continue;
    const node_id = displayNodes.get(id) ?? id;
    const list = byNode.get(node_id) ?? [];
    byNode.set(node_id, list);
    for (const entries of Object.values(kinds)) {
      for (const entry of Array.isArray(entries) ? entries : [entries]) {
        const file = fileOf(entry);
        if (file) list.push(file);
        else if (typeof entry === "string" && entry !== "") list.push({ text: entry });
      }
    }
  }
  for (const [node_id, list] of byNode)
    if (list.some(isTextFile))
      byNode.set(
        node_id,
        list.filter((one) => "file" in one),
      );
  return [...byNode]
    .sort(([a], [b]) => compareNodeIds(a, b))
    .flatMap(([node_id, list]) => list.map((shown, index): Shown => ({ node_id, index, ...shown })));
}

/** Whose files an entry may name. */
export interface Origin {
  /** The run's own folder below the output folder. */
  readonly folder: string;
  /** Whether a node is of a class that its operator opened with its pack. */
  isTrusted(node_id: string): boolean;
}

/**
 * Whether a file can be the run's own. What a node shows may be a name that the graph made up: ComfyUI's own classes save in the
 * run's folder; a pack's class may save beside it, and never in the folder of another run.
 */
function isOwn({ node_id, file }: { node_id: string; file: ServerFile }, { folder, isTrusted }: Origin): boolean {
  const steps = file.subfolder.split(/[/\\]/).filter((step) => step !== "" && step !== ".");
  if (steps.includes("..") || /[/\\]/.test(file.filename)) return false;
  if (file.type === "temp") return true;
  if (`${steps.join("/")}/`.startsWith(`${folder}/`)) return true;
  return isTrusted(node_id) && steps[0]?.toLowerCase() !== OUTPUT_PARENT;
}

/** All files of the run that an entry names, also those that are no outputs of the job: what is to be removed. */
export const filesIn = (entry: HistoryEntry, origin: Origin): readonly ServerFile[] =>
  shownIn(entry).flatMap((shown) => ("file" in shown && isOwn(shown, origin) ? [shown.file] : []));

const KINDS = ["image", "video", "audio", "text"] as const satisfies readonly OutputKind[];
const MEDIA_TYPE = /^[\w!#$&^.+-]{1,60}\/[\w!#$&^.+-]{1,100}$/;
/** What common output nodes write and no table of media types has. */
const OWN_TYPES: ReadonlyMap<string, string> = new Map([
  ["flac", "audio/flac"],
  ["opus", "audio/opus"],
  ["mkv", "video/x-matroska"],
  ["mov", "video/quicktime"],
  ["glb", "model/gltf-binary"],
  ["safetensors", "application/octet-stream"],
]);

function typeOf(filename: string, format: string | undefined): string {
  const ending = /\.([^.]+)$/.exec(filename)?.[1]?.toLowerCase() ?? "";
  const known = OWN_TYPES.get(ending) ?? getMimeType(filename);
  if (known) return known.replace(/;.*/, "");
  return format !== undefined && MEDIA_TYPE.test(format) ? format : "application/octet-stream";
}

const kindOf = (content_type: string): OutputKind =>
  content_type === "image/svg+xml" ? "file" : (KINDS.find((kind) => content_type.startsWith(`${kind}/`)) ?? "file");

/** Names may come from custom nodes: what a URL or a header can't hold is replaced. */
const plainName = (name: string): string => {
  const plain = name
    .toWellFormed()
    .replace(/[/\\\p{Cc}\ufffd]/gu, "_")
    .slice(-255)
    .toWellFormed()
    .replace(/\ufffd/g, "_");
  return /^\.{0,2}$/.test(plain) ? "output" : plain;
};

/** Where outputs are read. */
export interface OutputSource {
  readonly client: Client;
  /** Leave out what ComfyUI wrote about the workflow into pictures. */
  readonly strip: boolean;
  /** Between the tries at a server that does not answer. */
  readonly retry_ms: readonly number[];
}

/** Opens a file for reading; a server that does not answer is asked again, for it may be busy or in its restart. */
async function openFile(
  { client, retry_ms }: OutputSource,
  file: ServerFile,
  signal: AbortSignal | undefined,
): Promise<AsyncIterable<Uint8Array>> {
  for (let tries = 0; ; tries++) {
    try {
      const body = await client.view(file, signal);
      if (body) return body;
      // Previews go when their server starts again.
      throw new OutputLost("the engine does not have the file", { missing: file.type !== "temp" });
    } catch (error) {
      const wait = retry_ms[tries];
      if (!(error instanceof Unreachable)) throw error;
      if (wait === undefined || signal?.aborted) throw new OutputLost("the engine does not answer", { cause: error });
      await pause(wait, signal);
    }
  }
}

async function* bytesOf(
  source: OutputSource,
  file: ServerFile,
  signal: AbortSignal | undefined,
): AsyncIterable<Uint8Array> {
  const bytes = await openFile(source, file, signal);
  try {
    yield* source.strip ? withoutPngMetadata(bytes) : bytes;
  } catch (error) {
    // A file that broke off has given bytes already: it can't be begun again here.
    throw error instanceof OutputLost ? error : new OutputLost("the file broke off", { cause: error });
  }
}

/**
 * The outputs of a job: all files and texts that its nodes show; temporary files (previews) only where no other file was saved.
 */
export function outputsOf(entry: HistoryEntry, origin: Origin, source: OutputSource): readonly EngineOutput[] {
  const shown = shownIn(entry).filter((one) => !("file" in one) || isOwn(one, origin));
  const saved = shown.some((one) => "file" in one && one.file.type === "output");
  const wanted = shown.filter((one) => !saved || !("file" in one) || one.file.type === "output");
  const counts = new Map<string, number>();
  return wanted.map((one): EngineOutput => {
    const { node_id } = one;
    const index = counts.get(node_id) ?? 0;
    counts.set(node_id, index + 1);
    if ("text" in one) {
      const bytes = Buffer.from(one.text);
      const filename = plainName(`${node_id}_text_${String(index + 1).padStart(5, "0")}_.txt`);
      return {
        node_id,
        index,
        filename,
        kind: "text",
        content_type: "text/plain;charset=utf-8",
        async *open() {
          yield bytes;
        },
      };
    }
    const filename = plainName(one.file.filename);
    const content_type = typeOf(filename, one.format);
    const kind = kindOf(content_type);
    return { node_id, index, filename, kind, content_type, open: (signal) => bytesOf(source, one.file, signal) };
  });
}
