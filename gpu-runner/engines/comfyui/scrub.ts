const QUOTED_PATH = /(['"`])(?:\/|~\/|[A-Za-z]:[\\/]|\\\\)[^'"`\n]*?([^'"`\\/\n]*)\1/g;
const FILE_URL = /\bfile:\/\/[^\s'"`<>]*/gi;
/** A slash that no URL and no fraction can own begins it. */
const POSIX_PATH = /(?<![\w.:/\\~-])(?:~|\.{1,2})?(?:\/[^\s'"`<>|:;,()[\]{}/]+)+\/?/g;
const WINDOWS_PATH = /(?<![\w])(?:[A-Za-z]:[\\/]|\\\\)[^\s'"`<>|;,()[\]{}]*/g;

const lastPart = (path: string): string =>
  path
    .replace(/[\\/]+$/, "")
    .split(/[\\/]/)
    .at(-1) ?? "";

/**
 * A stranger's share of the host's words: absolute paths become their last part, names of this run become what their author
 * knows them as.
 * @param known replacement by text
 */
export function scrub(text: string, known: ReadonlyMap<string, string> = new Map()): string {
  let words = text
    .replace(FILE_URL, "a file")
    .replace(QUOTED_PATH, (_path, quote: string, last: string) => `${quote}${last}${quote}`)
    .replace(WINDOWS_PATH, lastPart)
    .replace(POSIX_PATH, lastPart);
  for (const [name, meaning] of known) words = words.replaceAll(name, meaning);
  return words;
}

/** At most so many bytes of UTF-8, cut between characters. */
export function shorten(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  let end = Math.min(text.length, bytes);
  while (Buffer.byteLength(text.slice(0, end)) > bytes - 3) end -= 1;
  return `${text.slice(0, end).toWellFormed()}…`;
}
