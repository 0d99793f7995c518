import { START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import { RosterRows } from "../../worker/fleet/roster.ts";
import type { FleetNews } from "../../worker/fleet/sync.ts";
import { openSql, type TestSql } from "../account/sqlite.ts";
import { entryOf } from "./fixture.ts";
import type { World } from "./world.ts";

/** A fleet with the shell that its object gives it: a stored grace, an alarm, news after each message. */
export class FleetNode {
  pool: Pool;
  readonly #world: World;
  readonly #tell: (account: string, news: FleetNews) => void;
  readonly #sql: TestSql = openSql();
  #grace: number | undefined;
  #life = 0;
  #armedFor = Number.POSITIVE_INFINITY;

  constructor(world: World, tell: (account: string, news: FleetNews) => void, runners: readonly [string, number][]) {
    this.#world = world;
    this.#tell = tell;
    this.pool = this.#begin();
    for (const [name, max_seats] of runners) this.run((pool) => pool.enrol(entryOf(name, { max_seats })));
  }

  #begin(): Pool {
    const started_at = this.#world.now;
    this.#grace ??= started_at + START_GRACE_MS;
    return new Pool(new RosterRows(this.#sql), { started_at, grace_until: this.#grace });
  }

  /** The object dies and comes back with its roster. */
  restart(): void {
    this.#life++;
    this.#armedFor = Number.POSITIVE_INFINITY;
    this.pool = this.#begin();
    this.#arm();
  }

  close(): void {
    this.#sql.close();
  }

  run<T>(verb: (pool: Pool, now: number) => T): T {
    const value = this.#sql.transaction(() => verb(this.pool, this.#world.now));
    this.#arm();
    for (const [account, news] of this.pool.takeNews()) this.#world.message(() => this.#tell(account, news));
    return value;
  }

  #arm(): void {
    const { now } = this.#world;
    const next = this.pool.nextTick(now);
    if (next === undefined || next >= this.#armedFor) return;
    this.#armedFor = next;
    const life = this.#life;
    this.#world.after(next - now, () => {
      if (life !== this.#life) return;
      this.#armedFor = Number.POSITIVE_INFINITY;
      this.run((pool) => pool.tick(this.#world.now));
      if (this.#grace !== undefined && this.#world.now >= this.#grace) this.#grace = undefined;
    });
  }

  /** Every seat free, nobody waiting for one. */
  get idle(): boolean {
    const { runners, seats } = this.pool;
    const waiting = [...seats.clients.values()].some(({ tickets }) => tickets.size > 0);
    const taken = [...runners.values()].some(({ listed, placed }) => listed.size + placed.size > 0);
    return !waiting && !taken && seats.seated.size === 0;
  }
}
