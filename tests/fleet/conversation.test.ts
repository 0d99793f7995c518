import { expect, test } from "vitest";
import type { Tier } from "../../schemas/limits.ts";
import { applyNews, endExecution, progress } from "../../worker/account/executions.ts";
import { cancelJob, submit } from "../../worker/account/requests.ts";
import { jobId } from "../account/fixture.ts";
import { AccountNode, KEYS, type Reach } from "./account-node.ts";
import { FleetNode } from "./fleet-node.ts";
import { type Edge, RunnerNode } from "./runner-node.ts";
import { World } from "./world.ts";

/**
 * Accounts, a fleet and runners talk over a network that loses, doubles, delays and reorders, while each of them dies and comes
 * back with what it had stored. The nodes check the invariants of design section 3 at every write; a schedule ends with the
 * faults off, and then everything must come to rest.
 */

const SEEDS = 300;
const FAULTS_MS = 90_000;
const SPEAKS_EVERY_MS = 5 * 60_000;
/** Longer than any queue time, and shorter than a lease: what only the last deadline ends does not count as healed. */
const REST_WITHIN_MS = FAULTS_MS + 15 * 60_000;

class Schedule {
  readonly world: World;
  readonly accounts = new Map<string, AccountNode>();
  readonly runners = new Map<string, RunnerNode>();
  readonly fleet: FleetNode;
  readonly accepted: [AccountNode, string][] = [];
  #jobs = 0;

  constructor(seed: number) {
    const world = new World(seed);
    this.world = world;
    const names = Array.from({ length: world.between(1, 4) }, (_, n): [string, number] => [
      `runner-${n}`,
      world.between(1, 3),
    ]);
    const tell = (account: string, news: Parameters<typeof applyNews>[1]) =>
      this.account(account).run((one, now) => applyNews(one, news, now));
    this.fleet = new FleetNode(world, tell, names);
    const reach: Reach = {
      sync: (request) => this.fleet.run((pool, now) => pool.sync(request, now)),
      dispatch: (account, job, fence, { runner, boot }) => this.runner(runner).dispatch({ account, job, fence, boot }),
      stop: (account, job, fence, runner) => this.runner(runner).stop({ account, job, fence }),
    };
    const edge: Edge = {
      beat: (runner, message) => this.fleet.run((pool, now) => pool.beat(runner, `jkt-${runner}`, message, now)),
      progress: ({ account, job, fence }, report) =>
        this.account(account).run((one, now) => progress(one, job, fence, report, now)),
      end: ({ account, job, fence }, runner, report) =>
        this.account(account).run((one, now) => endExecution(one, job, fence, runner, report, now)),
    };
    const tiers: Tier[] = ["free", "pro"];
    for (const [n, tier] of tiers.slice(0, world.between(1, 2)).entries()) {
      const id = `acc_${n}`;
      this.accounts.set(id, new AccountNode(id, tier, world, reach));
    }
    const started = new Set<string>();
    for (const [name, seats] of names) this.runners.set(name, new RunnerNode(name, seats, world, edge, started));
  }

  account(id: string): AccountNode {
    return this.accounts.get(id) ?? missing(id);
  }

  runner(id: string): RunnerNode {
    return this.runners.get(id) ?? missing(id);
  }

  #submits(node: AccountNode): void {
    const { world } = this;
    const job_id = jobId(++this.#jobs);
    const options = { timeout_s: 30, queue_timeout_s: world.between(60, 600), priority: world.between(-1, 1) };
    const submission = { job_id, prompt: "{}", needs: { classes: [], models: [] }, options };
    const url = world.chance(0.5) ? { webhook_url: "https://hooks.example/" } : {};
    const { value } = node.run((account, now) =>
      submit(account, KEYS[world.between(0, 1)] ?? "", { ...submission, ...url }, now),
    );
    if (value?.kind !== "stored") return;
    this.accepted.push([node, job_id]);
    if (!world.fault(0.1)) return;
    const cancel = () => node.run((account, now) => cancelJob(account, KEYS[0] ?? "", job_id, now));
    world.after(world.between(0, 20_000), cancel);
  }

