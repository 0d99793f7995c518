import { checkTarget, type TargetRules } from "../../schemas/targets.ts";
import { eventIdOf, RECEIVER_TIMEOUT_MS, webhookPayload } from "../../schemas/webhook.ts";
import type { AttemptReport, BeginAnswer } from "../account/notifications.ts";
import type { Env } from "../env.ts";
import { bytesInTime } from "../first-bytes.ts";
import { presentJob } from "../outputs/present.ts";
import { failureOfAnswer, failureOfError } from "./failures.ts";
import { deliveryHeaders } from "./signature.ts";

/** How much of a receiver's answer is kept for its owner. */
const KEPT_ANSWER_BYTES = 1024;
/** The status line has decided; the answer's text gets this much longer. */
const ANSWER_TEXT_MS = 200;

export type Granted = Extract<BeginAnswer, { kind: "granted" }>;

/** An answer may repeat what of its URL is secret. */
function withoutSecrets(answer: string, { pathname, search }: URL): string {
  const parts = [pathname + search, pathname, search].filter((part) => part.length > 1);
  return parts.reduce((text, part) => text.replaceAll(part, "…"), answer);
}

/** One attempt of a delivery (spec section 6): posts the notification once. Whatever the receiver does is the report. */
export async function attempt(env: Env, granted: Granted, targets: TargetRules): Promise<AttemptReport> {
  const started_at = Date.now();
  const attempt_id = crypto.randomUUID();
  const report = (outcome: Omit<AttemptReport, "attempt_id" | "started_at" | "duration_ms">): AttemptReport => ({
    attempt_id,
    started_at,
    duration_ms: Date.now() - started_at,
    ...outcome,
  });
  const target = checkTarget(granted.url, targets);
  if (!target.ok) return report({ ok: false, failure: "forbidden_target", rule: target.rule });
  const record = await presentJob(env, granted.view);
  const body = JSON.stringify(webhookPayload(record));
  const headers = await deliveryHeaders({
    body,
    secrets: granted.secrets,
    now: started_at,
    attempt_id,
    event_id: eventIdOf(record.job_id),
    event: `job.${record.status}`,
  });
  try {
    const signal = AbortSignal.timeout(RECEIVER_TIMEOUT_MS);
    const response = await fetch(target.url, { method: "POST", headers, body, redirect: "manual", signal });
    const answered_ms = Date.now() - started_at;
    const answer = withoutSecrets(await bytesInTime(response, KEPT_ANSWER_BYTES, ANSWER_TEXT_MS), target.url);
    const { status } = response;
    const failure = response.ok ? undefined : failureOfAnswer(status, answer);
    return {
      ...report({ ok: response.ok, status, answer, ...(failure ? { failure } : {}) }),
      duration_ms: answered_ms,
    };
  } catch (error) {
    return report({ ok: false, failure: failureOfError(error) });
  }
}
