import * as v from "valibot";
import { DEFAULT_POOL, PoolName } from "../../schemas/ids.ts";
import { type PortalContext, PortalError } from "./guard.ts";
import { query } from "./words.tsx";

/** The pool that a page of the console is about, and where its pages are. */

/** The default one where none is named. */
export function poolOf(text: string | undefined): string {
  const pool = text === undefined || text === "" ? DEFAULT_POOL : text;
  if (v.is(PoolName, pool)) return pool;
  throw new PortalError(
    400,
    "No such pool",
    "A pool's name has 1 to 32 lower case letters, digits and hyphens, and begins with a letter.",
  );
}

export const fleetPath = (pool: string, done?: string): string => `/portal/operator${query({ pool, done })}`;

/** A runner's page, or one about what is to be done with it. */
export const runnerPath = (pool: string, runner_id: string, deed?: "drain" | "revoke"): string =>
  `/portal/operator/runners/${runner_id}${deed === undefined ? "" : `/${deed}`}${query({ pool })}`;

/** What operators ask of a pool. One that nobody has used yet is an empty one. */
export const fleetOf = (c: PortalContext, pool: string) => c.env.FLEET.getByName(pool);