  /** Plans what clients ask and what breaks. */
  plan(): void {
    const { world } = this;
    const sometime = (times: number, run: () => void) => {
      for (let i = 0; i < times; i++) world.after(world.between(0, FAULTS_MS), run);
    };
    for (const node of this.accounts.values()) {
      sometime(world.between(1, 12), () => this.#submits(node));
      sometime(world.between(0, 2), () => node.restart());
      sometime(world.between(0, 3), () => {
        node.skew = world.between(-2_000, 2_000);
      });
    }
    for (const runner of this.runners.values()) {
      sometime(world.between(0, 2), () => {
        runner.dies();
        world.after(world.between(500, 40_000), () => runner.boots());
      });
    }
    sometime(world.between(0, 2), () => this.fleet.restart());
    world.after(FAULTS_MS, () => {
      world.faulty = false;
      for (const runner of this.runners.values()) runner.boots();
      for (const node of this.accounts.values()) node.skew = 0;
      this.#speaks();
    });
  }

  /** Idle objects forget. One that is called again says everything to the fleet, which heals what nobody would have asked for. */
  #speaks(): void {
    for (const node of this.accounts.values()) {
      node.restart();
      this.#submits(node);
    }
    this.world.after(SPEAKS_EVERY_MS, () => this.#speaks());
  }

  get atRest(): boolean {
    const ended = this.accepted.every(([node, job]) => node.store.job(job)?.job.phase === "ended");
    const told = this.accepted.every(([node, job]) => node.store.delivery(job)?.status !== "pending");
    return ended && told && this.fleet.idle && [...this.runners.values()].every(({ idle }) => idle);
  }

  /** Runs until everything is at rest. */
  run(): void {
    const { world } = this;
    this.plan();
    const start = world.now;
    let looked = start + FAULTS_MS + 1_000;
    while (world.step()) {
      if (world.now < looked) continue;
      looked = world.now + 1_000;
      if (this.atRest) return;
      if (world.now > start + REST_WITHIN_MS) break;
    }
    throw new Error(`Not at rest: ${this.#unrest()}`);
  }

  #unrest(): string {
    const open = this.accepted.flatMap(([node, id]) => {
      const job = node.store.job(id)?.job;
      return job?.phase === "ended" ? [] : [`${id} is ${job?.phase}, fence ${job?.fence}`];
    });
    const pending = this.accepted.filter(([node, id]) => node.store.delivery(id)?.status === "pending").length;
    const seats = [...this.fleet.pool.seats.seated.keys()];
    const taken = [...this.fleet.pool.runners.values()].flatMap(({ listed, placed }) => [...listed.keys(), ...placed]);
    const tickets = [...this.fleet.pool.seats.clients.values()].flatMap(({ tickets }) => [...tickets.keys()]);
    const held = [...this.runners.values()].filter(({ idle }) => !idle).map(({ id }) => id);
    return JSON.stringify({ open, pending, tickets, seats, taken, held });
  }

  close(): void {
    for (const node of this.accounts.values()) node.close();
    this.fleet.close();
  }
}

function missing(id: string): never {
  throw new Error(`There is no ${id}.`);
}

test(`in ${SEEDS} schedules of faults no invariant breaks, and all comes to rest`, () => {
  const ends = new Map<string, number>();
  for (let seed = 1; seed <= SEEDS; seed++) {
    const schedule = new Schedule(seed);
    try {
      schedule.run();
      for (const [node, id] of schedule.accepted) {
        const job = node.store.job(id)?.job;
        const how = job?.end?.error?.code ?? job?.end?.status ?? "none";
        ends.set(how, (ends.get(how) ?? 0) + 1);
        expect(node.attempts.get(id) ?? 0, "webhook attempts").toBeLessThanOrEqual(4);
        expect(node.store.delivery(id) !== undefined).toBe(job?.webhook_url !== undefined);
      }
      for (const node of schedule.accounts.values()) {
        for (const key of KEYS) expect(node.store.use(key)).toEqual({ slots: 0, places: 0 });
      }
    } catch (error) {
      throw new Error(`seed ${seed}: ${error instanceof Error ? error.message : error}`, { cause: error });
    } finally {
      schedule.close();
    }
  }
  // The schedules are worth something only if most jobs come through and some do not.
  expect(ends.get("completed")).toBeGreaterThan(SEEDS);
  for (const how of ["cancelled", "execution_failed", "runner_lost"]) expect(ends.get(how), how).toBeGreaterThan(0);
});
