import { random } from "../schemas/random.ts";

/** Time, chance and a network for a simulation: everything that happens is an event of one queue, in the order of a seed. */
export class World {
  now = Date.UTC(2026, 0, 15, 12);
  /** While true, messages get lost, doubled, late and out of order. */
  faulty = true;
  readonly #random: () => number;
  #events: { readonly at: number; readonly n: number; readonly run: () => void }[] = [];
  #count = 0;

  constructor(seed: number) {
    this.#random = random(seed);
  }

  chance = (share: number): boolean => this.#random() < share;
  between = (least: number, most: number): number => Math.floor(least + this.#random() * (most - least + 1));
  /** A fault happens with this chance, and never once the faults are off. */
  fault = (share: number): boolean => this.chance(share) && this.faulty;

  after(delay_ms: number, run: () => void): void {
    const event = { at: this.now + delay_ms, n: ++this.#count, run };
    let i = this.#events.length;
    while (i > 0 && (this.#events[i - 1]?.at ?? 0) <= event.at) i--;
    this.#events.splice(i, 0, event);
  }

  /** Runs the next event. False: there is none. */
  step(): boolean {
    const event = this.#events.pop();
    if (!event) return false;
    this.now = event.at;
    event.run();
    return true;
  }

  #delay(): number {
    return this.fault(0.1) ? this.between(500, 4_000) : this.between(2, 60);
  }

  /** One message: it comes once, but under faults perhaps never, twice, or late. */
  message(run: () => void): void {
    const copies = this.fault(0.1) ? 0 : this.fault(0.1) ? 2 : 1;
    for (let i = 0; i < copies; i++) this.after(this.#delay(), run);
  }

  /**
   * A request and its answer, either of which may be lost: `answered` then gets undefined, after a time-out.
   * @param once the request is not repeated by the network, as calls between objects are not
   */
  call<T>(work: () => T, answered: (value: T | undefined) => void, { once = false } = {}): void {
    const unanswered = () => this.after(10_000, () => answered(undefined));
    if (!once && this.fault(0.1)) this.after(this.#delay(), () => void work());
    if (this.fault(0.1)) {
      unanswered();
      return;
    }
    this.after(this.#delay(), () => {
      const value = work();
      if (this.fault(0.1)) unanswered();
      else this.after(this.#delay(), () => answered(value));
    });
  }
}
