import { Tier } from "../../schemas/limits.ts";
import type { PromptNeeds } from "../../schemas/prompt.ts";
import { START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import type { FleetNews, Freed, Hold, Ticket } from "../../worker/fleet/sync.ts";
import { type Chance, stream } from "../fairness/chance.ts";
import { rosterEntry } from "../fairness/runner.ts";
import { MemoryRoster } from "../memory-roster.ts";

/** A full pool: all seats taken, every account with tickets that wait. What ends is replaced at once. */

const START = Date.UTC(2026, 0, 15, 12);
/** 200 jobs a second, and 1,000 runners that beat every 5 s. */
const STEP_MS = 5;
const STEPS_A_TICK = 2_000;

export interface Shape {
  readonly accounts: number;
  readonly tickets: number;
  readonly runners: number;
  readonly seats: number;
  /** Executions that end, and tickets that come, in one message. */
  readonly batch: number;
  readonly classes: (runner: number) => readonly string[];
  readonly needs: (chance: Chance) => PromptNeeds;
}

interface Running {
  readonly account: number;
  readonly hold: Hold;
}

/** Real milliseconds and calls, by verb. */
export interface Cost {
  ms: number;
  calls: number;
}

export interface Costs {
  readonly sync: Cost;
  readonly beat: Cost;
  readonly tick: Cost;
  readonly nextTick: Cost;
  assignments: number;
  /** Part of the round in which this thread had a processor: others' work on the same machine does not count. */
  on_cpu: number;
}

const noCost = (): Cost => ({ ms: 0, calls: 0 });

export class Load {
  readonly #shape: Shape;
  readonly #pool: Pool;
  readonly #chance: Chance = stream(1, "load");
  readonly #running: Running[][];
  /** Accounts that have something running, the next to end first. */
  readonly #order: number[] = [];
  readonly #beats: number[];
  readonly #boots: number[] = [];
  readonly #held: Map<string, Hold & { readonly account: string }>[];
  readonly #fresh: Hold[][];
  readonly #epochs: (number | undefined)[];
  #now = START;
  #jobs = 0;
  #steps = 0;
  #costs: Costs = { sync: noCost(), beat: noCost(), tick: noCost(), nextTick: noCost(), assignments: 0, on_cpu: 1 };

  constructor(shape: Shape) {
    this.#shape = shape;
    this.#pool = new Pool(new MemoryRoster(), { started_at: START - START_GRACE_MS, grace_until: START });
    const { accounts, runners, tickets } = shape;
    this.#running = Array.from({ length: accounts }, () => []);
    this.#fresh = Array.from({ length: accounts }, () => []);
    this.#epochs = Array.from({ length: accounts });
    this.#held = Array.from({ length: runners }, () => new Map());
    this.#beats = Array.from({ length: runners }, () => 0);
    for (let n = 0; n < runners; n++) {
      const id = `runner-${n}`;
      this.#pool.enrol(rosterEntry(id, shape.seats, START));
      const describe = {
        version: "1",
        engine: { name: "x", version: "1" },
        classes: [...shape.classes(n)],
        models: [],
      };
      const first = { process: `process-${n}`, seats: shape.seats, draining: false, held: [], describe };
      this.#boots[n] = this.#pool.beat(id, `jkt-${id}`, first, START)?.boot ?? 0;
    }
    for (let account = 0; account < accounts; account++) this.#say(account, [], tickets, true);
  }

  #tier = (account: number): Tier => Tier.options[account % 20 === 0 ? 2 : account % 20 < 5 ? 1 : 0] ?? "free";

  #ticket(account: number): Ticket {
    const n = ++this.#jobs;
    return {
      job: `${account}-${n}`,
      fence: 1,
      needs: this.#shape.needs(this.#chance),
      avoid: [],
      exclude: [],
      key: `k${n % 2}`,
      priority: 0,
      created_at: this.#now,
    };
  }

  #say(account: number, freed: readonly Freed[], tickets: number, full = false): void {
    const want = Array.from({ length: tickets }, () => this.#ticket(account));
    const epoch = this.#epochs[account];
    const hold = this.#fresh[account] ?? [];
    const tier = this.#tier(account);
    const request = {
      account: `account-${account}`,
      tier,
      ...(epoch === undefined ? {} : { epoch }),
      full,
      want,
      drop: [],
      freed,
      hold,
    };
    const started = performance.now();
    const answer = this.#pool.sync(request, this.#now);
    const news = this.#pool.takeNews();
    this.#costs.sync.ms += performance.now() - started;
    this.#costs.sync.calls++;
    this.#epochs[account] = answer.epoch;
    this.#fresh[account] = [];
    this.#hears(account, answer);
    for (const [name, said] of news) this.#hears(Number(name.slice("account-".length)), said);
  }

  #hears(account: number, { placed }: Pick<FleetNews, "placed">): void {
    for (const { job, fence, runner, boot } of placed) {
      const n = Number(runner.slice("runner-".length));
      const beat = { boot, n: this.#beats[n] ?? 0 };
      const hold: Hold = { job, fence, runner, boot, kind: "accepted", beat, placed_at: this.#now };
      this.#held[n]?.set(job, { ...hold, account: `account-${account}` });
      this.#running[account]?.push({ account, hold });
      this.#fresh[account]?.push(hold);
      this.#order.push(account);
      this.#costs.assignments++;
    }
  }

  /** The next executions of one account end; it says so, and wants as many new ones. */
  #ends(): void {
    // Not always the oldest: any of the first hundred.
    const at = Math.floor(this.#chance() * Math.min(100, this.#order.length));
    const account = this.#order[at];
    if (account === undefined) throw new Error("Nothing runs.");
    const running = this.#running[account] ?? [];
    const ended = running.splice(0, this.#shape.batch);
    let left = ended.length;
    for (let i = 0; left > 0 && i < this.#order.length; i++) {
      if (this.#order[i] !== account) continue;
      this.#order.splice(i--, 1);
      left--;
    }
    const fresh = new Set(ended.map(({ hold }) => hold.job));
    this.#fresh[account] = (this.#fresh[account] ?? []).filter(({ job }) => !fresh.has(job));
    const freed = ended.map(({ hold: { job, fence, runner } }): Freed => {
      this.#held[Number(runner.slice("runner-".length))]?.delete(job);
      return { job, fence, runner, outcome: "ended" };
    });
    this.#say(account, freed, freed.length);
  }

  #beat(n: number): void {
    const id = `runner-${n}`;
    const count = (this.#beats[n] ?? 0) + 1;
    this.#beats[n] = count;
    const held = [...(this.#held[n]?.values() ?? [])].map(({ account, job, fence, placed_at }) => ({
      account,
      job,
      fence,
      running_ms: this.#now - placed_at,
    }));
    const beat = { boot: this.#boots[n] ?? 0, n: count };
    const message = { beat, process: `process-${n}`, seats: this.#shape.seats, draining: false, held };
    this.#timed("beat", () => this.#pool.beat(id, `jkt-${id}`, message, this.#now));
  }

  #timed(verb: "beat" | "tick" | "nextTick", work: () => void): void {
    const started = performance.now();
    work();
    this.#costs[verb].ms += performance.now() - started;
    this.#costs[verb].calls++;
  }

  /** As many ends as that, with beats and ticks between them as at 200 jobs a second; at most so long in real time. */
  run(steps: number, most_ms: number): Costs {
    this.#costs = { sync: noCost(), beat: noCost(), tick: noCost(), nextTick: noCost(), assignments: 0, on_cpu: 1 };
    const started = performance.now();
    const before = process.threadCpuUsage();
    const until = started + most_ms;
    for (let i = 0; i < steps && performance.now() < until; i++) {
      this.#now += STEP_MS;
      this.#steps++;
      this.#beat(this.#steps % this.#shape.runners);
      this.#ends();
      if (this.#steps % 100 === 0) this.#timed("nextTick", () => this.#pool.nextTick(this.#now));
      if (this.#steps % STEPS_A_TICK === 0) this.#timed("tick", () => this.#pool.tick(this.#now));
    }
    const { user, system } = process.threadCpuUsage(before);
    this.#costs.on_cpu = Math.min(1, (user + system) / 1_000 / (performance.now() - started));
    return this.#costs;
  }
}
