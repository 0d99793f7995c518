import type { FrameSize } from "./picture.ts";

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

/** The last path segment, without what could hurt in a name. */
function harmless(prefix: string): string {
  const segment = prefix.split(/[/\\]/).findLast((part) => part !== "" && part !== ".") ?? "";
  const name = shorten(segment.replace(UNWANTED, ""));
  return name === "" || name === ".." ? DEFAULT_PREFIX : name;
}

function fillIn(prefix: string, { width, height }: FrameSize, now: Date): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const words = new Map([
    ["%width%", String(width)],
    ["%height%", String(height)],
    ["%year%", String(now.getFullYear())],
    ["%month%", two(now.getMonth() + 1)],
    ["%day%", two(now.getDate())],
    ["%hour%", two(now.getHours())],
    ["%minute%", two(now.getMinutes())],
    ["%second%", two(now.getSeconds())],
  ]);
  return prefix.replace(/%\w+%/g, (word) => words.get(word) ?? word);
}

/** Names the files of one run as ComfyUI does in an empty folder: `<prefix>_<counter of 5 digits>_.png`, each name once. */
export class OutputNames {
  readonly #next = new Map<string, number>();
  readonly #used = new Set<string>();
  readonly #now: Date;

  constructor(now: Date) {
    this.#now = now;
  }

  /** @param batchIndex what `%batch_num%` stands for */
  next(prefix: string, size: FrameSize, batchIndex: number): string {
    const filled = harmless(fillIn(prefix, size, this.#now));
    const base = filled.replaceAll("%batch_num%", String(batchIndex));
    for (let counter = this.#next.get(filled) ?? 1; ; counter++) {
      const name = `${base}_${String(counter).padStart(5, "0")}_.png`;
      if (this.#used.has(name)) continue;
      this.#used.add(name);
      this.#next.set(filled, counter + 1);
      return name;
    }
  }
}
