import { randomUUID } from "node:crypto";
import type { Execution, Heartbeat, Order } from "../schemas/runner-protocol.ts";
import type { Log } from "./log.ts";
import type { Run, RunEnd, RunHost } from "./run.ts";
import * as rules from "./table.ts";

/** The runner's executions: the table, and the runs behind its rows. Every verb is one synchronous turn. */
export interface Executions {
  /** Accepts and starts an execution, or says why not. A repeat of a held one is answered the same and starts nothing. */
  offer(order: Omit<Order, "prompt">, prompt: string): rules.Offer;
  /** Interrupts the execution, or remembers that it must not start. */
  stop(execution: Execution): void;
  /** The next beat. */
  beat(): Heartbeat;
  beatAnswered(boot: number): void;
  /** Nothing new from now on. */
  drain(): void;
  /** The most seats that the enrolment allows. */
  limitSeats(allowed: number): void;
  /** As many seats as the engine has now. The edge hears of a change at once. */
  setSeats(seats: number): void;
  /** Interrupts what still runs and gives it back. */
  handBack(): void;
  /** Stops repeating what the edge does not answer. */
  abandon(): void;
  /** Resolves when no run is left. */
  idle(): Promise<void>;
}

export interface ExecutionsOptions {
  /** The most at a time, and as many as are offered until `setSeats` says otherwise. */
  readonly seats: number;
  start(order: Omit<Order, "prompt">, prompt: string, host: Pick<RunHost, "accepted" | "engineIdle">): Run;
  /** The edge should hear at once: an execution left the table without a result, or another number of seats is offered. */
  seatsChanged(): void;
  readonly log: Log;
  /** Monotonic milliseconds. */
  readonly now?: () => number;
}

export function createExecutions({
  seats,
  start,
  seatsChanged,
  log,
  now = () => performance.now(),
}: ExecutionsOptions): Executions {
  let table = rules.emptyTable(seats, randomUUID());
  const runs = new Map<string, Run>();

  function settled(execution: Execution, end: RunEnd): void {
    runs.delete(rules.executionKey(execution));
    table = rules.acknowledged(table, execution, now());
    log.info(`execution ${execution.job}.${execution.fence} ended: ${end.outcome}, report ${end.acknowledgement}`);
    if (end.outcome !== "completed" && end.outcome !== "failed") seatsChanged();
  }

  return {
    offer(order, prompt) {
      const answered = rules.offer(table, order, now());
      table = answered.table;
      const { account, job, fence } = order;
      const execution = { account, job, fence };
      if (answered.offer.outcome !== "accepted") {
        log.info(`execution ${job}.${fence} refused: ${answered.offer.outcome}`);
      } else if (!answered.offer.repeated) {
        log.info(`execution ${job}.${fence} accepted for ${account}`);
        const run = start(order, prompt, {
          accepted: () => rules.acceptance(table, execution, now()),
          engineIdle: () => {
            table = rules.ended(table, execution);
          },
        });
        runs.set(rules.executionKey(order), run);
        void run.settled.then((end) => settled(execution, end));
      }
      return answered.offer;
    },
    stop(execution) {
      table = rules.stop(table, execution, now());
      runs.get(rules.executionKey(execution))?.stop("stopped");
    },
    beat() {
      const taken = rules.beat(table, now());
      table = taken.table;
      return taken.heartbeat;
    },
    beatAnswered(boot) {
      table = rules.beatAnswered(table, boot);
    },
    drain() {
      table = rules.drain(table);
    },
    limitSeats(allowed) {
      table = rules.limitSeats(table, allowed);
    },
    setSeats(seats) {
      const before = table.seats;
      table = rules.setSeats(table, seats);
      if (table.seats === before) return;
      log.info(`the engine offers ${table.seats} of ${table.most_seats} seats`);
      seatsChanged();
    },
    handBack() {
      for (const run of runs.values()) run.stop("handed_back");
    },
    abandon() {
      for (const run of runs.values()) run.abandon();
    },
    async idle() {
      while (runs.size > 0) await Promise.all([...runs.values()].map((run) => run.settled));
    },
  };
}
