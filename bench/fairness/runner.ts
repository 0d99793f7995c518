import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import type { RosterEntry } from "../../worker/fleet/roster.ts";
import type { Clock } from "../../tests/simulation/clock.ts";
import { type Chance, between } from "./chance.ts";

/** Longer than the 5 s that the fleet asks for, to save the simulator's time, and well within the 15 s of silence. */
const BEAT_MS = 10_000;
/** How long an engine needs to stop. */
const STOP_MS = { least: 200, most: 3_000 };
export const CLASSES = ["CheckpointLoaderSimple", "KSampler", "SaveImage"];

interface Held {
  readonly account: string;
  readonly job: string;
  readonly fence: number;
  readonly started_at: number;
  /** Called once, when the engine is idle again. */
  readonly ends: () => void;
}

export const rosterEntry = (runner_id: string, max_seats: number, now: number): RosterEntry => ({
  runner_id,
  name: runner_id,
  url: `https://${runner_id}.example`,
  public_jwk: { kty: "OKP", crv: "Ed25519", x: runner_id },
  jkt: `jkt-${runner_id}`,
  max_seats,
  state: "active",
  boot: 0,
  enrolled_at: now,
});

/** A runner that never fails: what it is given runs as long as it must, and its beats tell the truth. */
export class SimRunner {
  readonly id: string;
  readonly seats: number;
  boot = 0;
  n = 0;
  /** Models of its latest executions, one a seat: those are loaded. */
  readonly #loaded: string[] = [];
  readonly #held = new Map<string, Held>();
  readonly #clock: Clock;
  readonly #chance: Chance;
  readonly #beat: (message: Heartbeat) => HeartbeatAnswer | undefined;

  constructor(
    id: string,
    seats: number,
    parts: { clock: Clock; chance: Chance; beat: (message: Heartbeat) => HeartbeatAnswer | undefined },
  ) {
    this.id = id;
    this.seats = seats;
    this.#clock = parts.clock;
    this.#chance = parts.chance;
    this.#beat = parts.beat;
  }

  /** The first beat of its process; the others follow at a phase of their own. */
  boots(): void {
    const answer = this.#beat({
      process: `process-${this.id}`,
      seats: this.seats,
      draining: false,
      held: [],
      describe: { version: "1", engine: { name: "simulated", version: "1" }, classes: CLASSES, models: [] },
    });
    this.boot = answer?.boot ?? 0;
    this.#clock.after(between(this.#chance, 0, BEAT_MS), () => this.#beats());
  }

  #beats(): void {
    const { now } = this.#clock;
    this.n++;
    const answer = this.#beat({
      beat: { boot: this.boot, n: this.n },
      process: `process-${this.id}`,
      seats: this.seats,
      draining: false,
      held: [...this.#held.values()].map(({ account, job, fence, started_at }) => ({
        account,
        job,
        fence,
        running_ms: Math.max(0, now - started_at),
      })),
    });
    for (const { job } of answer?.stop ?? []) this.stop(job);
    this.#clock.after(BEAT_MS, () => this.#beats());
  }

  get free(): boolean {
    return this.#held.size < this.seats;
  }

  /**
   * Takes an execution for `length_ms`. `ends` is told when its engine is idle again.
   * @returns whether its model was loaded
   */
  takes(
    execution: { account: string; job: string; fence: number },
    model: string,
    length_ms: number,
    ends: () => void,
  ): boolean {
    const held = { ...execution, started_at: this.#clock.now, ends };
    this.#held.set(execution.job, held);
    const warm = this.#loaded.includes(model);
    this.#loaded.push(model);
    if (this.#loaded.length > this.seats) this.#loaded.shift();
    this.#clock.after(length_ms, () => this.#ends(held));
    return warm;
  }

  #ends(held: Held): void {
    if (this.#held.get(held.job) !== held) return;
    this.#held.delete(held.job);
    held.ends();
  }

  /** Its engine stops, in its own time. */
  stop(job: string): void {
    const held = this.#held.get(job);
    if (held) this.#clock.after(between(this.#chance, STOP_MS.least, STOP_MS.most), () => this.#ends(held));
  }
}
