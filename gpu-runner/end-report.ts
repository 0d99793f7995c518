import { decodeJwt } from "jose";
import { type Accepted, END_REPORT_FINAL, type EndReport } from "../schemas/runner-protocol.ts";
import type { Edge, EdgeAnswer } from "./edge.ts";
import { jittered, pause } from "./pause.ts";
import type { Timings } from "./timings.ts";

type WithoutAcceptance<T> = T extends unknown ? Omit<T, keyof Accepted> : never;
/** How an execution ended: an end report without the acceptance that each repeat states afresh. */
export type Outcome = WithoutAcceptance<EndReport>;

export type Acknowledgement =
  /** The edge has the report. */
  | "taken"
  /** The edge does not want it: the execution is not the current one, its job is gone, or its lease has expired. */
  | "unwanted"
  /** The signal was aborted first. */
  | "given_up";

/** When a lease ends, epoch milliseconds. One that can't be read has ended. */
function leaseExpiry(lease: string): number {
  try {
    return (decodeJwt(lease).exp ?? 0) * 1000;
  } catch {
    return 0;
  }
}

function judge(answer: EdgeAnswer<undefined>, expired: boolean): Acknowledgement | undefined {
  if (answer.ok) return "taken";
  if (answer.status === undefined) return undefined;
  const refused = answer.status >= 400 && answer.status < 500 && expired;
  return END_REPORT_FINAL.includes(answer.status) || refused ? "unwanted" : undefined;
}

/**
 * Repeats an end report with growing, jittered pauses until its answer is final (design section 6, step 4), or the signal is
 * aborted. `accepted` is read for each try, because how long it has been running is counted until then; it is undefined when the
 * table no longer lists the execution.
 */
export async function reportEnd(
  outcome: Outcome,
  {
    edge,
    lease,
    accepted,
    timings,
    signal,
    wallClock = Date.now,
  }: {
    edge: Pick<Edge, "end">;
    lease: string;
    accepted: () => Accepted | undefined;
    timings: Pick<Timings, "end_retry_ms">;
    signal: AbortSignal;
    wallClock?: () => number;
  },
): Promise<Acknowledgement> {
  const expiry = leaseExpiry(lease);
  const [first, most] = timings.end_retry_ms;
  for (let wait = first; !signal.aborted; wait = Math.min(wait * 2, most)) {
    const acceptance = accepted();
    if (!acceptance) return "unwanted";
    const answer = await edge.end({ ...acceptance, ...outcome }, lease, signal);
    const acknowledgement = judge(answer, wallClock() >= expiry);
    if (acknowledgement) return acknowledgement;
    await pause(jittered(wait), signal);
  }
  return "given_up";
}
