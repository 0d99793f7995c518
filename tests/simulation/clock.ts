import { RankedHeap } from "../../worker/fleet/ranked-heap.ts";

interface Event {
  readonly at: number;
  /** Rises with every event. */
  readonly n: number;
  readonly run: () => void;
}

/** Simulated time: events in the order of their moment, and of their making where the moment is the same. */
export class Clock {
  now: number;
  readonly #events = new RankedHeap<Event>((a, b) => a.at < b.at || (a.at === b.at && a.n < b.n));
  #count = 0;

  constructor(now: number) {
    this.now = now;
  }

  at(time: number, run: () => void): void {
    this.#events.put({ at: Math.max(time, this.now), n: ++this.#count, run });
  }

  after(delay_ms: number, run: () => void): void {
    this.at(this.now + delay_ms, run);
  }

  /** Takes out the next event up to that moment, for the caller to run; its moment is now. Undefined: there is none. */
  next(end = Number.POSITIVE_INFINITY): (() => void) | undefined {
    const event = this.#events.peek();
    if (!event || event.at > end) return undefined;
    this.#events.delete(event);
    this.now = event.at;
    return event.run;
  }

  /** Runs every event up to that moment, which is then now. */
  runUntil(end: number): void {
    for (let run = this.next(end); run; run = this.next(end)) run();
    this.now = end;
  }
}
