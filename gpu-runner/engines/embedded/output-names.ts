import { harmlessPrefix } from "../output-prefix.ts";
import type { FrameSize } from "./picture.ts";

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
    const filled = harmlessPrefix(fillIn(prefix, size, this.#now));
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
