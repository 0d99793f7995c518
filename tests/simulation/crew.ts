import { fork } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { Task } from "./crew-member.ts";
import { add, emptyTally, type Tally } from "./tally.ts";

const MEMBER = fileURLToPath(new URL("crew-member.ts", import.meta.url));

/** One process that works on tasks, one at a time. */
class Member {
  readonly #process;

  constructor(mutation: string | undefined) {
    this.#process = fork(MEMBER, mutation === undefined ? [] : [mutation], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
  }

  do(task: Task): Promise<Tally> {
    return new Promise((resolve, reject) => {
      const gone = (code: number | null) => reject(new Error(`A process of the simulation ended with ${code}.`));
      this.#process.once("exit", gone);
      this.#process.once("message", (tally) => {
        this.#process.off("exit", gone);
        resolve(tally as Tally);
      });
      this.#process.send(task);
    });
  }

  end(): void {
    if (this.#process.connected) this.#process.disconnect();
  }
}

export interface Work {
  readonly first: number;
  readonly schedules: number;
  readonly sqlite: boolean;
  /** The rule that is taken out of the product. */
  readonly mutation?: string;
  readonly members?: number;
  /** After each part of the work, with the sum so far. */
  progress?(sum: Tally): void;
}

/** Schedules for each message: about a second's work. */
const PART = 100;

/** Runs schedules on all cores until they are done or one has broken an invariant. */
export async function search({
  first,
  schedules,
  sqlite,
  mutation,
  members = availableParallelism(),
  progress,
}: Work): Promise<Tally> {
  const sum = emptyTally();
  let next = first;
  const end = first + schedules;
  const work = async () => {
    const member = new Member(mutation);
    try {
      while (next < end && sum.violations.length === 0) {
        const task: Task = { first: next, count: Math.min(PART, end - next), sqlite };
        next += task.count;
        add(sum, await member.do(task));
        progress?.(sum);
      }
    } finally {
      member.end();
    }
  };
  await Promise.all(Array.from({ length: Math.min(members, Math.ceil(schedules / PART)) }, work));
  return sum;
}
