import type { RosterEntry, RosterStore } from "../worker/fleet/roster.ts";

/** A roster that is stored nowhere. */
export class MemoryRoster implements RosterStore {
  readonly #entries = new Map<string, RosterEntry>();
  runners = (): RosterEntry[] => [...this.#entries.values()];
  putRunner = (entry: RosterEntry): void => void this.#entries.set(entry.runner_id, entry);
}
