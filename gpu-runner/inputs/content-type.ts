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

const UNKNOWN = type("application/octet-stream", "bin");
const GIF = type("image/gif", "gif", "image", "video");
const MP3 = type("audio/mpeg", "mp3", "audio");
const AAC = type("audio/aac", "aac", "audio");
const AVIF = type("image/avif", "avif", "image");
const HEIC = type("image/heic", "heic");
const MP4 = type("video/mp4", "mp4", "video", "audio");
const QUICKTIME = type("video/quicktime", "mov", "video", "audio");
const OGG_AUDIO = type("audio/ogg", "ogg", "audio");
const OGG_VIDEO = type("video/ogg", "ogv", "video", "audio");

/** What a file begins with; here and below one character stands for one byte. */
const BEGINNINGS: readonly (readonly [bytes: string, type: ContentType])[] = [
  ["\x89PNG\r\n\x1a\n", type("image/png", "png", "image")],
  ["\xff\xd8\xff", type("image/jpeg", "jpg", "image")],
  ["GIF87a", GIF],
  ["GIF89a", GIF],
  ["II*\0", type("image/tiff", "tif", "image")],
  ["MM\0*", type("image/tiff", "tif", "image")],
  ["fLaC", type("audio/flac", "flac", "audio")],
  ["ID3", MP3],
  ["#!AMR", type("audio/amr", "amr", "audio")],
  ["FLV\x01", type("video/x-flv", "flv", "video", "audio")],
  ["\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", type("video/x-ms-asf", "asf", "video", "audio")],
  ["\0\0\x01\xba", type("video/mpeg", "mpg", "video", "audio")],
  ["%PDF-", type("application/pdf", "pdf")],
  ["PK\x03\x04", type("application/zip", "zip")],
  ["\x1f\x8b\x08", type("application/gzip", "gz")],
];

/** By the brand of an ISO base media file, trailing blanks dropped. */
const BRANDS = new Map<string, ContentType>([
  ...["avif", "avis"].map((brand) => [brand, AVIF] as const),
  ...["heic", "heix", "heim", "heis", "hevc", "hevx"].map((brand) => [brand, HEIC] as const),
  ...["M4A", "M4B", "M4P", "F4A"].map((brand) => [brand, type("audio/mp4", "m4a", "audio")] as const),
  ...["3gp4", "3gp5", "3gp6", "3g2a", "3g2b"].map((b) => [b, type("video/3gpp", "3gp", "video", "audio")] as const),
  ["qt", QUICKTIME],
  ...["isom", "iso2", "iso3", "iso4", "iso5", "iso6", "iso7", "iso8", "iso9", "mp41", "mp42", "avc1", "dash"].map(
    (brand) => [brand, MP4] as const,
  ),
  ...["M4V", "M4VH", "F4V", "MSNV", "XAVC", "mmp4"].map((brand) => [brand, MP4] as const),
]);

/** The major brand decides, and where it is of no use the first compatible one that is. */
function isoMediaType(head: string): ContentType | undefined {
  if (["moov", "mdat", "wide"].includes(head.slice(4, 8))) return QUICKTIME;
  if (head.slice(4, 8) !== "ftyp") return undefined;
  const end = Math.min(head.length, Buffer.from(head.slice(0, 4), "latin1").readUInt32BE());
  for (let at = 8; at + 4 <= end; at += 4) {
    const found = at === 12 ? undefined : BRANDS.get(head.slice(at, at + 4).trimEnd());
    if (found) return found;
  }
  return undefined;
}

function riffType(head: string): ContentType | undefined {
  const form = head.slice(8, 12);
  if (head.startsWith("FORM") && (form === "AIFF" || form === "AIFC")) return type("audio/aiff", "aiff", "audio");
  if (!head.startsWith("RIFF") && !head.startsWith("RF64")) return undefined;
  if (form === "WAVE") return type("audio/wav", "wav", "audio");
  if (form === "AVI ") return type("video/x-msvideo", "avi", "video", "audio");
  if (form !== "WEBP") return undefined;
  const animated = head.slice(12, 16) === "VP8X" && (head.charCodeAt(20) & 2) !== 0;
  return type("image/webp", "webp", "image", ...(animated ? (["video"] as const) : []));
}

function oggType(head: string): ContentType | undefined {
  if (!head.startsWith("OggS")) return undefined;
  const packet = head.slice(27 + head.charCodeAt(26), 128);
  return packet.startsWith("\x80theora") || packet.startsWith("fishead\0") ? OGG_VIDEO : OGG_AUDIO;
}

/** The element 0x4282 of the header spells the kind of document. */
function matroskaType(head: string): ContentType | undefined {
  if (!head.startsWith("\x1a\x45\xdf\xa3")) return undefined;
  const document = /\x42\x82[\x80-\xff](webm|matroska)/.exec(head.slice(0, 128))?.[1];
  if (document === "webm") return type("video/webm", "webm", "video", "audio");
  return document === undefined ? undefined : type("video/x-matroska", "mkv", "video", "audio");
}

/** Sound without a container begins with a frame: eleven set bits, then codes of which some mean nothing. */
function frameType(head: string): ContentType | undefined {
  const [first = 0, second = 0, third = 0] = Buffer.from(head.slice(0, 3), "latin1");
  if (first !== 0xff || head.length < 3) return undefined;
  if ((second & 0xf6) === 0xf0) return AAC;
  const layer = (second >> 1) & 3;
  const meaningful = (second & 0x18) !== 0x08 && third >> 4 !== 0 && third >> 4 !== 15 && (third & 0x0c) !== 0x0c;
  return (second & 0xe0) === 0xe0 && (layer === 1 || layer === 2) && meaningful ? MP3 : undefined;
}

/** Types with a beginning too short to stand alone. */
function weakType(head: string): ContentType | undefined {
  const headers = [12, 40, 52, 56, 64, 108, 124];
  if (head.startsWith("BM") && headers.includes(head.charCodeAt(14)) && head.slice(15, 18) === "\0\0\0")
    return type("image/bmp", "bmp", "image");
  const packets = [0, 188, 376].every((at) => head[at] === "G");
  return packets ? type("video/mp2t", "ts", "video", "audio") : undefined;
}

/** The pages that are sent instead of a file. */
function markupType(head: string): ContentType | undefined {
  const text = head.replace(/^\xef\xbb\xbf/, "").trimStart();
  if (/^<(!doctype html|html|head|body)\b/i.test(text)) return type("text/html", "html");
  return /^<(svg|\?xml)\b/i.test(text) && text.includes("<svg") ? type("image/svg+xml", "svg") : undefined;
}

/**
 * Tells the type of a file from its first HEAD_BYTES (or all of it, where it has fewer), whatever it is called. No length in the
 * bytes is followed beyond them, so hostile ones cost no more than others. What is unknown is `application/octet-stream`, `bin`.
 */
export function contentTypeOf(bytes: Uint8Array): ContentType {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString("latin1");
  const beginning = BEGINNINGS.find(([bytes]) => head.startsWith(bytes));
  if (beginning) return beginning[1];
  for (const typeOf of [isoMediaType, riffType, oggType, matroskaType, frameType, weakType, markupType]) {
    const found = typeOf(head);
    if (found) return found;
  }
  return UNKNOWN;
}
