import { Hono } from "hono";
import {
  EndReport,
  Heartbeat,
  type HeartbeatAnswer,
  type ProgressAnswer,
  ProgressReport,
} from "../../schemas/runner-protocol.ts";
import type { TargetRules } from "../../schemas/targets.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { authoriseCredential, authoriseLease } from "./authorise.ts";
import { edgeKeys } from "./edge-keys.ts";
import { enrol } from "./enrol.ts";
import { MAX_BODY_BYTES, runnerBody } from "./json-body.ts";
import { signCredential } from "./tokens.ts";
import { upload } from "./upload.ts";

/** When the next word of progress is welcome. */
const PROGRESS_MS = 1_000;

export interface RunnerRoutesOptions {
  /** Which URLs a runner may be enrolled at. */
  readonly runnerTargets: (env: Env) => TargetRules;
}

/** What runners call (schemas/runner-protocol.ts). Carries no rate headers and counts against nothing. */
export function runnerRoutes({ runnerTargets }: RunnerRoutesOptions) {
  return new Hono<{ Bindings: Env }>()
    .post("/enrol", (c) => enrol(c, runnerTargets(c.env)))
    .post("/heartbeat", async (c) => {
      const authorised = await authoriseCredential(c);
      if (!authorised.ok) return authorised.response;
      const body = await runnerBody(c, Heartbeat, authorised.bodySha256, MAX_BODY_BYTES.heartbeat);
      if (!body.ok) return body.response;
      const { sub, pool, cnf } = authorised.claims;
      const answer = await c.env.FLEET.getByName(pool).beat(sub, cnf.jkt, body.value);
      if (!answer)
        return c.json({ error: { code: "revoked", message: "This runner is not enrolled, or was revoked." } }, 403);
      const keys = await edgeKeys(c.env);
      if (authorised.kid === keys.kid) return c.json(answer);
      const credential = await signCredential(authorised.claims, keys, configOf(c.env).baseUrl, Date.now());
      return c.json({ ...answer, credential } satisfies HeartbeatAnswer);
    })
    .post("/progress", async (c) => {
      const authorised = await authoriseLease(c);
      if (!authorised.ok) return authorised.response;
      const body = await runnerBody(c, ProgressReport, authorised.bodySha256, MAX_BODY_BYTES.progress);
      if (!body.ok) return body.response;
      const { account, job, fence } = authorised.claims;
      const verdict = await c.env.ACCOUNT.getByName(account).progress(job, fence, body.value);
      return c.json({ fenced: verdict !== "current", next_in_ms: PROGRESS_MS } satisfies ProgressAnswer);
    })
    .put("/outputs/:n", upload)
    .post("/end", async (c) => {
      const authorised = await authoriseLease(c);
      if (!authorised.ok) return authorised.response;
      const body = await runnerBody(c, EndReport, authorised.bodySha256, MAX_BODY_BYTES.end);
      if (!body.ok) return body.response;
      const { account, job, fence, pool, sub: runner } = authorised.claims;
      const by = { pool, runner };
      const answer = await c.env.ACCOUNT.getByName(account).endExecution(job, fence, by, body.value);
      if (answer === "ok") return c.json({ ok: true });
      const refusal = {
        fenced: [409, "Another execution of this job is the current one."],
        gone: [410, "This job ended without this execution."],
        unknown: [404, "There is no such job."],
      } as const;
      const [status, message] = refusal[answer];
      return c.json({ error: { code: answer, message } }, status);
    });
}
