import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import sharp from "sharp";
import { annotation, type Folders, isFolderType, isInside } from "./folders.ts";
import type { KnobSettings } from "./knobs.ts";
import { Trouble } from "./python-error.ts";
import { type Call, empty, type Reply } from "./reply.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".png": "image/png",
  ".jpg": "image/jpeg",
  ".jpeg": "image/jpeg",
  ".webp": "image/webp",
  ".gif": "image/gif",
  ".mp4": "video/mp4",
  ".webm": "video/webm",
  ".flac": "audio/flac",
  ".mp3": "audio/mpeg",
  ".wav": "audio/x-wav",
  ".json": "application/json",
  ".txt": "text/plain",
};

/** Served as attachments, so that no browser runs them. */
const DANGEROUS = [".html", ".htm", ".xhtml", ".svg", ".js", ".css", ".xml"];

const DEFAULT_QUALITY = 90;

/** Where the file of the query is, or the status of the refusal. */
function locate({ query }: Call, folders: Folders): string | number {
  const given = query.get("filename");
  if (given === null) return 404;
  const { name, type: annotated } = annotation(given);
  if (name === "" || name.startsWith("/") || name.includes("..")) return 400;
  const type = annotated ?? query.get("type") ?? "output";
  if (!isFolderType(type)) return 400;
  const root = folders.of(type);
  const folder = resolve(root, query.get("subfolder") ?? "");
  if (!isInside(root, folder)) return 403;
  const path = join(folder, basename(name));
  return !name.includes("\0") && existsSync(path) && statSync(path).isFile() ? path : 404;
}

/** The picture anew, without metadata, as `preview` or `channel` ask. */
async function reencoded(path: string, query: URLSearchParams): Promise<Reply | undefined> {
  const headers = { "content-disposition": `filename="${basename(path)}"` };
  const channel = query.get("channel") ?? "rgba";
  const preview = query.get("preview");
  const failed = () => {
    throw new Trouble("cannot identify image file");
  };
  const image = () => sharp(readFileSync(path), { failOn: "truncated" });
  if (preview !== null) {
    const [asked, ...more] = preview.split(";");
    const last = more.at(-1) ?? "";
    const quality = /^\d+$/.test(last) ? Math.min(100, Math.max(1, Number(last))) : DEFAULT_QUALITY;
    const format = asked === "jpeg" && !channel.replace("rgba", "").includes("a") ? "jpeg" : "webp";
    const body = await image().toFormat(format, { quality }).toBuffer().catch(failed);
    return { status: 200, headers: { ...headers, "content-type": `image/${format}` }, body };
  }
  if (channel !== "rgb" && channel !== "a") return undefined;
  const body = await (channel === "rgb" ? image().removeAlpha() : image().ensureAlpha()).png().toBuffer().catch(failed);
  return { status: 200, headers: { ...headers, "content-type": "image/png" }, body };
}

function rangeOf(
  header: string | undefined,
  size: number,
): readonly [start: number, end: number] | "unsatisfiable" | undefined {
  const found = /^bytes=(\d+)-(\d*)$/.exec(header ?? "");
  if (found === null) return undefined;
  const start = Number(found[1]);
  if (start >= size) return "unsatisfiable";
  return [start, found[2] === "" ? size - 1 : Math.min(size - 1, Number(found[2]))];
}

/** `GET /view`. */
export async function view(call: Call, folders: Folders, knobs: KnobSettings): Promise<Reply> {
  if (knobs.viewFails !== undefined) return empty(knobs.viewFails);
  const path = locate(call, folders);
  if (typeof path === "number") return empty(path);
  const again = await reencoded(path, call.query);
  if (again !== undefined) return again;
  const whole = readFileSync(path);
  const content = knobs.truncatesViews ? whole.subarray(0, whole.length >> 1) : whole;
  return served(call, path, content);
}

function served({ headers: asked }: Call, path: string, content: Buffer): Reply {
  const { mtime, size } = statSync(path);
  const extension = extname(path).toLowerCase();
  const isDangerous = DANGEROUS.includes(extension);
  const etag = `"${mtime.getTime().toString(16)}-${size.toString(16)}"`;
  const named = `filename="${basename(path)}"`;
  const headers: Record<string, string> = {
    "x-content-type-options": "nosniff",
    "content-disposition": Buffer.from(isDangerous ? `attachment; ${named}` : named).toString("latin1"),
    "content-type": isDangerous ? "application/octet-stream" : (TYPES[extension] ?? "application/octet-stream"),
    ...(isDangerous ? { vary: "Sec-Fetch-Dest", "cache-control": "no-store" } : {}),
  };
  const dated = { etag, "last-modified": mtime.toUTCString() };
  if (asked["if-none-match"] === etag) return { status: 304, headers: { ...headers, ...dated } };
  const since = Date.parse(asked["if-modified-since"] ?? "");
  if (Math.floor(mtime.getTime() / 1000) * 1000 <= since) return { status: 304, headers: { ...headers, ...dated } };
  const range = rangeOf(asked.range, content.length);
  if (range === "unsatisfiable") {
    return { status: 416, headers: { ...headers, "content-range": `bytes */${content.length}` } };
  }
  const served = { ...headers, ...dated, "accept-ranges": "bytes" };
  if (range === undefined) return { status: 200, headers: served, body: content };
  const [start, end] = range;
  const content_range = `bytes ${start}-${end}/${content.length}`;
  return {
    status: 206,
    headers: { ...served, "content-range": content_range },
    body: content.subarray(start, end + 1),
  };
}
