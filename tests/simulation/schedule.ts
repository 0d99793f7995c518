import type { Tier } from "../../schemas/limits.ts";
import type { DispatchAnswer } from "../../worker/account/executions.ts";
import type { FleetNews } from "../../worker/fleet/sync.ts";
import type { RosterEntry } from "../../worker/fleet/roster.ts";
import { type AccountDisk, memoryDisk, sqliteDisk } from "./account-disk.ts";
import type { Reach } from "./account-calls.ts";
import { AccountNode } from "./account-node.ts";
import { Bucket } from "./bucket.ts";
import { Clients } from "./clients.ts";
import { Edge, orderOf } from "./edge.ts";
import { type FleetDisk, FleetNode, memoryFleet, sqliteFleet } from "./fleet-node.ts";
import { planFaults } from "./faults.ts";
import { judgeEnd, judgeLook, unrest } from "./rest.ts";
import type { IsHeld } from "./fleet-rules.ts";
import { type Machine, RunnerNode } from "./runner-node.ts";
import { Violation } from "./violation.ts";
import { Webhooks } from "./webhooks.ts";
import { World } from "./world.ts";

/** Longer than any queue time and suspension of a schedule, and shorter than a lease: what only the last deadline ends is not healed. */
export const REST_WITHIN_MS = 8 * 60_000;
const LOOK_EVERY_MS = 1_000;
/** A call between objects that broke says so sooner or later. */
const RPC_MS = 10_000;
const DISPATCH_MS = 3_000;

export interface Setting {
  readonly sqlite?: boolean;
  readonly tell?: (line: string) => void;
}

/** One deployment under one seed: accounts, pools, runners, clients, and what breaks. */
export class Schedule {
  readonly world: World;
  readonly bucket = new Bucket();
  readonly accounts = new Map<string, AccountNode>();
  readonly fleets = new Map<string, FleetNode>();
  /** By name. */
  readonly runners = new Map<string, RunnerNode>();
  readonly clients: Clients;
  /** How long things break. */
  readonly faults_ms: number;
  /** Executions that runners hold, and since when nobody wants them. */
  readonly unwanted = new Map<string, number>();
  readonly #disks: (AccountDisk | FleetDisk)[] = [];
  #jobs = 0;

