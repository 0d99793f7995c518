import { base64url } from "jose";
import { Hono } from "hono";
import * as v from "valibot";
import { v7 as uuidv7 } from "uuid";
import type { Refusal } from "../../schemas/error.ts";
import { JobId } from "../../schemas/ids.ts";
import type { JobList } from "../../schemas/job.ts";
import type { TargetRules } from "../../schemas/targets.ts";
import { promptKey } from "../account/outbox.ts";
import type { AuthVariables } from "../auth.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { presentJob } from "../outputs/present.ts";
import { judgeSubmission } from "./submission.ts";

/** A prompt up to this size lies in a row beside its job; a larger one in R2. */
const ROW_PROMPT_BYTES = 128 * 1024;

const ListQuery = v.object({
  limit: v.optional(v.pipe(v.string(), v.regex(/^\d{1,9}$/), v.transform(Number), v.minValue(1)), "20"),
  cursor: v.optional(v.pipe(v.string(), v.maxLength(64))),
});
const MAX_PAGE = 100;

/** A cursor is opaque to clients: the sequence number of the last row they saw. */
const encodeCursor = (seq: number): string => base64url.encode(String(seq));

function decodeCursor(cursor: string): number | undefined {
  try {
    const text = new TextDecoder().decode(base64url.decode(cursor));
    return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}

const invalid = (field: string, message: string): Refusal => ({
  code: "invalid_request",
  message: `${field} ${message}`,
  details: { field },
});

export interface JobRoutesOptions {
  /** Which webhook URLs may be given. */
  readonly webhookTargets: (env: Env) => TargetRules;
}

/** Submit, read and list jobs (spec section 4, contract section 2). */
export function jobRoutes({ webhookTargets }: JobRoutesOptions) {
  return new Hono<{ Bindings: Env; Variables: AuthVariables }>()
    .post("/", async (c) => {
      const caller = c.get("caller");
      const verdict = await judgeSubmission(c.req.raw, webhookTargets(c.env));
      if (!verdict.ok) throw await caller.refuse(verdict.refusal);
      const { prompt, ...submission } = verdict.submission;
      const job_id = uuidv7();
      const inRow = prompt.length <= ROW_PROMPT_BYTES;
      const key = promptKey(caller.account, job_id);
      if (!inRow) await c.env.STORE.put(key, prompt);
      const text = inRow ? { prompt: new TextDecoder().decode(prompt) } : {};
      try {
        const submitted = await caller.ask((account, keyHash) =>
          account.submit(keyHash, { job_id, ...text, ...submission }),
        );
        if (!submitted.ok) {
          const { limit, queued } = submitted;
          throw new ApiError(
            {
              code: "queue_full",
              message: `This key's ${limit} queue places are taken. Wait for jobs to end.`,
              details: { limit, queued },
            },
            { "Retry-After": "1" },
          );
        }
        const record = await presentJob(c.env, submitted.view);
        return c.json(record, 202, { Location: record.urls.self });
      } catch (error) {
        // Only an explicit refusal says that nobody needs the stored prompt; after an unknown outcome it stays.
        if (!inRow && error instanceof ApiError && error.refusal.code !== "service_unavailable") {
          c.executionCtx.waitUntil(c.env.STORE.delete(key));
        }
        throw error;
      }
    })
    .get("/", async (c) => {
      const caller = c.get("caller");
      const query = v.safeParse(ListQuery, c.req.query());
      if (!query.success) {
        const field = String(query.issues[0].path?.[0]?.key);
        throw await caller.refuse(
          invalid(field, field === "limit" ? "must be an integer of at least 1." : "is not one of ours."),
        );
      }
      const { limit, cursor } = query.output;
      const before = cursor === undefined ? undefined : decodeCursor(cursor);
      if (cursor !== undefined && before === undefined)
        throw await caller.refuse(invalid("cursor", "is not one of ours."));
      const page = { limit: Math.min(limit, MAX_PAGE), ...(before === undefined ? {} : { before }) };
      const { jobs, has_more } = await caller.ask((account, keyHash) => account.listJobs(keyHash, page));
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
      const job_id = c.req.param("job_id");
      if (!v.is(JobId, job_id)) throw await caller.refuse(refusalOf("job_not_found"));
      const view = await caller.ask((account, keyHash) => account.getJob(keyHash, job_id));
      if (!view) throw new ApiError(refusalOf("job_not_found"));
      if (!view.record.expires_at) c.header("Retry-After", "1");
      return c.json(await presentJob(c.env, view));
    });
}
