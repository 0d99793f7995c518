/** What Python writes and JSON does not have. */
const WORDS = /-?\bInfinity\b|\bNaN\b/g;

/** Whether an odd number of backslashes stands before a place. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

/** The words become null where they are no part of a string. No pattern runs over a string: they have megabytes. */
function withoutWords(text: string): string {
  let written = "";
  for (let at = 0; ; ) {
    const open = text.indexOf('"', at);
    written += text.slice(at, open < 0 ? undefined : open).replace(WORDS, "null");
    if (open < 0) return written;
    let close = open;
    do {
      close = text.indexOf('"', close + 1);
      if (close < 0) return written;
    } while (isEscaped(text, close));
    at = close + 1;
    written += text.slice(open, at);
  }
}

/**
 * Parses JSON as ComfyUI writes it: a node's own numbers may be `NaN` or `Infinity`, which become null.
 * @returns undefined for what is no JSON at all
 */
export function parseLenient(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(withoutWords(text));
    } catch {
      return undefined;
    }
  }
}

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
