import * as rules from "../../gpu-runner/table.ts";
import type { Execution, Heartbeat, HeartbeatAnswer, RunnerDescription } from "../../schemas/runner-protocol.ts";
import type { DispatchAnswer } from "../../worker/account/executions.ts";
import type { Edge, Order } from "./edge.ts";
import { Run, type StopReason } from "./run.ts";
import { holds } from "./violation.ts";
import type { World } from "./world.ts";

const REFUSALS = {
  another_boot: "refused_boot",
  full: "refused_full",
  draining: "refused_full",
  gone: "refused",
} as const;

/** As gpu-runner/timings.ts and heartbeat.ts have them. */
const BEAT_RETRY_MS = 1_000;
const HAND_BACK_MS = 10_000;
const LAST_WORDS_MS = 1_000;

/** What outlives a runner's process: where it is, and as whom it is enrolled. */
export interface Machine {
  readonly name: string;
  readonly pool: string;
  /** The most. */
  readonly seats: number;
  readonly classes: readonly string[];
  /** Changes with an enrolment after a revocation. */
  runner_id: string;
}

/** A runner: the real table of executions, an engine that only takes time, and a process that dies, freezes and drains. */
export class RunnerNode {
  readonly machine: Machine;
  readonly edge: Edge;
  readonly world: World;
  /** Every execution that any engine has started, and where. */
  readonly #started: Map<string, string>;
  #process = 0;
  #alive = false;
  #bootedAt = 0;
  #frozenUntil = 0;
  #table: rules.Table;
  #runs = new Map<string, Run>();
  /** What this process was told to stop. */
  #stops = new Set<string>();
  #describe = true;
  /** What its engine says of itself now; outlives the process. */
  #seats: number;
  #classes: readonly string[];
  #beating = false;
  #nudged = false;
  /** Which pause between two beats this is: a nudge ends it. */
  #pause = 0;
  #draining = false;
  /** Set while a drain waits for the last run. */
  #whenIdle: (() => void) | undefined;

  constructor(machine: Machine, world: World, edge: Edge, started: Map<string, string>) {
    this.machine = machine;
    this.world = world;
    this.edge = edge;
    this.#started = started;
    this.#seats = machine.seats;
    this.#classes = machine.classes;
    this.#table = rules.emptyTable(machine.seats, "");
  }

  get alive(): boolean {
    return this.#alive;
  }

  get idle(): boolean {
    return !this.#alive || (this.#table.held.size === 0 && this.#runs.size === 0);
  }

  /** The name of its process, as its beats have it. */
  get process(): string {
    return this.#table.process;
  }

