import { checkTarget, type TargetRules } from "../../schemas/targets.ts";
import { type DeliveryFailure, RECEIVER_TIMEOUT_MS, webhookPayload } from "../../schemas/webhook.ts";
import type { AttemptReport, BeginAnswer } from "../account/notifications.ts";
import type { Env } from "../env.ts";
import { firstBytes } from "../first-bytes.ts";
import { log, reasonOf } from "../log.ts";
import { presentJob } from "../outputs/present.ts";
import type { WebhookMessage } from "./message.ts";
import { deliveryHeaders } from "./signature.ts";

/** How much of a receiver's answer is kept for its owner. */
const KEPT_ANSWER_BYTES = 1024;
/** After a fault of ours. */
const FAULT_RETRY_S = 5;

type Granted = Extract<BeginAnswer, { kind: "granted" }>;

function failureOfStatus(status: number): DeliveryFailure {
  if (status >= 300 && status < 400) return "redirect";
  if (status >= 400 && status < 500) return "http_4xx";
  return status >= 500 ? "http_5xx" : "http_other";
}

/** The platform names network faults in words only. */
function failureOfError(error: unknown): DeliveryFailure {
  if (error instanceof Error && error.name === "TimeoutError") return "timeout";
  const words = reasonOf(error).toLowerCase();
  if (words.includes("refused")) return "connection_refused";
  if (words.includes("dns") || words.includes("name not resolved")) return "dns";
  if (words.includes("tls") || words.includes("ssl") || words.includes("certificate")) return "tls";
  return "network";
}

async function attempt(env: Env, granted: Granted, targets: TargetRules): Promise<AttemptReport> {
  const started_at = Date.now();
  const report = (outcome: Omit<AttemptReport, "started_at" | "duration_ms">): AttemptReport => ({
    started_at,
    duration_ms: Date.now() - started_at,
    ...outcome,
  });
  const target = checkTarget(granted.url, targets);
  if (!target.ok) return report({ ok: false, failure: "forbidden_target", answer: target.rule });
  const record = await presentJob(env, granted.view);
  const body = JSON.stringify(webhookPayload(record));
  const headers = await deliveryHeaders({
    body,
    secret: granted.secret,
    now: started_at,
    attempt_id: crypto.randomUUID(),
    event_id: `evt_${record.job_id}`,
    event: `job.${record.status}`,
  });
  try {
    const signal = AbortSignal.timeout(RECEIVER_TIMEOUT_MS);
    const response = await fetch(target.url, { method: "POST", headers, body, redirect: "manual", signal });
    const { status } = response;
    const answer = await firstBytes(response, KEPT_ANSWER_BYTES).catch(() => "");
    return response.ok
      ? report({ ok: true, status, answer })
      : report({ ok: false, status, failure: failureOfStatus(status), answer });
  } catch (error) {
    return report({ ok: false, failure: failureOfError(error) });
  }
}

/** One message: asks the account whether it may try, tries, tells the account, and holds the message back as long as it says. */
async function consume(message: Message<WebhookMessage>, env: Env, targets: TargetRules): Promise<void> {
  const { account: account_id, job, round } = message.body;
  try {
    const account = env.ACCOUNT.getByName(account_id);
    const begun: BeginAnswer = await account.beginDelivery(job, round);
    if (begun.kind === "done") return message.ack();
    if (begun.kind === "early") return message.retry({ delaySeconds: begun.retry_in_s });
    const report = await attempt(env, begun, targets);
    log(report.ok ? "info" : "warn", "webhook_attempt", {
      job,
      n: begun.n,
      ok: report.ok,
      status: report.status,
      failure: report.failure,
      target: new URL(begun.url).origin,
      ms: report.duration_ms,
    });
    const next = await account.finishDelivery(job, round, begun.n, report);
    return next ? message.retry({ delaySeconds: next.retry_in_s }) : message.ack();
  } catch (error) {
    log("error", "webhook_fault", { job, reason: reasonOf(error) });
    message.retry({ delaySeconds: FAULT_RETRY_S });
  }
}

/** A batch in parallel, each message settled on its own: one slow receiver holds up the others' next batch only. */
export async function consumeWebhooks(
  batch: MessageBatch<WebhookMessage>,
  env: Env,
  targets: TargetRules,
): Promise<void> {
  await Promise.all(batch.messages.map((message) => consume(message, env, targets)));
}
