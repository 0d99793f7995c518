/** What happens at a time; among those of the same time the one that was planned first. */
export interface Planned {
  readonly at: number;
  /** Rises with every plan. */
  readonly n: number;
  readonly run: () => void;
}

const before = (a: Planned, b: Planned): boolean => a.at < b.at || (a.at === b.at && a.n < b.n);

/** A binary heap of plans, the earliest first. */
export class Heap {
  readonly #items: Planned[] = [];

  get size(): number {
    return this.#items.length;
  }

  push(item: Planned): void {
    const items = this.#items;
    let i = items.length;
    items.push(item);
    while (i > 0) {
      const parent = (i - 1) >> 1;
      const above = items[parent];
      if (!above || before(above, item)) break;
      items[i] = above;
      i = parent;
    }
    items[i] = item;
  }

  pop(): Planned | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop();
    if (!first || !last || items.length === 0) return first;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      let lower = items[child];
      if (!lower) break;
      const right = items[child + 1];
      if (right && before(right, lower)) {
        child++;
        lower = right;
      }
      if (before(last, lower)) break;
      items[i] = lower;
      i = child;
    }
    items[i] = last;
    return first;
  }
}
