/**
 * A look at JSON bytes before they become objects: how many values, how deep, and where one member of the outermost object
 * lies. It allocates nothing that grows with the input. It does not validate: whatever parses afterwards does.
 */

export interface JsonBounds {
  readonly maxValues: number;
  readonly maxDepth: number;
}

export type JsonScan =
  | { readonly ok: true; readonly span?: readonly [start: number, end: number] }
  | { readonly ok: false; readonly reason: "too_many_values" | "too_deep" };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const isOpen = (c: number): boolean => c === 0x7b || c === 0x5b;
const isClose = (c: number): boolean => c === 0x7d || c === 0x5d;
const isSpace = (c: number): boolean => c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09;

function endOfString(bytes: Uint8Array, start: number): number {
  let i = start + 1;
  while (i < bytes.length && bytes[i] !== QUOTE) i += bytes[i] === BACKSLASH ? 2 : 1;
  return Math.min(i + 1, bytes.length);
}

function isKey(bytes: Uint8Array, start: number, end: number, name: string): boolean {
  try {
    return JSON.parse(new TextDecoder().decode(bytes.subarray(start, end))) === name;
  } catch {
    return false;
  }
}

/**
 * Scans a JSON text. `member` names a member of the outermost object whose value's byte range is wanted; of duplicates the
 * last, which is also the one that JSON.parse keeps. The range has no surrounding white space.
 */
export function scanJson(bytes: Uint8Array, bounds: JsonBounds, member?: string): JsonScan {
  let values = 1;
  let depth = 0;
  let empty = false;
  let key: [number, number] | undefined;
  let wanted = false;
  let start = -1;
  let end = -1;
  let span: [number, number] | undefined;
  for (let i = 0; i < bytes.length; ) {
    const c = bytes[i] as number;
    if (isSpace(c)) {
      i++;
      continue;
    }
    const closes = isClose(c);
    if (empty && !closes) values++;
    empty = false;
    if (wanted && depth === 1 && (c === COMMA || closes)) {
      if (start >= 0) span = [start, end];
      wanted = false;
    }
    if (wanted && start < 0) start = i;
    let next = i + 1;
    if (c === QUOTE) {
      next = endOfString(bytes, i);
      if (depth === 1 && !wanted) key = [i, next];
    } else if (isOpen(c)) {
      if (++depth > bounds.maxDepth) return { ok: false, reason: "too_deep" };
      empty = true;
    } else if (closes) {
      depth--;
    } else if (c === COMMA) {
      values++;
    } else if (c === COLON && depth === 1 && member !== undefined && key && !wanted) {
      wanted = isKey(bytes, key[0], key[1], member);
      start = -1;
    }
    if (values > bounds.maxValues) return { ok: false, reason: "too_many_values" };
    end = next;
    i = next;
  }
  return span ? { ok: true, span } : { ok: true };
}
