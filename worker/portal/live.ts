import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import * as v from "valibot";
import { JobId } from "../../schemas/ids.ts";
import { askAccount, type PortalContext, type PortalEnv, SessionEnded } from "./guard.ts";

/**
 * Tells an open page that something it shows has changed; the page then fetches itself. Nothing of what has changed is in the
 * stream. It ends after some minutes, and the browser takes it up again.
 */

const LOOK_MS = 1_000;
const LENGTH_MS = 5 * 60_000;
/** Jobs that a list shows. */
const SHOWN = 50;

/** What the page shows, in a form that can be compared. */
async function seen(c: PortalContext, job_id: string | undefined): Promise<{ state: string; over: boolean }> {
  if (job_id === undefined) {
    const { jobs } = await askAccount(c, (account, epoch) => account.ownerJobs(epoch, {}, SHOWN));
    const rows = jobs.map(({ record: { job_id: id, status, progress, webhook, queue_position } }) => [
      id,
      status,
      progress,
      webhook,
      queue_position,
    ]);
    return { state: JSON.stringify(rows), over: false };
  }
  const detail = await askAccount(c, (account, epoch) => account.ownerJob(epoch, job_id));
  if (!detail) return { state: "gone", over: true };
  const { record, webhook } = detail;
  const ended = record.expires_at !== undefined;
  return {
    state: JSON.stringify([record.status, record.progress, record.attempt, record.queue_position, webhook]),
    over: ended && webhook?.delivery?.status !== "pending",
  };
}

export const live = new Hono<PortalEnv>().get("/", (c) => {
  const job = c.req.query("job");
  const job_id = v.is(JobId, job) ? job : undefined;
  return streamSSE(c, async (stream) => {
    const until = Date.now() + LENGTH_MS;
    let shown: string | undefined;
    while (!stream.aborted && Date.now() < until) {
      let now: { state: string; over: boolean };
      try {
        now = await seen(c, job_id);
      } catch (error) {
        if (!(error instanceof SessionEnded)) throw error;
        await stream.writeSSE({ event: "over", data: "signed out" });
        return;
      }
      // The first look counts as news: the page may be older than the stream.
      if (now.state !== shown) await stream.writeSSE({ event: "changed", data: "" });
      shown = now.state;
      if (now.over) {
        await stream.writeSSE({ event: "over", data: "nothing more will change" });
        return;
      }
      await stream.sleep(LOOK_MS);
    }
  });
});
