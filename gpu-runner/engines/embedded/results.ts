import type { Picture } from "./picture.ts";
import type { PixelBudget } from "./pixel-budget.ts";
import type { Plan, PlannedNode } from "./plan.ts";

/**
 * The pictures that nodes have returned and others still need. A picture goes back to the budget with its last reader; one
 * that several nodes returned (a node may hand its input on) when the last of those is done with.
 */
export class Results {
  readonly #pictures = new Map<string, Picture>();
  readonly #readers = new Map<string, number>();
  readonly #holders = new Map<Picture, number>();
  readonly #budget: PixelBudget;

  constructor(plan: Plan, budget: PixelBudget) {
    this.#budget = budget;
    for (const { links } of plan) {
      for (const from of links.values()) this.#readers.set(from, (this.#readers.get(from) ?? 0) + 1);
    }
  }

  /** The pictures that a node reads, by input name. */
  of({ links }: PlannedNode): ReadonlyMap<string, Picture> {
    const pictures = new Map<string, Picture>();
    for (const [field, from] of links) {
      const picture = this.#pictures.get(from);
      if (picture) pictures.set(field, picture);
    }
    return pictures;
  }

  /** Takes a node's picture, and gives back what nobody reads any more. */
  finish({ id, links }: PlannedNode, picture: Picture): void {
    this.#pictures.set(id, picture);
    this.#holders.set(picture, (this.#holders.get(picture) ?? 0) + 1);
    for (const from of links.values()) {
      const left = (this.#readers.get(from) ?? 0) - 1;
      this.#readers.set(from, left);
      if (left === 0) this.#drop(from);
    }
    if (!this.#readers.has(id)) this.#drop(id);
  }

  #drop(id: string): void {
    const picture = this.#pictures.get(id);
    if (!picture) return;
    this.#pictures.delete(id);
    const holders = (this.#holders.get(picture) ?? 0) - 1;
    if (holders > 0) this.#holders.set(picture, holders);
    else {
      this.#holders.delete(picture);
      this.#budget.release(picture);
    }
  }
}
