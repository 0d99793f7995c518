import type { Context } from "hono";
import { v7 as uuidv7 } from "uuid";
import type { Refusal } from "../../schemas/error.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import type { TargetRules } from "../../schemas/targets.ts";
import type { IdempotencyClaim } from "../account/idempotency.ts";
import { promptKey } from "../account/outbox.ts";
import type { JobView } from "../account/record.ts";
import type { Submitted } from "../account/requests.ts";
import type { AuthVariables } from "../auth.ts";
import { catalogueOf } from "../catalogue.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { presentJob } from "../outputs/present.ts";
import { preferredWait } from "./preference.ts";
import { type JudgedSubmission, judgeSubmission } from "./submission.ts";

type JobContext = Context<{ Bindings: Env; Variables: AuthVariables }>;

/** A prompt up to this size lies in a row beside its job; a larger one in R2. */
const ROW_PROMPT_BYTES = 128 * 1024;

const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

const REUSED: Refusal = {
  code: "idempotency_key_reused",
  message: "This Idempotency-Key was used with another body.",
  details: { field: "Idempotency-Key" },
};

/** What the account refuses, in the API's words. */
function refusalIn(submitted: Exclude<Submitted, { kind: "stored" }>): ApiError {
  if (submitted.kind === "reused") return new ApiError(REUSED);
  if (submitted.kind === "deleted") return new ApiError(refusalOf("job_not_found"));
  const { limit, queued } = submitted;
  const message = `This key's ${limit} queue places are taken. Wait for jobs to end.`;
  return new ApiError({ code: "queue_full", message, details: { limit, queued } }, { "Retry-After": "1" });
}

/** The job of a judged submission, new or replayed. A prompt that nobody needs after an explicit refusal is removed again. */
async function store(
  c: JobContext,
  { prompt, ...submission }: JudgedSubmission,
  idempotency: IdempotencyClaim | undefined,
): Promise<Extract<Submitted, { kind: "stored" }>> {
  const caller = c.get("caller");
  const job_id = uuidv7();
  const inRow = prompt.length <= ROW_PROMPT_BYTES;
  const key = promptKey(caller.account, job_id);
  const forget = (): void => {
    if (!inRow) c.executionCtx.waitUntil(c.env.STORE.delete(key));
  };
  if (!inRow) await c.env.STORE.put(key, prompt);
  const order = {
    job_id,
    ...submission,
    ...(inRow ? { prompt: new TextDecoder().decode(prompt) } : {}),
    ...(idempotency ? { idempotency } : {}),
  };
  let tries = 0;
  try {
    const submitted = await caller.ask((account, keyHash) => {
      tries++;
      return account.submit(keyHash, order);
    });
    if (submitted.kind !== "stored") throw refusalIn(submitted);
    if (submitted.replayed && tries === 1) forget();
    return submitted;
  } catch (error) {
    // After an unknown outcome, of an earlier try too, the job may be stored, and needs its prompt.
    if (error instanceof ApiError && error.refusal.code !== "service_unavailable" && tries <= 1) forget();
    throw error;
  }
}

/** Waits for the end in a call of its own. A wait that breaks costs the wait only: the job is stored. */
async function awaitEnd(c: JobContext, view: JobView, wait_s: number): Promise<JobView> {
  if (view.record.expires_at !== undefined) return view;
  try {
    const { job_id } = view.record;
    return (await c.get("caller").ask((account, keyHash) => account.awaitSubmitted(keyHash, job_id, wait_s))) ?? view;
  } catch (error) {
    const { code } = error instanceof ApiError ? error.refusal : {};
    // Busy or broken, or too many waits open: the answer is 202 at once. A key that was revoked meanwhile gets none.
    if (code === "revoked_api_key" || code === "account_suspended") throw error;
    return view;
  }
}

/** `POST /v1/jobs` (spec section 4.1, contract section 2). */
export async function submitJob(c: JobContext, targets: TargetRules): Promise<Response> {
  const caller = c.get("caller");
  const idempotency_key = c.req.header("idempotency-key");
  const verdict = await judgeSubmission(c.req.raw, targets, await catalogueOf(c.env, Date.now()));
  const wellFormed = idempotency_key === undefined || IDEMPOTENCY_KEY.test(idempotency_key);
  if (!wellFormed && verdict.body) {
    const message = "Idempotency-Key must have 1 to 255 visible ASCII characters.";
    throw await caller.refuse({ code: "invalid_request", message, details: { field: "Idempotency-Key" } });
  }
  const claim =
    idempotency_key !== undefined && verdict.body
      ? { idempotency_key, body_sha256: await sha256(verdict.body) }
      : undefined;
  if (!verdict.ok) {
    if (!claim) throw await caller.refuse(verdict.refusal);
    const reused = await caller.ask((account, keyHash) => account.isReused(keyHash, claim));
    throw new ApiError(reused ? REUSED : verdict.refusal);
  }

  const { view, replayed } = await store(c, verdict.submission, claim);
  const wait_s = preferredWait(c.req.header("prefer"));
  const seen = wait_s === undefined ? view : await awaitEnd(c, view, wait_s);
  const ended = seen.record.expires_at !== undefined;
  if (wait_s !== undefined) c.header("Preference-Applied", `wait=${wait_s}`);
  if (replayed !== undefined) c.header("Idempotent-Replayed", "true");
  const record = await presentJob(c.env, seen);
  c.header("Location", record.urls.self);
  if (!ended) c.header("Retry-After", "1");
  return c.json(record, replayed ?? (wait_s !== undefined && ended ? 200 : 202));
}
