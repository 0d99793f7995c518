import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import * as v from "valibot";
import { DEFAULT_POOL, PoolName } from "../../schemas/ids.ts";
import type { PortalContext, PortalEnv } from "./guard.ts";

/** Tells the open page of a fleet that something has changed, as `live.ts` does for an account's pages. */

const LOOK_MS = 2_000;
/** The browser takes it up again, if it still may. Nothing of the fleet is in the stream. */
const LENGTH_MS = 5 * 60_000;

/** What the page shows, but for the time that passes. */
async function seen(c: PortalContext, pool: string): Promise<string> {
  const fleet = c.env.FLEET.getByName(pool);
  const [status, runners] = await Promise.all([fleet.status(), fleet.runners()]);
  return JSON.stringify([
    status,
    runners.map(({ executions, ...runner }) => [runner, executions.map(({ job, fence }) => [job, fence])]),
  ]);
}

export const operatorLive = new Hono<PortalEnv>().get("/", (c) => {
  const wanted = c.req.query("pool");
  const pool = v.is(PoolName, wanted) ? wanted : DEFAULT_POOL;
  return streamSSE(c, async (stream) => {
    const until = Date.now() + LENGTH_MS;
    let shown: string | undefined;
    while (!stream.aborted && Date.now() < until) {
      const now = await seen(c, pool);
      // The first look counts as news: the page may be older than the stream.
      if (now !== shown) await stream.writeSSE({ event: "changed", data: "" });
      shown = now;
      await stream.sleep(LOOK_MS);
    }
  });
});
