import type { Beat, Heartbeat } from "../../schemas/runner-protocol.ts";
import { OUTAGE_MS, SILENCE_MS, START_GRACE_MS } from "../../worker/fleet/losses.ts";
import type { Pool } from "../../worker/fleet/pool.ts";
import type { RosterEntry } from "../../worker/fleet/roster.ts";
import { executionName, type FleetNews, type Placed, type SyncRequest, type Verdict } from "../../worker/fleet/sync.ts";
import { holds } from "./violation.ts";

/** What a fleet has truly heard of one runner, whatever its own lives have forgotten. */
interface Heard {
  /** World time of the latest beat that got through. */
  readonly at: number;
  readonly boot: number;
  readonly seats: number;
  /** Which life of the fleet heard it. */
  readonly life: number;
  /** The executions of that beat whose end was not told since. */
  readonly listed: Set<string>;
}

/** However short the grace is, a runner gets the time of one beat to be heard. */
const FIRST_BEAT_MS = 6_000;
/** Whether that process of a runner is there, connected or not, and holds the execution. */
export type IsHeld = (runner: Pick<RosterEntry, "runner_id" | "processes">, execution: string) => boolean;

/** A beat taken before an end report was acknowledged may still list what was freed (design section 5). */
const FREED_MEMORY_MS = 30_000;

/**
 * What holds of a fleet's placements and verdicts (design section 5), judged by what it was told and by what is true, not by what it
 * remembers.
 */
export class FleetRules {
  readonly #now: () => number;
  readonly #isHeld: IsHeld;
  #pool: Pool | undefined;
  /** Placements of this life, by execution: a repeat is no new placement. */
  #made = new Map<string, string>();
  /** Seated executions that nobody wants any more, and that their runner has not spoken of since. */
  readonly #dropped = new Map<string, string>();
  readonly #heard = new Map<string, Heard>();
  /** When each runner was enrolled last. */
  readonly #proven = new Map<string, number>();
  /** Ends that this life was told, and when. */
  #freed = new Map<string, number>();
  /** What accounts said to be held, and not since to have ended: a late request may say so of what has ended. */
  readonly #claimed = new Set<string>();
  #clockSetAt = Number.NEGATIVE_INFINITY;
  #life = 0;
  #beganAt = 0;
  /** A life that begins in the grace of another has no grace of its own. */
  #graceUntil = Number.NEGATIVE_INFINITY;

  constructor(now: () => number, isHeld: IsHeld) {
    this.#now = now;
    this.#isHeld = isHeld;
  }

