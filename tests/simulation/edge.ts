import type { EndReport, Heartbeat, HeartbeatAnswer, ProgressReport } from "../../schemas/runner-protocol.ts";
import { endExecution, mayUpload, progress } from "../../worker/account/executions.ts";
import { DISPATCH_REPEAT_MS, type Job, type Placement } from "../../worker/account/jobs.ts";
import { outputPrefix } from "../../worker/account/outbox.ts";
import type { AccountNode } from "./account-node.ts";
import type { Bucket } from "./bucket.ts";
import type { FleetNode } from "./fleet-node.ts";
import type { RunnerNode } from "./runner-node.ts";
import { holds } from "./violation.ts";
import type { World } from "./world.ts";

/** An order as a runner has it, with what its lease token says. */
export interface Order {
  readonly account: string;
  readonly job: string;
  readonly fence: number;
  readonly boot: number;
  readonly placement: Placement;
  readonly lease_until: number;
  /** Of the signed request that carried it. */
  readonly expires_at: number;
}

/** How far a runner's clock may be off: an order is taken until this long after its expiry. */
const LEEWAY_MS = 60_000;

export const orderOf = (order: Pick<Order, "account" | "job" | "fence" | "placement" | "lease_until">): Order => ({
  ...order,
  boot: order.placement.boot,
  expires_at: order.placement.at + DISPATCH_REPEAT_MS + LEEWAY_MS,
});

/** A runner waits so long for an answer. */
const ANSWER_MS = 5_000;
const UPLOAD_MS = 30_000;

/** What only the current fence may change. Whoever looks writes an acceptance that was not written yet. */
function decided(job: Job | undefined): string {
  const { fence, fence_over, losses, handbacks, phase, end } = job ?? {};
  return JSON.stringify([fence, fence_over, losses, handbacks, phase === "placed" ? "running" : phase, end]);
}

/** What the stateless Worker does between runners and objects: it checks the lease, and asks one object. */
export class Edge {
  readonly #world: World;
  readonly #account: (id: string) => AccountNode;
  readonly #fleet: (pool: string) => FleetNode;
  readonly #bucket: Bucket;

  constructor(
    world: World,
    bucket: Bucket,
    { account, fleet }: { account: (id: string) => AccountNode; fleet: (pool: string) => FleetNode },
  ) {
    this.#world = world;
    this.#bucket = bucket;
    this.#account = account;
    this.#fleet = fleet;
  }

  #line = (runner: RunnerNode, what: string, patience_ms = ANSWER_MS) => ({
    name: `${runner.machine.name} -> ${what}`,
    via: runner.machine.name,
    patience_ms,
  });

  beat(
    runner: RunnerNode,
    message: Heartbeat,
    answered: (answer: HeartbeatAnswer | "revoked" | undefined) => void,
  ): void {
    const { pool, runner_id } = runner.machine;
    const said = this.#world.tell ? JSON.stringify({ ...message, describe: undefined }) : "";
    const ask = () => this.#fleet(pool).beat(runner_id, `jkt-${runner.machine.name}`, message) ?? "revoked";
    this.#world.call(this.#line(runner, `${pool} beat ${said}`), ask, answered);
  }

  /** Where only the current fence may change a job, a message of another one leaves its row as it was. */
  #fenced<T>(account: AccountNode, { job, fence }: Order, work: () => T): T {
    const before = account.rows.job(job)?.job;
    const value = work();
    if (before && before.fence !== fence)
      holds(
        decided(account.rows.job(job)?.job) === decided(before),
        "only the current fence changes a job",
        () => `${job}.${fence}`,
      );
    return value;
  }

  progress(order: Order, runner: RunnerNode, report: ProgressReport, answered: (fenced?: boolean) => void): void {
    const { job, fence } = order;
    const ask = (): boolean | undefined => {
      if (this.#expired(order)) return undefined;
      const account = this.#account(order.account);
      return this.#fenced(
        account,
        order,
        () => account.run((one, now) => progress(one, job, fence, report, now)) !== "current",
      );
    };
    this.#world.call<boolean | undefined>(
      this.#line(runner, `${order.account} progress ${job}.${fence}`),
      ask,
      answered,
    );
  }

  /** Asked before the body is read; whatever happens meanwhile, the body is stored when it is through. */
  upload(order: Order, runner: RunnerNode, n: number, answered: (answer?: "stored" | "fenced") => void): void {
    const { account, job, fence, placement } = order;
    const world = this.#world;
    const line = this.#line(runner, `${account} upload ${job}.${fence}/${n}`, UPLOAD_MS);
    const ask = (): boolean | undefined => {
      if (this.#expired(order)) return undefined;
      return this.#account(account).run((one) => mayUpload(one, job, fence));
    };
    world.call(line, ask, (granted) => {
      if (granted === undefined) answered(undefined);
      else if (!granted) answered("fenced");
      else
        world.after(world.between(1, world.chance(0.1) ? 8_000 : 300), () =>
          world.call<"stored" | undefined>(
            line,
            () => {
              if (world.fault(0.02, "store refuses an upload")) return undefined;
              this.#bucket.put(`${outputPrefix(placement.retention, account, job, fence)}${n}`);
              return "stored";
            },
            answered,
          ),
        );
    });
  }

  /** @param answered true: the report is not to be repeated */
  end(order: Order, runner: RunnerNode, report: EndReport, answered: (final?: boolean) => void): void {
    const { account: id, job, fence, placement } = order;
    const by = { pool: placement.pool, runner: placement.runner };
    const ask = () => {
      if (this.#expired(order)) return true;
      const account = this.#account(id);
      const before = account.rows.job(job)?.job;
      const answer = this.#fenced(account, order, () =>
        account.run((one, now) => endExecution(one, job, fence, by, report, now)),
      );
      const counts = before?.phase === "ready" && before.fence === fence && before.fence_over === "unreported";
      if (counts && report.outcome === "completed")
        holds(account.rows.job(job)?.job.phase === "ended", "a result counts until a successor is placed", () => job);
      this.#world.note(`  ${job}.${fence} ${report.outcome}: ${answer}`);
      return true;
    };
    this.#world.call(this.#line(runner, `${id} end ${job}.${fence}`), ask, answered);
  }

  #expired = ({ lease_until }: Order): boolean => this.#world.now >= lease_until;
}
