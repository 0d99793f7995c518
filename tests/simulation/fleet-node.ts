import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import { START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import { type RosterEntry, RosterRows, type RosterStore } from "../../worker/fleet/roster.ts";
import type { FleetNews, SyncAnswer, SyncRequest } from "../../worker/fleet/sync.ts";
import { openSql } from "../account/sqlite.ts";
import { FleetRules, type IsHeld } from "./fleet-rules.ts";
import { Journal, Table } from "./undo.ts";
import { Broken, type World } from "./world.ts";

/** What of a fleet outlives its process. */
export interface FleetDisk {
  readonly roster: RosterStore;
  alarm: number | undefined;
  grace: number | undefined;
  transaction<T>(work: () => T): T;
  close(): void;
}

export function memoryFleet(): FleetDisk {
  const journal = new Journal();
  const entries = new Table<string, RosterEntry>(journal);
  const roster: RosterStore = {
    runners: () => [...entries.values()].sort((a, b) => (a.runner_id < b.runner_id ? -1 : 1)),
    putRunner: (entry) => entries.set(entry.runner_id, entry),
  };
  return { roster, alarm: undefined, grace: undefined, transaction: (work) => journal.transaction(work), close() {} };
}

export function sqliteFleet(): FleetDisk {
  const sql = openSql();
  return {
    roster: new RosterRows(sql),
    alarm: undefined,
    grace: undefined,
    transaction: (work) => sql.transaction(work),
    close: () => sql.close(),
  };
}

interface Memory {
  readonly pool: Pool;
  readonly grace_until: number;
  armedFor: number;
}

/** A fleet with the shell that its object gives it: a stored grace, an alarm, news after each message. */
export class FleetNode {
  readonly name: string;
  readonly disk: FleetDisk;
  readonly rules: FleetRules;
  readonly #world: World;
  readonly #tell: (pool: string, account: string, news: FleetNews) => void;
  #memory: Memory | undefined;
  #skew = 0;
  #ring = 0;

  constructor(
    name: string,
    disk: FleetDisk,
    world: World,
    {
      tell,
      isHeld,
    }: {
      tell: (pool: string, account: string, news: FleetNews) => void;
      isHeld: IsHeld;
    },
  ) {
    this.name = name;
    this.disk = disk;
    this.#world = world;
    this.#tell = tell;
    this.rules = new FleetRules(() => world.now, isHeld);
  }

  /** Its roster, with each write judged. */
  get #roster(): RosterStore {
    const { roster } = this.disk;
    return {
      runners: () => roster.runners(),
      putRunner: (entry) => {
        if (entry.state === "lost") {
          const all = roster.runners();
          const before = all.find(({ runner_id }) => runner_id === entry.runner_id);
          this.rules.enters(before, entry, all);
        }
        roster.putRunner(entry);
      },
    };
  }

  get now(): number {
    return this.#world.now + this.#skew;
  }

  /** The pool of the present process, for those who look. */
  get pool(): Pool {
    return this.#wake().pool;
  }

  setClock(skew_ms: number): void {
    if (skew_ms === this.#skew) return;
    this.#skew = skew_ms;
    this.rules.clockSet();
    this.#planAlarm();
  }

  /** Its memory is lost; the roster comes back with the next message or alarm. */
  evict(): void {
    this.#world.note(`${this.name} EVICTED`);
    this.#memory = undefined;
  }

  #wake(): Memory {
    if (this.#memory) return this.#memory;
    const started_at = this.now;
    // A grace that is over was another start's.
    const stored = this.disk.grace ?? 0;
    const fresh = started_at + START_GRACE_MS;
    const grace_until = stored > started_at ? Math.min(stored, fresh) : fresh;
    this.disk.grace = grace_until;
    const pool = new Pool(this.#roster, { started_at, grace_until });
    const memory: Memory = { pool, grace_until, armedFor: this.disk.alarm ?? Number.POSITIVE_INFINITY };
    this.#memory = memory;
    this.rules.begins(pool);
    this.#arm(memory);
    return memory;
  }

  run<T>(verb: (pool: Pool, now: number) => T): T {
    const world = this.#world;
    const memory = this.#wake();
    const dies = world.fault(0.001, "fleet fault");
    let value: T;
    try {
      value = this.disk.transaction(() => {
        const made = verb(memory.pool, this.now);
        if (dies) throw new Broken("the fleet died before its commit");
        return made;
      });
    } catch (error) {
      this.evict();
      throw error;
    }
    this.#arm(memory);
    const news = memory.pool.takeNews();
    for (const said of news.values()) this.rules.says(said, this.now);
    // Between its commit and its effects an object may die.
    if (world.fault(0.001, "fleet death after a commit")) {
      this.evict();
      throw new Broken("the fleet died after its commit");
    }
    for (const [account, said] of news) this.#tell(this.name, account, said);
    return value;
  }

  sync(request: SyncRequest): SyncAnswer {
    return this.run((pool, now) => {
      this.rules.hears(request);
      const answer = pool.sync(request, now);
      this.rules.says(answer, now);
      return answer;
    });
  }

  beat(runner_id: string, jkt: string, message: Heartbeat): HeartbeatAnswer | undefined {
    return this.run((pool, now) => {
      const before = pool.runners.get(runner_id)?.beat;
      const answer = pool.beat(runner_id, jkt, message, now);
      const beat = pool.runners.get(runner_id)?.beat;
      if (beat && beat !== before) this.rules.beats(runner_id, message, beat);
      return answer;
    });
  }

  #arm(memory: Memory): void {
    const next = memory.pool.nextTick(this.now);
    if (next === undefined || next >= memory.armedFor) return;
    memory.armedFor = next;
    this.disk.alarm = next;
    this.#planAlarm();
  }

  #planAlarm(): void {
    const { alarm } = this.disk;
    const ring = ++this.#ring;
    if (alarm === undefined) return;
    this.#world.after(Math.max(0, alarm - this.now) + 1, () => {
      if (ring !== this.#ring) return;
      this.disk.alarm = undefined;
      const memory = this.#wake();
      memory.armedFor = Number.POSITIVE_INFINITY;
      try {
        this.run((pool, now) => pool.tick(now));
        if (this.now >= memory.grace_until) this.disk.grace = undefined;
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        // The platform calls an alarm again that threw.
        this.disk.alarm = this.now + 2_000;
        this.#planAlarm();
      }
    });
  }
}