  begins(pool: Pool): void {
    this.#pool = pool;
    this.#life++;
    this.#proven.clear();
    this.#beganAt = this.#now();
    if (this.#graceUntil <= this.#beganAt) this.#graceUntil = this.#beganAt + START_GRACE_MS;
    this.#made = new Map();
    this.#freed = new Map();
    this.#dropped.clear();
  }

  clockSet(): void {
    this.#clockSetAt = this.#now();
    // Time that has passed at once may have made seats void.
    this.#dropped.clear();
  }

  /** It was enrolled, and so has proven that it is there. */
  proves(runner_id: string): void {
    this.#proven.set(runner_id, this.#now());
  }

  /** A beat that was news. */
  beats(runner_id: string, { held, seats }: Heartbeat, { boot }: Beat): void {
    for (const one of held) this.#made.set(executionName(one), runner_id);
    for (const [name, runner] of this.#dropped) if (runner === runner_id) this.#dropped.delete(name);
    const listed = new Set(held.map(executionName).filter((name) => !this.#freed.has(name)));
    this.#heard.set(runner_id, { at: this.#now(), boot, seats, listed, life: this.#life });
  }

  /** Told to have ended so lately that a beat's word of it is old. */
  #wasFreed(name: string): boolean {
    const at = this.#freed.get(name) ?? Number.NEGATIVE_INFINITY;
    return this.#now() < at + FREED_MEMORY_MS && this.#clockSetAt < at;
  }

  hears({ want, freed, hold, drop }: SyncRequest): void {
    for (const name of drop.map(executionName)) {
      const seat = this.#pool?.seats.seated.get(name);
      if (seat) this.#dropped.set(name, seat.runner);
    }
    for (const one of freed) {
      const name = executionName(one);
      const seat = this.#pool?.seats.seated.get(name);
      // A late word about an earlier placement of the name says nothing of this one, which is held or lies elsewhere.
      if (one.outcome === "unused" && seat && (seat.beat || seat.runner !== one.runner)) continue;
      // An unused placement's fence is placed again.
      if (one.outcome !== "unused") this.#freed.set(name, this.#now());
      this.#claimed.delete(name);
      this.#made.delete(name);
      this.#heard.get(one.runner)?.listed.delete(name);
      this.#dropped.delete(name);
    }
    // Its account wants it after all, or a late request says so.
    for (const one of [...want, ...hold]) this.#dropped.delete(executionName(one));
    for (const one of hold) {
      this.#claimed.add(executionName(one));
      this.#made.set(executionName(one), one.runner);
    }
  }

  /** The news of one message, as an answer or of its own accord. */
  says({ placed, verdicts }: Pick<FleetNews, "placed" | "verdicts">, now: number): void {
    for (const verdict of verdicts) this.#judges(verdict);
    for (const one of placed) if (this.#made.get(executionName(one)) !== one.runner) this.#places(one, now);
  }

  #judges(said: Verdict): void {
    if (said.verdict !== "lost" && said.verdict !== "refused") return;
    const name = executionName(said);
    const over = this.#freed.has(name);
    holds(
      this.#claimed.has(name) || !this.#wasFreed(name),
      "what has ended by its report is not judged again",
      () => said,
    );
    for (const [runner_id, heard] of this.#heard) {
      heard.listed.delete(name);
      this.#dropped.delete(name);
      const entry = this.#pool?.runners.get(runner_id)?.entry;
      if (said.verdict !== "lost" || entry?.boot !== heard.boot || !this.#isHeld(entry, name)) continue;
      if (over) continue;
      const fresh = this.#now() < heard.at + SILENCE_MS && this.#clockSetAt < heard.at;
      const there = entry.state === "active" || entry.state === "draining";
      holds(!fresh || !there, "what a heard runner holds is not lost", () => ({ said, entry, heard }));
    }
  }

  #places(one: Placed, now: number): void {
    const name = executionName(one);
    this.#made.set(name, one.runner);
    // Unused placements are made again, and so is what a late request asks for.
    this.#freed.delete(name);
    const runner = this.#pool?.runners.get(one.runner);
    const show = () => ({ now, one, entry: runner?.entry, health: runner?.health });
    holds(runner?.entry.state === "active" && !runner.draining, "work goes to active runners only", show);
    // A clock that was set back makes a pause come again that was over.
    const over = runner.health.suspended_until <= now || this.#clockSetAt >= this.#beganAt;
    holds(over, "a suspended runner gets no work", show);
    holds(one.boot === runner.entry.boot, "a placement names its runner's present boot", show);
    const heard = this.#heard.get(one.runner);
    holds(heard?.life === this.#life, "a runner that was not heard gets no work", show);
    const taken = new Set([...heard.listed, ...runner.placed]);
    for (const [dropped, on] of this.#dropped)
      if (on === one.runner && this.#isHeld(runner.entry, dropped)) taken.add(dropped);
    const seats = Math.min(heard.seats, runner.entry.max_seats);
    holds(taken.size <= seats, "a seat is free when its runner says so", () => [...taken]);
  }

  /** A runner's entry is written. Nobody is lost out of ignorance, nor because the edge was out (design section 9). */
  enters(before: RosterEntry | undefined, after: RosterEntry, all: readonly RosterEntry[]): void {
    if (after.state !== "lost" || before?.state === "lost") return;
    const now = this.#now();
    // The beats of a life and its clock's settings can't be told apart afterwards.
    if (this.#clockSetAt >= now - OUTAGE_MS - SILENCE_MS) return;
    const show = () => ({ after, silence: this.#silence(after), beganAt: this.#beganAt, graceUntil: this.#graceUntil });
    holds(this.#silence(after) >= SILENCE_MS, "a runner is lost after 15 s of silence, or after the grace", show);
    const judged = all.filter(({ state }) => state === "active" || state === "draining");
    const silent = judged.filter((entry) => this.#silence(entry) >= SILENCE_MS);
    const outage = silent.length >= 3 && silent.length > judged.length / 3;
    if (outage) holds(this.#silence(after) >= OUTAGE_MS + SILENCE_MS, "nobody is lost in an outage of all", show);
  }

  /** How long a runner has been silent; one that this life has not heard is silent for 15 s when the grace ends. */
  #silence({ runner_id }: RosterEntry): number {
    const heard = this.#heard.get(runner_id);
    const at = Math.max(heard?.life === this.#life ? heard.at : 0, this.#proven.get(runner_id) ?? 0);
    const graceUntil = Math.max(this.#graceUntil, this.#beganAt + FIRST_BEAT_MS);
    return this.#now() - (at > 0 ? at : graceUntil - SILENCE_MS);
  }
}
