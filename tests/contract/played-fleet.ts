import { vi } from "vitest";
import { FleetObject } from "../../worker/fleet/object.ts";
import { accountObject, type TestAccount } from "../worker/service.ts";

/** The test in the fleet's place: it decides who gets a seat, and every runner takes what it is given. */

export const RUNNER = { runner: "rnr_played", boot: 1, url: "https://played.example.org", jkt: "x" };

/** The pool of accounts that are made without one. */
export const POOL = "default";

/** Who reports an end: the played runner. */
export const BY = { pool: POOL, runner: RUNNER.runner };

/** News of nothing. */
export const NOTHING = { placed: [], impossible: [], verdicts: [] };

/** A runner's first word. */
export const WORD = { beat: { boot: 1, n: 1 }, running_ms: 0 };

/** The fleet says nothing of its own accord; runners answer dispatches like this. */
export function playFleet(answer: () => Response | Promise<Response> = () => Response.json(WORD, { status: 202 })) {
  vi.spyOn(FleetObject.prototype, "sync").mockReturnValue({ ...NOTHING, again_in_s: 60, epoch: 1, send_full: false });
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => answer());
}

/** A seat for the job's next execution. */
export const place = (account: Pick<TestAccount, "account_id">, job: string, fence: number): Promise<void> =>
  accountObject(account).fleetNews(POOL, { ...NOTHING, placed: [{ job, fence, ...RUNNER }] });
