import fc from "fast-check";
import { expect, test } from "vitest";
import { RankedHeap } from "../../worker/fleet/ranked-heap.ts";

interface Item {
  readonly name: number;
  rank: number;
}

test("the first is always the least, whatever comes, goes and changes its rank", () => {
  const step = fc.tuple(fc.constantFrom("put", "rank", "delete"), fc.nat(20), fc.nat(100));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const heap = new RankedHeap<Item>((a, b) => a.rank < b.rank);
      const items = Array.from({ length: 21 }, (_, name): Item => ({ name, rank: 0 }));
      const inside = new Set<Item>();
      for (const [what, n, rank] of steps) {
        const item = items[n];
        if (!item) continue;
        if (what === "delete") {
          heap.delete(item);
          inside.delete(item);
        } else if (what === "put" || inside.has(item)) {
          item.rank = rank;
          heap.put(item);
          inside.add(item);
        }
        expect(heap.size).toBe(inside.size);
        expect(heap.peek()?.rank).toBe(inside.size === 0 ? undefined : Math.min(...[...inside].map((one) => one.rank)));
        const near = heap.near(({ rank: one }) => one <= 50, 100);
        expect(new Set(near)).toEqual(new Set([...inside].filter((one) => one.rank <= 50)));
      }
    }),
  );
});
