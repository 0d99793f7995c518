import { Random } from "../fuzz/random.ts";
import { Clock } from "./clock.ts";

/** What the simulation breaks on purpose: a died process, a failed transaction. Whoever called hears nothing more of it. */
export class Broken extends Error {
  constructor(what: string) {
    const { stackTraceLimit } = Error;
    // It is thrown often, and nobody reads where.
    Error.stackTraceLimit = 0;
    super(what);
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** One way from process to process. */
export interface Line {
  /** For the trace. */
  readonly name: string;
  /** The runner whose connection it needs. */
  readonly via?: string;
  /** From the edge to the runner: what a runner that can be heard but not reached does not get. */
  readonly inwards?: boolean;
  /** The network does not double it, as calls between objects are not doubled. */
  readonly once?: boolean;
  /** After this long the caller gives up. */
  readonly patience_ms: number;
  /** A receiver that may be frozen runs what arrives when it thaws. */
  readonly door?: (run: () => void) => void;
}

/** How likely each message meets a fault; drawn once a schedule, so that some are calm and some are storms. */
interface Weather {
  readonly lost: number;
  readonly doubled: number;
  readonly late: number;
  readonly veryLate: number;
}

const START = Date.UTC(2026, 0, 15, 12);
/** The cut that takes every runner at once. */
const EVERYBODY = "*";

/** Time, chance and a network: everything that happens is an event of one queue, in the order of a seed. */
export class World {
  /** While true, messages get lost, doubled, late and out of order, and processes die. */
  faulty = true;
  /** Events that have run. */
  steps = 0;
  /** How often each fault happened. */
  readonly faults = new Map<string, number>();
  /** Hears of every message and fault. */
  readonly tell: ((line: string) => void) | undefined;
  readonly #random: Random;
  readonly #weather: Weather;
  readonly #clock = new Clock(START);
  readonly #cut = new Map<string, number>();
  readonly #deaf = new Map<string, number>();

  constructor(seed: number, tell?: (line: string) => void) {
    this.#random = new Random(seed);
    this.tell = tell;
    const bad = [0.02, 0.1, 0.2][this.between(0, 2)] ?? 0;
    const share = () => (this.chance(0.2) ? 0 : bad * this.#random.next() * 2);
    this.#weather = { lost: share(), doubled: share(), late: share(), veryLate: share() / 10 };
  }

  get now(): number {
    return this.#clock.now;
  }

  chance = (share: number): boolean => this.#random.next() < share;
  between = (least: number, most: number): number => this.#random.int(least, most);

  /** A fault happens with this chance, and never once the faults are off. */
  fault(share: number, name: string): boolean {
    if (!this.chance(share) || !this.faulty) return false;
    this.count(name);
    return true;
  }

  count(name: string): void {
    this.faults.set(name, (this.faults.get(name) ?? 0) + 1);
  }

  note(line: string): void {
    this.tell?.(`${((this.now - START) / 1000).toFixed(3).padStart(9)}  ${line}`);
  }

  after(delay_ms: number, run: () => void): void {
    this.#clock.after(delay_ms, run);
  }

  /** Runs the next event. False: there is none. */
  step(): boolean {
    const run = this.#clock.next();
    if (!run) return false;
    this.steps++;
    try {
      run();
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
    }
    return true;
  }

  /** Nothing gets to or from this runner, or any, for a while. */
  cut(ms: number, runner = EVERYBODY): void {
    this.#cut.set(runner, this.now + ms);
  }

  /** Nothing gets to this runner, which can still be heard: for so long, whether faults are over or not. */
  deafen(ms: number, runner: string): void {
    this.#deaf.set(runner, this.now + ms);
  }

  deafUntil = (runner: string): number => this.#deaf.get(runner) ?? 0;

  #isCut({ via, inwards }: Line): boolean {
    if (via === undefined) return false;
    if (inwards && this.now < (this.#deaf.get(via) ?? 0)) return true;
    if (this.#cut.size === 0 || !this.faulty) return false;
    return this.now < (this.#cut.get(via) ?? 0) || this.now < (this.#cut.get(EVERYBODY) ?? 0);
  }

  #delay(): number {
    if (this.fault(this.#weather.veryLate, "very late")) return this.between(5_000, 25_000);
    return this.fault(this.#weather.late, "late") ? this.between(500, 4_000) : this.between(2, 60);
  }

  /** One way of one copy. */
  #travel(line: Line, arrive: () => void): void {
    if (this.#isCut(line) || this.fault(this.#weather.lost, "lost")) {
      this.note(`${line.name}   LOST`);
      return;
    }
    this.after(this.#delay(), () => {
      if (!this.#isCut(line)) arrive();
    });
  }

  /** One message without an answer: it comes once, but under faults perhaps never, twice, or late. */
  message(line: Line, run: () => void): void {
    const copies = this.fault(this.#weather.doubled, "doubled") ? 2 : 1;
    for (let i = 0; i < copies; i++)
      this.#travel(line, () => {
        this.note(line.name);
        if (line.door) line.door(run);
        else run();
      });
  }

  /**
   * A request and its answer, either of which may be lost: `answered` then gets undefined when the caller's patience ends. It is
   * called once.
   */
  call<T>(line: Line, work: () => T, answered: (value: T | undefined) => void): void {
    let over = false;
    const answer = (value: T | undefined) => {
      if (over) return;
      over = true;
      answered(value);
    };
    const arrive = () => {
      let value: T | undefined;
      try {
        value = work();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        this.note(`${line.name}   FAILED: ${error.message}`);
      }
      if (this.tell && value !== undefined) this.note(`${line.name} -> ${JSON.stringify(value)}`);
      this.#travel(line, () => answer(value));
    };
    const travel = () => this.#travel(line, () => (line.door ? line.door(arrive) : arrive()));
    this.after(line.patience_ms, () => answer(undefined));
    travel();
    if (!line.once && this.fault(this.#weather.doubled, "doubled")) travel();
  }
}
