import { fileTypeFromBuffer } from "file-type";
import type { InputKind } from "./inputs.ts";

export interface ContentType {
  readonly content_type: string;
  /** Without a dot, lower case. */
  readonly extension: string;
  /** What a file of this type can be used as. */
  readonly kinds: readonly InputKind[];
}

/** So many bytes from the start of a file decide its type. */
export const HEAD_BYTES = 4096;

const type = (content_type: string, extension: string, ...kinds: InputKind[]): ContentType => ({
  content_type,
  extension,
  kinds: [...kinds, "any"],
});

/** What ComfyUI's loader opens as a picture. HEIC and JPEG XL are pictures that it does not. */
const PICTURES = new Set([
  "image/png",
  "image/apng",
  "image/jpeg",
  "image/webp",
  "image/gif",
  "image/avif",
  "image/bmp",
  "image/tiff",
]);
/** Pictures that may move, taken for videos too. */
const MOVING = new Set(["image/gif", "image/apng", "image/webp"]);

function kindsOf(content_type: string): readonly InputKind[] {
  const kinds: InputKind[] = [];
  if (PICTURES.has(content_type)) kinds.push("image");
  if (MOVING.has(content_type) || content_type.startsWith("video/")) kinds.push("video");
  // A video's container may carry sound.
  if (/^(?:audio|video)\//.test(content_type)) kinds.push("audio");
  return kinds;
}

/** The pages that are sent instead of a file: a text has no mark of its own that a library would know. */
function markupOf(head: Uint8Array): ContentType | undefined {
  const text = Buffer.from(head)
    .toString()
    .replace(/^\ufeff/, "")
    .trimStart();
  if (/^<(?:!doctype html|html|head|body)\b/i.test(text)) return type("text/html", "html");
  return /^<(?:svg|\?xml)\b/i.test(text) && text.includes("<svg") ? type("image/svg+xml", "svg") : undefined;
}

/**
 * Tells the type of a file from its first HEAD_BYTES (or all of it, where it has fewer), whatever it is called. What is unknown is
 * `application/octet-stream`, `bin`.
 */
export async function contentTypeOf(bytes: Uint8Array): Promise<ContentType> {
  const head = bytes.subarray(0, HEAD_BYTES);
  const markup = markupOf(head);
  if (markup) return markup;
  const found = await fileTypeFromBuffer(head);
  if (!found) return type("application/octet-stream", "bin");
  // Codecs stand behind a semicolon, as in `audio/ogg; codecs=opus`.
  const content_type = found.mime.replace(/;.*/, "");
  return type(content_type, found.ext, ...kindsOf(content_type));
}