  /** World time since which this process has been able to answer. */
  get reachableSince(): number {
    return Math.max(this.#bootedAt, this.#frozenUntil, this.world.deafUntil(this.machine.name));
  }

  get held(): string[] {
    return this.#alive ? [...this.#table.held.keys()] : [];
  }

  /** Its own clock, which no one sets. */
  get now(): number {
    return this.world.now - this.#bootedAt;
  }

  boots(): void {
    if (this.#alive) return;
    this.world.note(`${this.machine.name} BOOTS`);
    this.#alive = true;
    this.#draining = false;
    this.#beating = false;
    this.#describe = true;
    this.#whenIdle = undefined;
    this.#process++;
    this.#bootedAt = this.world.now;
    const table = rules.emptyTable(this.machine.seats, `${this.machine.name}-${this.#process}`);
    this.#table = rules.setSeats(table, this.#seats);
    this.#runs = new Map();
    this.#stops = new Set();
    this.#beats();
  }

  dies(): void {
    if (!this.#alive) return;
    this.world.note(`${this.machine.name} DIES`);
    this.#alive = false;
    this.#process++;
  }

  /** For so long it does nothing; then it goes on as if nothing had been. */
  freezes(ms: number): void {
    this.world.note(`${this.machine.name} FREEZES for ${ms} ms`);
    this.#frozenUntil = Math.max(this.#frozenUntil, this.world.now + ms);
  }

  /** Its engine has another number of seats from now on: servers of it are sick, or well again. */
  engineHas(seats: number): void {
    this.world.note(`${this.machine.name} HAS ${seats} seats`);
    this.#seats = seats;
    if (!this.#alive) return;
    this.door(() => {
      this.#table = rules.setSeats(this.#table, this.#seats);
      this.#nudge();
    });
  }

  /** Its engine can run other classes from now on. */
  engineKnows(classes: readonly string[]): void {
    this.world.note(`${this.machine.name} KNOWS ${classes.join(", ")}`);
    this.#classes = classes;
    if (!this.#alive) return;
    this.door(() => {
      this.#describe = true;
      this.#nudge();
    });
  }

  /** `run`, when it is not frozen, unless the process has died by then. */
  mine<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
    const process = this.#process;
    const door = (...args: A): void => {
      if (process !== this.#process) return;
      const { now } = this.world;
      if (now < this.#frozenUntil) this.world.after(this.#frozenUntil - now, () => door(...args));
      else run(...args);
    };
    return door;
  }

  later(delay_ms: number, run: () => void): void {
    this.world.after(delay_ms, this.mine(run));
  }

  /** What arrives for a dead process is lost; for a frozen one it waits. */
  door = (run: () => void): void => this.mine(run)();

  // The heartbeat: one request at a time.

  #nudge(): void {
    if (this.#beating) this.#nudged = true;
    else this.#beats();
  }

  #beats(leaving = false): void {
    if (this.#beating && !leaving) return;
    this.#beating = true;
    this.#nudged = false;
    this.#pause++;
    const taken = rules.beat(this.#table, this.now);
    this.#table = taken.table;
    const heartbeat: Heartbeat = { ...taken.heartbeat };
    if (this.#describe || !heartbeat.beat) heartbeat.describe = this.#description;
    if (leaving) heartbeat.leaving = true;
    const said = this.#classes;
    const answered = this.mine((answer: HeartbeatAnswer | "revoked" | undefined) => {
      this.#beating = false;
      if (answer === "revoked") {
        this.dies();
        return;
      }
      if (leaving) return;
      if (answer) this.#hears({ ...answer, describe: answer.describe || said !== this.#classes });
      const pause = ++this.#pause;
      if (this.#nudged) this.#beats();
      else
        this.later(answer ? answer.next_in_ms : BEAT_RETRY_MS, () => {
          if (pause === this.#pause) this.#beats();
        });
    });
    this.edge.beat(this, heartbeat, answered);
  }

  get #description(): RunnerDescription {
    return {
      version: "1",
      engine: { name: "embedded", version: "1" },
      classes: [...this.#classes],
      models: [],
    };
  }

  #hears({ boot, stop, describe, drain }: HeartbeatAnswer): void {
    this.#describe = describe;
    this.#table = rules.beatAnswered(this.#table, boot);
    for (const execution of stop) this.stop(execution, "stopped");
    if (drain) this.drains();
  }

  // Executions.

  dispatch(order: Order): DispatchAnswer {
    const { world } = this;
    if (world.now >= order.expires_at) return { kind: "refused", outcome: "strike" };
    const { table, offer } = rules.offer(this.#table, order, this.now);
    this.#table = table;
    if (offer.outcome !== "accepted") return { kind: "refused", outcome: REFUSALS[offer.outcome] };
    if (!offer.repeated) this.#starts(order);
    return { kind: "accepted", ...offer.accepted };
  }

  #starts(order: Order): void {
    const { account, job, fence } = order;
    const execution = { account, job, fence };
    const name = rules.executionKey(execution);
    const by = `${this.machine.name}, process ${this.#process}`;
    const before = this.#started.get(name);
    holds(before === undefined, "no fence is started twice", () => `${name} by ${before} and by ${by}`);
    holds(!this.#stops.has(name), "what was stopped before it came does not start", () => `${name} by ${by}`);
    this.#started.set(name, by);
    const run = new Run(order, this, {
      accepted: () => rules.acceptance(this.#table, execution, this.now),
      engineIdle: () => {
        this.#table = rules.ended(this.#table, execution);
      },
      settled: (nudge) => {
        this.#runs.delete(name);
        this.#table = rules.acknowledged(this.#table, execution, this.now);
        if (nudge) this.#nudge();
        if (this.#runs.size === 0) this.#whenIdle?.();
      },
    });
    this.#runs.set(name, run);
    let working = 0;
    for (const one of this.#runs.values()) if (one.engineWorks) working++;
    holds(working <= this.#table.seats, "a runner takes no more than its engine has seats", () => by);
  }

  stop(execution: Execution, reason: StopReason): void {
    if (reason === "stopped") this.#stops.add(rules.executionKey(execution));
    if (reason === "stopped") this.#table = rules.stop(this.#table, execution, this.now);
    this.#runs.get(rules.executionKey(execution))?.stop(reason);
  }

  // The end in order.

  /** SIGTERM: nothing new, time for what runs, the rest given back, a last beat, and the process is gone. */
  drains(): void {
    if (!this.#alive || this.#draining) return;
    this.world.note(`${this.machine.name} DRAINS`);
    this.#draining = true;
    this.#table = rules.drain(this.#table);
    this.#nudge();
    const within = (ms: number, then: () => void) => {
      let over = false;
      const next = this.mine(() => {
        if (over) return;
        over = true;
        this.#whenIdle = undefined;
        then();
      });
      this.#whenIdle = next;
      if (this.#runs.size === 0) next();
      else this.world.after(ms, next);
    };
    within(this.world.between(0, 20_000), () => {
      for (const run of [...this.#runs.values()]) run.stop("handed_back");
      within(HAND_BACK_MS, () => {
        for (const run of [...this.#runs.values()]) run.abandon();
        within(LAST_WORDS_MS, () => {
          this.#beats(true);
          this.later(LAST_WORDS_MS, () => this.dies());
        });
      });
    });
  }
}
