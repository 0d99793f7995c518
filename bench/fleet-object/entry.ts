import { DurableObject } from "cloudflare:workers";
import type { Env } from "../../worker/env.ts";
import { FleetObject as RealFleet } from "../../worker/fleet/object.ts";
import type { FleetNews, SyncAnswer, SyncRequest } from "../../worker/fleet/sync.ts";
import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import { counted } from "./counted.ts";
import { Driver, inbox } from "./driver.ts";
import type { Plan } from "./report.ts";

export { AddressObject } from "../../worker/address-limiter.ts";
export { Dispatcher } from "../../worker/runners/dispatcher.ts";

/** The fleet object as it is, with its writes counted. */
export class FleetObject extends RealFleet {
  constructor(ctx: DurableObjectState, env: Env) {
    super(counted(ctx), env);
  }
}

/** As little of an account as the fleet can tell something: all accounts are played by the driver. */
export class AccountObject extends DurableObject<Env> {
  fleetNews(_pool: string, news: FleetNews): void {
    inbox.push({ account: this.ctx.id.name ?? "", news, at: Date.now() });
  }
}

/** A fleet that gives every ticket to the next runner without looking. */
export class NullFleet extends DurableObject<Env> {
  #next = 0;
  sync({ want }: SyncRequest): SyncAnswer {
    const placed = want.map(({ job, fence }) => {
      const runner = `runner-${this.#next++ % 1_000}`;
      return { job, fence, runner, boot: 1, url: `https://${runner}.example`, jkt: `jkt-${runner}` };
    });
    return { placed, impossible: [], verdicts: [], again_in_s: 20, epoch: 1, send_full: false };
  }
  beat(): HeartbeatAnswer {
    return { boot: 1, stop: [], describe: false, next_in_ms: 5_000 };
  }
  putToken(): void {}
  enrol(): void {}
}

/** The verbs that the driver calls, as both fleets have them. */
interface Bindings extends Env {
  readonly NULL_FLEET: DurableObjectNamespace<NullFleet>;
}

export default {
  /** Runs one plan and answers with its report. */
  async fetch(request: Request, env: Bindings): Promise<Response> {
    const plan: Plan = await request.json();
    const real = env.FLEET.getByName("default");
    const none = env.NULL_FLEET.getByName("null");
    const driver = new Driver(plan, {
      sync: async (message) => (plan.fleet === "real" ? real.sync(message) : none.sync(message)),
      beat: async (id: string, message: Heartbeat) =>
        plan.fleet === "real" ? real.beat(id, `jkt-${id}`, message) : none.beat(),
      enrol: async (token, entry) => {
        if (plan.fleet === "null") return;
        await real.putToken(token);
        await real.enrol(token.token_hash, entry);
      },
      status: async () => {
        if (plan.fleet === "null") return { runners_active: plan.runners, tickets_waiting: 0 };
        const { runners, tickets_waiting } = await real.status();
        return { runners_active: runners.active, tickets_waiting };
      },
    });
    return Response.json(await driver.run());
  },
};
