import { WorkerEntrypoint } from "cloudflare:workers";
import type { TargetRules } from "../../schemas/targets.ts";
import { CLAIM_MS } from "../account/deliveries.ts";
import type { AttemptReport, BeginAnswer } from "../account/notifications.ts";
import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { attempt, type Granted } from "./attempt.ts";
import type { WebhookMessage } from "./message.ts";

/** What the consumer does with a message. */
export type Handled =
  /** Nobody needs it any more, or the courier goes on without it. */
  { readonly kind: "ack" } | { readonly kind: "retry"; readonly delay_s: number };

/** A batch waits this long for its couriers: whoever needs longer goes on without the message. */
const PATIENCE_MS = 100;
/** After a fault of ours. */
const FAULT_RETRY_S = 5;
/** Between two tries to tell the account what became of an attempt. */
const REPORT_RETRY_MS = 1_000;

const ACK: Handled = { kind: "ack" };

/**
 * Carries one message: asks the account whether it may try, tries, and tells the account. An invocation of its own, so that neither
 * a slow receiver nor an absent account holds up the messages beside and behind it.
 */
export class Courier extends WorkerEntrypoint<Env> {
  /** Never throws. Answers within PATIENCE_MS, done or not. */
  async deliver(message: WebhookMessage, targets: TargetRules): Promise<Handled> {
    let answered = false;
    const work = this.#handle(message, targets).then(async (handled) => {
      if (answered && handled.kind === "retry")
        await this.env.WEBHOOKS.send(message, { delaySeconds: handled.delay_s });
      return handled;
    });
    this.ctx.waitUntil(
      work.catch((error) => log("warn", "webhook_message_lost", { job: message.job, reason: reasonOf(error) })),
    );
    const patience = scheduler.wait(PATIENCE_MS).then(() => {
      answered = true;
      return ACK;
    });
    return Promise.race([work, patience]);
  }

  async #handle(message: WebhookMessage, targets: TargetRules): Promise<Handled> {
    const { account, job, round } = message;
    try {
      const begun: BeginAnswer = await this.env.ACCOUNT.getByName(account).beginDelivery(job, round);
      if (begun.kind === "done") return ACK;
      if (begun.kind === "early") return { kind: "retry", delay_s: begun.retry_in_s };
      const report = await attempt(this.env, begun, targets);
      const { ok, status, failure, duration_ms } = report;
      const target = new URL(begun.url).origin;
      log(ok ? "info" : "warn", "webhook_attempt", { job, n: begun.n, ok, status, failure, target, ms: duration_ms });
      const next = await this.#report(message, begun, report);
      return next ? { kind: "retry", delay_s: next.retry_in_s } : ACK;
    } catch (error) {
      log("error", "webhook_fault", { job, reason: reasonOf(error) });
      return { kind: "retry", delay_s: FAULT_RETRY_S };
    }
  }

  /** Tells the account while it may still believe that the attempt is in flight, each time with a fresh stub. */
  async #report({ account, job, round }: WebhookMessage, { n }: Granted, report: AttemptReport) {
    for (;;) {
      try {
        return await this.env.ACCOUNT.getByName(account).finishDelivery(job, round, n, report);
      } catch (error) {
        if (Date.now() + REPORT_RETRY_MS > report.started_at + CLAIM_MS) throw error;
        await scheduler.wait(REPORT_RETRY_MS);
      }
    }
  }
}
