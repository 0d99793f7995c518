/** An error may repeat megabytes of its graph: of so much, no more than the beginning is ever shown. */
const MAX_SCRUBBED = 16_384;

const QUOTED_PATH = /(["'`])(?:[~.]{0,2}[\\/]|[A-Za-z]:[\\/])(?:(?!\1)[^\n])*\1/g;
const FILE_URL = /\bfile:\/\/[^\s'"`<>]*/gi;
/** A slash that no URL and no fraction can own begins it. Folders may have spaces in their names, where a slash follows soon. */
const POSIX_PATH =
  /(?<![\w~\\/]|:(?=\/\/))(?:~|\.{1,2})?(?:\/+[^\s'"`<>|:;,()[\]{}/]+(?:(?: [^\s'"`<>|:;,()[\]{}/]+){1,2}(?=\/))?)+\/?/g;
const WINDOWS_PATH =
  /(?<!\w)(?:[A-Za-z]:[\\/]|\\\\)[^\s'"`<>|;,()[\]{}]*(?:(?: [^\s'"`<>|:;,()[\]{}\\/]+){1,2}[\\/][^\s'"`<>|;,()[\]{}]*)*/g;
/** Of an object in memory, as Python shows it; error codes and colours are shorter. */
const MEMORY_ADDRESS = /\b0x[0-9a-f]{9,16}\b/gi;
const PRIVATE_ADDRESS =
  /(?<![\d.])(?:(?:127|10)\.\d{1,3}|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))(?:\.\d{1,3}){2}(?![\d.]*\d)(?::\d+)?/g;

/** A path without its folders. */
export const lastPart = (path: string): string =>
  path
    .replace(/[\\/]+$/, "")
    .split(/[\\/]/)
    .at(-1) ?? "";

/**
 * A stranger's share of the host's words: paths become their last part, addresses go, names of this run become what their author
 * knows them as. Only the beginning of a long text is given back.
 * @param known replacement by text
 */
export function scrub(text: string, known: ReadonlyMap<string, string> = new Map()): string {
  let words = text
    .slice(0, MAX_SCRUBBED)
    .replace(FILE_URL, "a file")
    .replace(QUOTED_PATH, (path, quote: string) => {
      const last = lastPart(path.slice(1, -1));
      return last === "" ? path : `${quote}${last}${quote}`;
    })
    .replace(WINDOWS_PATH, lastPart)
    .replace(POSIX_PATH, lastPart)
    .replace(MEMORY_ADDRESS, "0x…")
    .replace(PRIVATE_ADDRESS, "an address");
  for (const [name, meaning] of known) words = words.replaceAll(name, () => meaning);
  return words;
}

/** At most so many bytes of UTF-8, cut between characters. */
export function shorten(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  let end = Math.min(text.length, bytes);
  while (Buffer.byteLength(text.slice(0, end)) > bytes - 3) end -= 1;
  return `${text.slice(0, end).toWellFormed()}…`;
}