  constructor(seed: number, { sqlite = false, tell }: Setting = {}) {
    const world = new World(seed, tell);
    this.world = world;
    world.faulty = false;
    this.faults_ms = world.between(15, 60) * 1000;
    const pools = world.chance(0.4) ? ["default", "east"] : ["default"];
    const keep = <D extends AccountDisk | FleetDisk>(disk: D): D => {
      this.#disks.push(disk);
      return disk;
    };
    for (const pool of pools) {
      const disk = keep(sqlite ? sqliteFleet() : memoryFleet());
      this.fleets.set(pool, new FleetNode(pool, disk, world, { tell: this.#tells, isHeld: this.#isHeld }));
    }
    const edge = new Edge(world, this.bucket, { account: this.account, fleet: this.fleet });
    const started = new Map<string, string>();
    const count = world.between(1, world.chance(0.3) ? 5 : 3);
    for (let n = 0; n < count; n++) {
      const machine: Machine = {
        name: `runner-${n}`,
        runner_id: `runner-${n}`,
        pool: pools[n % pools.length] ?? "default",
        seats: world.between(1, 3),
        classes: world.chance(0.6) ? ["SaveImage", "Rare"] : ["SaveImage"],
      };
      const runner = new RunnerNode(machine, world, edge, started);
      this.runners.set(machine.name, runner);
      this.enrols(runner);
    }
    const reach = this.#reachOf(pools, new Webhooks(world));
    const tiers: Tier[] = ["free", "pro", "free"];
    for (const [n, tier] of tiers.slice(0, world.between(1, 3)).entries()) {
      const id = `acc_${n}`;
      const pool = pools[world.between(0, pools.length - 1)] ?? "default";
      const disk = keep(sqlite ? sqliteDisk() : memoryDisk());
      this.accounts.set(id, new AccountNode(id, { tier, pool }, disk, world, reach));
    }
    this.clients = new Clients(world, this.bucket, () => `job-${++this.#jobs}`);
    world.faulty = true;
    for (const runner of this.runners.values()) runner.boots();
    planFaults(this);
  }

  account = (id: string): AccountNode => this.accounts.get(id) ?? missing(id);
  fleet = (pool: string): FleetNode => this.fleets.get(pool) ?? missing(pool);

  /** An operator's token, used by the machine's own key. */
  enrols(runner: RunnerNode): void {
    const { machine } = runner;
    const { name, seats, runner_id } = machine;
    const entry: RosterEntry = {
      runner_id,
      name,
      url: `https://${name}.example`,
      public_jwk: { kty: "OKP", crv: "Ed25519", x: name },
      jkt: `jkt-${name}`,
      max_seats: seats,
      state: "active",
      boot: 0,
      enrolled_at: this.world.now,
    };
    const fleet = this.fleet(machine.pool);
    machine.runner_id = fleet.run((pool) => pool.enrol(entry)).runner_id;
    fleet.rules.proves(machine.runner_id);
  }

  #tells = (pool: string, account: string, news: FleetNews): void => {
    const { world } = this;
    const said = world.tell ? JSON.stringify(news) : "";
    world.message({ name: `${pool} news -> ${account} ${said}`, patience_ms: 0, once: true }, () =>
      this.account(account).hears(pool, news),
    );
  };

  #isHeld: IsHeld = ({ runner_id, processes }, execution) => {
    for (const { machine, process: its, held } of this.runners.values())
      if (machine.runner_id === runner_id && its === processes?.at(-1))
        return held.some((name) => name.endsWith(`/${execution.replace(".", "/")}`));
    return false;
  };

  #reachOf(pools: readonly string[], webhooks: Webhooks): Reach {
    const { world, bucket } = this;
    return {
      pools,
      sync: (pool, request, answered) => {
        const said = world.tell ? JSON.stringify(request) : "";
        const fleet = this.fleet(pool);
        const line = { name: `${request.account} sync -> ${pool} ${said}`, patience_ms: RPC_MS, once: true };
        world.call(line, () => fleet.sync(request), answered);
      },
      dispatch: (order, answered) => {
        const { job, fence, placement } = order;
        const runner = this.#runnerAt(placement.url);
        const line = {
          name: `${order.account} dispatch ${job}.${fence} -> ${runner.machine.name}, boot ${placement.boot}`,
          via: runner.machine.name,
          inwards: true,
          patience_ms: DISPATCH_MS,
          once: true,
          door: runner.door,
        };
        world.call<DispatchAnswer>(line, () => runner.dispatch(orderOf(order)), answered);
      },
      stop: (account, job, fence, { url }) => {
        const runner = this.#runnerAt(url);
        const { name } = runner.machine;
        const line = {
          name: `${account} stop ${job}.${fence} -> ${name}`,
          via: name,
          inwards: true,
          patience_ms: 0,
          door: runner.door,
        };
        world.message(line, () => runner.stop({ account, job, fence }, "stopped"));
      },
      send: (account, job, round, delay_s) => webhooks.send(this.account(account), job, round, delay_s),
      remove: (removal, removed) =>
        world.message({ name: `remove ${removal.key}`, patience_ms: 0, once: true }, () => {
          bucket.remove(removal);
          world.after(world.between(1, 50), removed);
        }),
      hasPrompt: (key) => bucket.keys.has(key),
    };
  }

  #runnerAt(url: string): RunnerNode {
    const name = url.slice("https://".length, -".example".length);
    return this.runners.get(name) ?? missing(name);
  }

  /** Runs until everything is at rest, and judges what is left. */
  run(): void {
    const { world } = this;
    const start = world.now;
    const end = start + this.faults_ms + REST_WITHIN_MS;
    let looked = start + this.faults_ms + LOOK_EVERY_MS;
    while (world.step()) {
      if (world.now < looked) continue;
      looked = world.now + LOOK_EVERY_MS;
      judgeLook(this, start + this.faults_ms);
      const left = unrest(this);
      if (!left) {
        judgeEnd(this);
        return;
      }
      if (world.now > end) throw new Violation(`everything comes to rest: ${left.what}`, JSON.stringify(left.detail));
    }
    throw new Violation("everything comes to rest: nothing happens any more", JSON.stringify(unrest(this)));
  }

  close(): void {
    for (const disk of this.#disks) disk.close();
  }
}

function missing(id: string): never {
  throw new Error(`There is no ${id}.`);
}
