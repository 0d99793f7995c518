import type { Account } from "../../worker/account/account.ts";
import { applyNews, dispatchAnswered } from "../../worker/account/executions.ts";
import type { SyncRequest } from "../../worker/fleet/sync.ts";
import { HOME, jobId, NOW, news, openAccount, owed, seatOn, send, talk, WORD } from "./fixture.ts";

/** An account whose jobs may spill over to other pools. */

export const WEST = "west";
export const EAST = "east";
export const WEST_RUNNER = "rnr_00000000000000000002";
export const EAST_RUNNER = "rnr_00000000000000000003";
export const SPILLED = NOW + 5_000;

export const jobsOf = (refs: readonly { readonly job: string }[] | undefined) =>
  (refs ?? []).map(({ job }) => Number(job.slice(-12)));
export const wanted = (spoken: Record<string, SyncRequest>) =>
  Object.fromEntries(Object.entries(spoken).map(([pool, { want }]) => [pool, jobsOf(want)]));

/** Jobs of one account that wait at home, since `NOW`. */
export function waiting(...numbers: number[]) {
  const opened = openAccount("pro", [HOME, WEST, EAST]);
  for (const n of numbers) send(opened.account, n);
  talk(opened.account, NOW);
  return opened;
}

/** The same 5 s later, when every pool has the tickets. */
export function spilled(...numbers: number[]) {
  const opened = waiting(...numbers);
  talk(opened.account, SPILLED);
  owed(opened.account);
  return opened;
}

export const placedBy = (account: Account, pool: string, n: number, runner: string, fence = 1, now = SPILLED): void =>
  applyNews(account, pool, news({ placed: [seatOn(n, fence, runner)] }), now);

/** A job that runs on a runner of another pool than its own, which has been told so. */
export function runningInWest() {
  const opened = spilled(1);
  const { account } = opened;
  placedBy(account, WEST, 1, WEST_RUNNER);
  dispatchAnswered(account, jobId(1), 1, { kind: "accepted", ...WORD }, SPILLED);
  account.writeBehind();
  talk(account, SPILLED);
  owed(account);
  return opened;
}
