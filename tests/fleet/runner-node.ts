import { expect } from "vitest";
import * as rules from "../../gpu-runner/table.ts";
import type {
  EndReport,
  Execution,
  Heartbeat,
  HeartbeatAnswer,
  ProgressReport,
} from "../../schemas/runner-protocol.ts";
import type { DispatchAnswer, EndAnswerKind, ProgressVerdict } from "../../worker/account/executions.ts";
import type { World } from "./world.ts";

/** What a runner can reach. */
export interface Edge {
  beat(runner: string, message: Heartbeat): HeartbeatAnswer | undefined;
  progress(execution: Execution, report: ProgressReport): ProgressVerdict;
  end(execution: Execution, runner: string, report: EndReport): EndAnswerKind;
}

const REFUSALS = { another_boot: "refused_boot", full: "refused_full", draining: "refused", gone: "refused" } as const;
const TIMES = { download_ms: 0, execution_ms: 1, upload_ms: 0 };

/** A toy runner: the real table of executions, an engine that only takes time, and a process that may die. */
export class RunnerNode {
  readonly id: string;
  readonly #world: World;
  readonly #edge: Edge;
  readonly #seats: number;
  /** Every execution that any runner's engine has started. */
  readonly #started: Set<string>;
  #process = 0;
  #alive = false;
  #table: rules.Table;
  #working = new Map<string, { execution: Execution; stopped: boolean }>();

  constructor(id: string, seats: number, world: World, edge: Edge, started: Set<string>) {
    this.id = id;
    this.#seats = seats;
    this.#world = world;
    this.#edge = edge;
    this.#started = started;
    this.#table = rules.emptyTable(seats);
    this.boots();
  }

  get idle(): boolean {
    return this.#alive && this.#table.held.size === 0;
  }

  boots(): void {
    if (this.#alive) return;
    this.#alive = true;
    this.#process++;
    this.#table = rules.emptyTable(this.#seats);
    this.#working = new Map();
    this.#beats();
  }

  dies(): void {
    this.#alive = false;
    this.#process++;
  }

  /** `run`, unless the process has died by then. */
  #mine<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
    const process = this.#process;
    return (...args) => {
      if (process === this.#process) run(...args);
    };
  }

  #beats(): void {
    const taken = rules.beat(this.#table, this.#world.now);
    this.#table = taken.table;
    const answered = this.#mine((answer: HeartbeatAnswer | undefined) => {
      if (answer) {
        this.#table = rules.beatAnswered(this.#table, answer.boot);
        for (const execution of answer.stop) this.stop(execution);
      }
      this.#world.after(
        answer ? 5_000 : 1_000,
        this.#mine(() => this.#beats()),
      );
    });
    this.#world.call<HeartbeatAnswer | undefined>(() => this.#edge.beat(this.id, taken.heartbeat), answered);
  }

  dispatch(order: Execution & { boot: number }): DispatchAnswer {
    if (!this.#alive) return { kind: "unknown", reason: "no connection" };
    const { table, offer } = rules.offer(this.#table, order, this.#world.now);
    this.#table = table;
    if (offer.outcome !== "accepted") return { kind: "refused", outcome: REFUSALS[offer.outcome] };
    if (!offer.repeated) this.#start(order);
    return { kind: "accepted", ...offer.accepted };
  }

  #start({ account, job, fence }: Execution): void {
    const execution = { account, job, fence };
    const name = rules.executionKey(execution);
    expect(this.#started.has(name), `${name} was started twice`).toBe(false);
    this.#started.add(name);
    this.#working.set(name, { execution, stopped: false });
    const length = this.#world.between(50, 20_000);
    this.#world.after(
      length / 2,
      this.#mine(() => this.#progresses(execution)),
    );
    this.#world.after(
      length,
      this.#mine(() => this.#ends(name)),
    );
  }

  stop(execution: Execution): void {
    if (!this.#alive) return;
    this.#table = rules.stop(this.#table, execution, this.#world.now);
    const name = rules.executionKey(execution);
    const run = this.#working.get(name);
    if (!run) return;
    run.stopped = true;
    this.#world.after(
      this.#world.between(10, 2_000),
      this.#mine(() => this.#ends(name)),
    );
  }

  #progresses(execution: Execution): void {
    const word = rules.acceptance(this.#table, execution, this.#world.now);
    if (!word) return;
    const answered = this.#mine((verdict: ProgressVerdict | undefined) => {
      if (verdict === "fenced") this.stop(execution);
    });
    this.#world.call(() => this.#edge.progress(execution, { ...word, progress: { value: 0.5 } }), answered);
  }

  #ends(name: string): void {
    const run = this.#working.get(name);
    if (!run) return;
    this.#working.delete(name);
    this.#table = rules.ended(this.#table, run.execution);
    this.#reports(run.execution, this.#outcome(run.stopped));
  }

  #outcome(stopped: boolean): (word: ProgressReport) => EndReport {
    const { chance } = this.#world;
    if (stopped) return (word) => ({ ...word, outcome: "stopped" });
    if (chance(0.05)) return (word) => ({ ...word, outcome: "handed_back" });
    const code = (["execution_failed", "engine_crashed", "out_of_memory", "stalled"] as const)[
      this.#world.between(0, 3)
    ];
    if (code && chance(0.2))
      return (word) => ({ ...word, outcome: "failed", error: { code, message: "" }, times: TIMES });
    return (word) => ({ ...word, outcome: "completed", outputs: [], times: TIMES });
  }

  /** Repeated until it is answered. */
  #reports(execution: Execution, report: (word: ProgressReport) => EndReport): void {
    const word = rules.acceptance(this.#table, execution, this.#world.now);
    if (!word) return;
    const answered = this.#mine((answer: EndAnswerKind | undefined) => {
      if (answer) this.#table = rules.acknowledged(this.#table, execution, this.#world.now);
      else this.#reports(execution, report);
    });
    this.#world.call(() => this.#edge.end(execution, this.id, report(word)), answered);
  }
}
