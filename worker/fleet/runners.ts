import { HEALTHY } from "./health.ts";
import { RankedHeap } from "./ranked-heap.ts";
import type { RosterEntry } from "./roster.ts";
import { isActive, isExcluded, isOpen, type Kind, type Runner, seatsOf, seatsTaken } from "./runner-state.ts";
import type { Ticket } from "./sync.ts";

/**
 * The runners of a pool, and who of them is open for what, kept up to date with each change (design section 5, "Choice of
 * runner"). Memory only; pure.
 */

interface Group {
  /** Runners of the kind that take new work, the least loaded first. */
  readonly open: RankedHeap<Runner>;
  /** Those that belong to the pool's capacity, open or not. */
  readonly active: Set<Runner>;
}

/** Warm runners that are looked at for one ticket. */
const MAX_WARM = 32;

/** Who offers no seat now is loaded beyond measure, whatever it still runs. */
function load(runner: Runner): number {
  const seats = seatsOf(runner);
  return seats === 0 ? Number.POSITIVE_INFINITY : seatsTaken(runner) / seats;
}

/** How many of a ticket's models a runner would have to load. */
export function coldModels(runner: Runner, { needs }: Ticket): number {
  return needs.models.filter((model) => !runner.warm.some((models) => models.includes(model))).length;
}

export class Runners {
  readonly #all = new Map<string, Runner>();
  readonly #kinds = new Map<string, Kind>();
  readonly #groups = new Map<Kind, Group>();
  /** Open runners by the models that they ran last. */
  readonly #warm = new Map<string, Set<Runner>>();
  /** What each runner adds to the capacity, and under which models it is found. */
  readonly #counted = new Map<Runner, { readonly seats: number; readonly models: readonly string[] }>();
  #capacity = 0;
  readonly #newKind: () => void;

  /** @param newKind told when a kind of runner appears that was not there before */
  constructor(newKind: () => void) {
    this.#newKind = newKind;
  }

  get(runner_id: string): Runner | undefined {
    return this.#all.get(runner_id);
  }

  values(): IterableIterator<Runner> {
    return this.#all.values();
  }

  kinds(): IterableIterator<Kind> {
    return this.#kinds.values();
  }

  /** Seats of all active runners. */
  get capacity(): number {
    return this.#capacity;
  }

  admit(entry: RosterEntry): Runner {
    const runner: Runner = {
      entry,
      kind: this.#kindOf(entry.description?.classes ?? []),
      seen_at: 0,
      seats: entry.max_seats,
      draining: false,
      listed: new Map(),
      placed: new Set(),
      refusing: false,
      health: HEALTHY,
      warm: [],
    };
    this.#all.set(entry.runner_id, runner);
    return runner;
  }

  #kindOf(classes: readonly string[]): Kind {
    const sorted = [...new Set(classes)].sort();
    const key = sorted.join("\n");
    const known = this.#kinds.get(key);
    if (known) return known;
    const kind: Kind = { id: this.#kinds.size, classes: new Set(sorted) };
    this.#kinds.set(key, kind);
    this.#groups.set(kind, { open: new RankedHeap<Runner>((a, b) => load(a) < load(b)), active: new Set() });
    this.#newKind();
    return kind;
  }

  /** It has described itself anew. Followed by `changed`. */
  describe(runner: Runner, classes: readonly string[]): void {
    this.#leave(runner);
    runner.kind = this.#kindOf(classes);
  }

  #leave(runner: Runner): void {
    const group = this.#groups.get(runner.kind);
    group?.open.delete(runner);
    group?.active.delete(runner);
  }

  /** Anything that decides whether it is open, or how loaded, has changed. */
  changed(runner: Runner, now: number): void {
    const group = this.#groups.get(runner.kind);
    if (!group) return;
    const active = isActive(runner);
    const open = isOpen(runner, now);
    if (active) group.active.add(runner);
    else group.active.delete(runner);
    if (open) group.open.put(runner);
    else group.open.delete(runner);
    const before = this.#counted.get(runner);
    const counted = { seats: active ? seatsOf(runner) : 0, models: open ? runner.warm.flat() : [] };
    this.#capacity += counted.seats - (before?.seats ?? 0);
    for (const model of before?.models ?? []) this.#warm.get(model)?.delete(runner);
    for (const model of counted.models) {
      const there = this.#warm.get(model) ?? new Set();
      this.#warm.set(model, there.add(runner));
    }
    for (const model of before?.models ?? []) if (this.#warm.get(model)?.size === 0) this.#warm.delete(model);
    this.#counted.set(runner, counted);
  }

  /** Whether any runner of these kinds is open. */
  isOpen(kinds: Iterable<Kind>): boolean {
    for (const kind of kinds) if ((this.#groups.get(kind)?.open.size ?? 0) > 0) return true;
    return false;
  }

  /** Whether an active runner of these kinds may serve the ticket, be it free or not. */
  isServable(kinds: Iterable<Kind>, ticket: Ticket): boolean {
    for (const kind of kinds) {
      const active = this.#groups.get(kind)?.active ?? [];
      for (const runner of active) if (!isExcluded(runner, ticket)) return true;
    }
    return false;
  }

  /** The best of the open runners: not avoided while another is open, then warm, then the least loaded. */
  choose(kinds: ReadonlySet<Kind>, ticket: Ticket): Runner | undefined {
    const warm = this.#warmest(kinds, ticket, ticket.avoid);
    if (warm) return warm;
    return this.#leastLoaded(kinds, ticket, ticket.avoid) ?? this.#avoided(kinds, ticket);
  }

  /** Only those that the ticket avoids are left. */
  #avoided(kinds: ReadonlySet<Kind>, ticket: Ticket): Runner | undefined {
    return ticket.avoid.length === 0
      ? undefined
      : (this.#warmest(kinds, ticket, []) ?? this.#leastLoaded(kinds, ticket, []));
  }

  #leastLoaded(kinds: ReadonlySet<Kind>, ticket: Ticket, avoid: readonly string[]): Runner | undefined {
    let best: Runner | undefined;
    for (const kind of kinds) {
      const open = this.#groups.get(kind)?.open;
      if (!open) continue;
      // Those that it may not have stand aside for a moment.
      const aside: Runner[] = [];
      let first = open.peek();
      while (first && (isExcluded(first, ticket) || avoid.includes(first.entry.runner_id))) {
        aside.push(first);
        open.delete(first);
        first = open.peek();
      }
      for (const runner of aside) open.put(runner);
      if (first && (!best || load(first) < load(best))) best = first;
    }
    return best;
  }

  /** Of the open runners that have some of its models, the one that would have to load the fewest others. */
  #warmest(kinds: ReadonlySet<Kind>, ticket: Ticket, avoid: readonly string[]): Runner | undefined {
    let best: Runner | undefined;
    let bestCold = ticket.needs.models.length;
    let looked = 0;
    for (const model of ticket.needs.models) {
      for (const runner of this.#warm.get(model) ?? []) {
        if (++looked > MAX_WARM) return best;
        if (!kinds.has(runner.kind) || isExcluded(runner, ticket) || avoid.includes(runner.entry.runner_id)) continue;
        const cold = coldModels(runner, ticket);
        if (cold > bestCold || (cold === bestCold && (!best || load(runner) >= load(best)))) continue;
        best = runner;
        bestCold = cold;
      }
    }
    return best;
  }

  /** It runs these models now: as many placements are remembered as it has seats. */
  warms(runner: Runner, models: readonly string[]): void {
    if (models.length > 0) runner.warm = [...runner.warm, models].slice(-Math.max(1, seatsOf(runner)));
  }
}
