import { AccountObject as ProductAccount } from "../../worker/account/object.ts";
import type { Env } from "../../worker/env.ts";
import { FleetObject as ProductFleet } from "../../worker/fleet/object.ts";
import local from "../../worker/local.ts";
import type { WebhookMessage } from "../../worker/webhooks/message.ts";
import { type AccountState, POISONED, type StoredObject } from "../chaos/inspection.ts";

/**
 * The local Worker with verbs that no product bundle has: objects that can be evicted, timers that can be poisoned, and a look at what
 * is stored. `tests/chaos/` calls them at `/chaos/...`.
 */

export { AddressObject, Courier, Dispatcher } from "../../worker/local.ts";

export class AccountObject extends ProductAccount {
  evict(): void {
    this.ctx.abort("Evicted by the chaos suite.");
  }

  /** A timer of removal that can't be read, due at once. */
  async poison(): Promise<void> {
    const now = Date.now();
    const ref = `${POISONED} ${crypto.randomUUID()}`;
    this.ctx.storage.sql.exec("INSERT INTO timers (kind, ref, due_at, tries) VALUES ('removal', ?, ?, 0)", ref, now);
    await this.ctx.storage.setAlarm(now);
  }

  state(): AccountState {
    const { sql } = this.ctx.storage;
    const counts = (query: string): Record<string, number> =>
      Object.fromEntries(
        sql
          .exec(query)
          .toArray()
          .map((row) => [String(row.name), Number(row.n)]),
      );
    return {
      phases: counts("SELECT phase AS name, COUNT(*) AS n FROM jobs GROUP BY phase"),
      deliveries: counts("SELECT status AS name, COUNT(*) AS n FROM deliveries GROUP BY status"),
      timers: sql
        .exec("SELECT kind, ref, due_at, tries FROM timers WHERE kind <> 'job' ORDER BY due_at")
        .toArray()
        .map((row) => ({
          kind: String(row.kind),
          ref: String(row.ref),
          due_at: Number(row.due_at),
          tries: Number(row.tries),
        })),
      job_timers: Number(sql.exec("SELECT COUNT(*) AS n FROM timers WHERE kind = 'job'").one().n),
      prompts: Number(sql.exec("SELECT COUNT(*) AS n FROM prompts").one().n),
    };
  }
}

export class FleetObject extends ProductFleet {
  evict(): void {
    this.ctx.abort("Evicted by the chaos suite.");
  }
}

interface ChaosEnv extends Env {
  readonly ACCOUNT: DurableObjectNamespace<AccountObject>;
  readonly FLEET: DurableObjectNamespace<FleetObject>;
}

async function stored(store: R2Bucket, prefix: string): Promise<StoredObject[]> {
  const found: StoredObject[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.list({ prefix, ...(cursor === undefined ? {} : { cursor }) });
    for (const { key, checksums } of page.objects) found.push({ key, sha256: checksums.toJSON().sha256 ?? null });
    if (!page.truncated) return found;
    cursor = page.cursor;
  }
}

async function chaos(verb: string, name: string, { ACCOUNT, FLEET, STORE }: ChaosEnv): Promise<Response> {
  switch (verb) {
    case "evict-account":
      // The call itself dies with the object.
      await ACCOUNT.getByName(name)
        .evict()
        .catch(() => {});
      return Response.json({});
    case "evict-fleet":
      await FLEET.getByName(name)
        .evict()
        .catch(() => {});
      return Response.json({});
    case "poison":
      await ACCOUNT.getByName(name).poison();
      return Response.json({});
    case "account":
      return Response.json(await ACCOUNT.getByName(name).state());
    case "stored":
      return Response.json(await stored(STORE, `${name}/`));
    default:
      return new Response(null, { status: 404 });
  }
}

export default {
  ...local,
  fetch(request, env, ctx) {
    const [, room, verb = "", name = ""] = new URL(request.url).pathname.split("/");
    return room === "chaos" ? chaos(verb, name, env) : local.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<ChaosEnv, WebhookMessage>;
