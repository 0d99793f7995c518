/** Simulated time: events in the order of their moment, and of their making where the moment is the same. */

interface Event {
  readonly at: number;
  readonly n: number;
  readonly run: () => void;
}

const isBefore = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.n < b.n);

export class Clock {
  now: number;
  readonly #heap: Event[] = [];
  #count = 0;

  constructor(now: number) {
    this.now = now;
  }

  at(time: number, run: () => void): void {
    const heap = this.#heap;
    const event = { at: Math.max(time, this.now), n: ++this.#count, run };
    let i = heap.length;
    heap.push(event);
    while (i > 0) {
      const above = (i - 1) >> 1;
      const parent = heap[above];
      if (!parent || !isBefore(event, parent)) break;
      heap[i] = parent;
      i = above;
    }
    heap[i] = event;
  }

  after(delay_ms: number, run: () => void): void {
    this.at(this.now + delay_ms, run);
  }

  /** Runs every event up to that moment, which is then now. */
  runUntil(end: number): void {
    for (let next = this.#heap[0]; next && next.at <= end; next = this.#heap[0]) {
      this.#takeFirst();
      this.now = next.at;
      next.run();
    }
    this.now = end;
  }

  #takeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let i = 0;
    for (;;) {
      const left = 2 * i + 1;
      let below = left;
      let child = heap[left];
      const right = heap[left + 1];
      if (child && right && isBefore(right, child)) {
        child = right;
        below = left + 1;
      }
      if (!child || !isBefore(child, last)) break;
      heap[i] = child;
      i = below;
    }
    heap[i] = last;
  }
}
