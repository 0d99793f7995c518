import { takeOut } from "./take-out.ts";
import { add, emptyTally } from "./tally.ts";

/** A process of the simulation: runs the schedules that it is sent, with the rule of its first argument taken out of the product. */

export interface Task {
  readonly first: number;
  readonly count: number;
  readonly sqlite: boolean;
}

const [, , mutation] = process.argv;
const isOut = mutation === undefined ? undefined : takeOut(mutation);
// The product is loaded only now, so that what is taken out was never there.
const { trySeed } = await import("./search.ts");
if (isOut?.() === false) throw new Error(`The file of ${mutation} was not loaded.`);

process.on("message", (message) => {
  const { first, count, sqlite } = message as Task;
  const sum = emptyTally();
  for (let seed = first; seed < first + count && sum.violations.length === 0; seed++)
    add(sum, trySeed(seed, { sqlite }));
  process.send?.(sum);
});
