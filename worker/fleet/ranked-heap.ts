/** A binary heap whose members may change their rank or leave: each of that costs O(log n). */
export class RankedHeap<T> {
  readonly #items: T[] = [];
  readonly #at = new Map<T, number>();
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  has(item: T): boolean {
    return this.#at.has(item);
  }

  /** The first of all; undefined where there is none. */
  peek(): T | undefined {
    return this.#items[0];
  }

  /** Adds it, or puts it where its rank belongs now. */
  put(item: T): void {
    const at = this.#at.get(item) ?? this.#items.length;
    this.#items[at] = item;
    this.#rise(at, item);
    this.#sink(this.#at.get(item) ?? at, item);
  }

  delete(item: T): void {
    const at = this.#at.get(item);
    if (at === undefined) return;
    this.#at.delete(item);
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[at] = last;
    this.#rise(at, last);
    this.#sink(this.#at.get(last) ?? at, last);
  }

  /** Up to `count` members for which `isNear` holds, in no order. It must hold for whatever goes before one for which it holds. */
  near(isNear: (item: T) => boolean, count: number): T[] {
    const found: T[] = [];
    const look = [0];
    for (let next = look.shift(); next !== undefined && found.length < count; next = look.shift()) {
      const item = this.#items[next];
      if (item === undefined || !isNear(item)) continue;
      found.push(item);
      look.push(2 * next + 1, 2 * next + 2);
    }
    return found;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  #rise(from: number, item: T): void {
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = this.#items[above];
      if (parent === undefined || !this.#isBefore(item, parent)) break;
      this.#set(at, parent);
      at = above;
    }
    this.#set(at, item);
  }

  #sink(from: number, item: T): void {
    let at = from;
    for (;;) {
      let below = 2 * at + 1;
      let child = this.#items[below];
      if (child === undefined) break;
      const right = this.#items[below + 1];
      if (right !== undefined && this.#isBefore(right, child)) {
        child = right;
        below++;
      }
      if (!this.#isBefore(child, item)) break;
      this.#set(at, child);
      at = below;
    }
    this.#set(at, item);
  }

  #set(at: number, item: T): void {
    this.#items[at] = item;
    this.#at.set(item, at);
  }
}
