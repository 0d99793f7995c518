export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json;
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const NOT_JSON: ReadonlyMap<string, number> = new Map([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
]);

const MARK = "\u0000";

/** Python's `json.loads`: also takes NaN and Infinity. Throws a SyntaxError where Python throws a JSONDecodeError. */
export function loads(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    const marked = text.replaceAll(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (token) =>
      NOT_JSON.has(token) ? `"\\u0000${token}"` : token,
    );
    if (marked === text) throw error;
    return JSON.parse(marked, (_, value: unknown) =>
      typeof value === "string" && value.startsWith(MARK) ? NOT_JSON.get(value.slice(1)) : value,
    ) as Json;
  }
}

const quote = (text: string): string =>
  JSON.stringify(text).replaceAll(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Python's `json.dumps`: ASCII only, a space after commas and colons, and bare NaN and Infinity. */
export function dumps(value: Json): string {
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return `[${value.map(dumps).join(", ")}]`;
  if (isObject(value)) {
    const members = Object.entries(value).map(([key, member]) => `${quote(key)}: ${dumps(member)}`);
    return `{${members.join(", ")}}`;
  }
  return String(value);
}

/** Python's `str` of a value, as it stands in error messages. */
export function str(value: Json): string {
  return typeof value === "string" ? value : repr(value);
}

export function repr(value: Json): string {
  if (value === null) return "None";
  if (typeof value === "string") return `'${value}'`;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  return `{${Object.entries(value)
    .map(([key, member]) => `${repr(key)}: ${repr(member)}`)
    .join(", ")}}`;
}
