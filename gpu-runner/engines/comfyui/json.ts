/** Strings, so that their content is passed over, and the words that Python writes and JSON does not have. */
const STRING_OR_WORD = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g;

/**
 * Parses JSON as ComfyUI writes it: a node's own numbers may be `NaN` or `Infinity`, which become null.
 * @returns undefined for what is no JSON at all
 */
export function parseLenient(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    try {
      return JSON.parse(text.replace(STRING_OR_WORD, (match) => (match.startsWith('"') ? match : "null")));
    } catch {
      return undefined;
    }
  }
}

export type Json = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
