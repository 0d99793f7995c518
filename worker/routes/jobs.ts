import { type Context, Hono } from "hono";
import * as v from "valibot";
import { JobId } from "../../schemas/ids.ts";
import type { JobList } from "../../schemas/job.ts";
import { MAX_REDELIVERIES_PER_WINDOW } from "../../schemas/limits.ts";
import type { TargetRules } from "../../schemas/targets.ts";
import type { JobView } from "../account/record.ts";
import { type AuthVariables, rateLimited } from "../auth.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { presentJob } from "../outputs/present.ts";
import { encodeCursor, parseListQuery } from "./list-query.ts";
import { presentDelivery } from "./notifications.ts";
import { queriedWait } from "./preference.ts";
import { submitJob } from "./submit.ts";

export interface JobRoutesOptions {
  /** Which webhook URLs may be given. */
  readonly webhookTargets: (env: Env) => TargetRules;
}

function found(view: JobView | null): JobView {
  if (!view) throw new ApiError(refusalOf("job_not_found"));
  return view;
}

/** The job that the path names. What is no job id can't be a job's; the account need not look. */
async function jobIdOf(c: Context<{ Bindings: Env; Variables: AuthVariables }>): Promise<string> {
  const job_id = c.req.param("job_id");
  if (!v.is(JobId, job_id)) throw await c.get("caller").refuse(refusalOf("job_not_found"));
  return job_id;
}

/** Submit, read, list, cancel and delete jobs (spec section 4, contract section 2). */
export function jobRoutes({ webhookTargets }: JobRoutesOptions) {
  return new Hono<{ Bindings: Env; Variables: AuthVariables }>()
    .post("/", (c) => submitJob(c, webhookTargets(c.env)))
    .get("/", async (c) => {
      const caller = c.get("caller");
      const query = parseListQuery(c.req.query());
      if (!query.ok) throw await caller.refuse(query.refusal);
      const { jobs, has_more } = await caller.ask((account, keyHash) => account.listJobs(keyHash, query.page));
      const last = jobs.at(-1);
      const list: JobList = {
        jobs: await Promise.all(jobs.map((view) => presentJob(c.env, view))),
        has_more,
        ...(has_more && last ? { next_cursor: encodeCursor(last.seq) } : {}),
      };
      return c.json(list);
    })
    .get("/:job_id", async (c) => {
      const caller = c.get("caller");
      const job_id = await jobIdOf(c);
      const wait_s = queriedWait(c.req.query("wait"));
      if (wait_s === undefined) {
        const message = "wait must be a whole number of seconds from 1 to 60.";
        throw await caller.refuse({ code: "invalid_request", message, details: { field: "wait" } });
      }
      const view = found(await caller.ask((account, keyHash) => account.getJob(keyHash, job_id, wait_s)));
      if (view.record.expires_at === undefined) c.header("Retry-After", "1");
      return c.json(await presentJob(c.env, view));
    })
    .delete("/:job_id", async (c) => {
      const job_id = await jobIdOf(c);
      const deleted = await c.get("caller").ask((account, keyHash) => account.deleteJob(keyHash, job_id));
      if (deleted === "not_found") throw new ApiError(refusalOf("job_not_found"));
      if (deleted === "not_finished") throw new ApiError(refusalOf("job_not_finished"));
      return c.body(null, 204);
    })
    .get("/:job_id/webhook", async (c) => {
      const job_id = await jobIdOf(c);
      const read = await c.get("caller").ask((account, keyHash) => account.readDelivery(keyHash, job_id));
      if (read === "not_found") throw new ApiError(refusalOf("job_not_found"));
      if (read === "no_webhook")
        throw new ApiError(refusalOf("not_found", "This job was submitted without webhook_url."));
      return c.json(presentDelivery(job_id, read));
    })
    .post("/:job_id/webhook/redeliver", async (c) => {
      const job_id = await jobIdOf(c);
      const which = { job_id, request: crypto.randomUUID() };
      const answer = await c.get("caller").ask((account, keyHash) => account.redeliver(keyHash, which));
      if (answer.kind === "not_found") throw new ApiError(refusalOf("job_not_found"));
      if (answer.kind === "not_redeliverable") throw new ApiError(refusalOf("webhook_not_redeliverable"));
      if (answer.kind === "too_many") {
        const message = `At most ${MAX_REDELIVERIES_PER_WINDOW} redeliveries of an account may be asked for in a minute.`;
        throw rateLimited(answer.reset_at, message);
      }
      return c.json(await presentJob(c.env, answer.view), 202);
    })
    .post("/:job_id/cancel", async (c) => {
      const job_id = await jobIdOf(c);
      const view = found(await c.get("caller").ask((account, keyHash) => account.cancelJob(keyHash, job_id)));
      return c.json(await presentJob(c.env, view));
    });
}
