/** One range of bytes of a `Range` header. Several, or a malformed one, are ignored, as HTTP allows. */

export interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** The range asked for; "unsatisfiable" where the bytes end before it; undefined where all is to be sent. */
export function byteRange(header: string | undefined, size: number): ByteRange | "unsatisfiable" | undefined {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (first === "" && last === "") return undefined;
  if (first === "") {
    const length = Math.min(Number(last), size);
    return length === 0 ? "unsatisfiable" : { offset: size - length, length };
  }
  const offset = Number(first);
  if (last !== "" && Number(last) < offset) return undefined;
  if (offset >= size) return "unsatisfiable";
  return { offset, length: Math.min(last === "" ? size : Number(last) + 1, size) - offset };
}
