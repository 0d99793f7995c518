/** File systems take 255 bytes; the counter and the ending need some of them. */
const MAX_PREFIX_BYTES = 200;
const DEFAULT_PREFIX = "ComfyUI";
/** Control characters, line separators, halves of surrogate pairs, and marks that turn the direction of the text. */
const UNWANTED = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

function shorten(text: string): string {
  let bytes = 0;
  let kept = "";
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    if (bytes > MAX_PREFIX_BYTES) break;
    kept += character;
  }
  return kept;
}

/** The start of an output's file name: the last path segment of a graph's `filename_prefix`, without what could hurt in a name. */
export function harmlessPrefix(prefix: string): string {
  const segment = prefix.split(/[/\\]/).findLast((part) => part !== "" && part !== ".") ?? "";
  const name = shorten(segment.replace(UNWANTED, ""));
  return name === "" || name === ".." ? DEFAULT_PREFIX : name;
}
