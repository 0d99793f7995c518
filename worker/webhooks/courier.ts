import { WorkerEntrypoint } from "cloudflare:workers";
import type { TargetRules } from "../../schemas/targets.ts";
import { RECEIVER_TIMEOUT_MS } from "../../schemas/webhook.ts";
import { CLAIM_MS } from "../account/deliveries.ts";
import type { AttemptReport, BeginAnswer } from "../account/notifications.ts";
import { noteFailedDelivery } from "../directory/failed-deliveries.ts";
import type { Env } from "../env.ts";
import { log, reasonOf } from "../log.ts";
import { attempt, type Granted } from "./attempt.ts";
import type { WebhookMessage } from "./message.ts";

/** What the consumer does with a message. */
export type Handled = { readonly kind: "ack" } | { readonly kind: "retry"; readonly delay_s: number };

const ACK: Handled = { kind: "ack" };
/** The account can't be asked. */
export const FAULT: Handled = { kind: "retry", delay_s: 5 };
/** So long a batch waits for an account's word; an object that is far away or has to start first takes some 100 ms. */
const PATIENCE_MS = 1_000;
/** A grant that came later than this leaves no time for an attempt and its report: it is left to run out. */
const GRANT_MS = CLAIM_MS - RECEIVER_TIMEOUT_MS;
/** Between two tries to tell the account what became of an attempt. */
const REPORT_RETRY_MS = 1_000;

/**
 * Carries one message: asks the account whether it may try, tries, and tells the account, which sends the next message. An
 * invocation of its own that outlives the message's batch, so that neither a slow receiver nor an absent account holds up the
 * messages beside and behind it.
 */
export class Courier extends WorkerEntrypoint<Env> {
  /** Answers as soon as the account has said whether there is anything to do, and within PATIENCE_MS. Never throws. */
  async deliver(message: WebhookMessage, targets: TargetRules): Promise<Handled> {
    const asked_at = Date.now();
    const asked = this.#begin(message);
    this.ctx.waitUntil(
      asked.then((begun) => (begun?.kind === "granted" ? this.#try(message, begun, targets, asked_at) : undefined)),
    );
    const handled = asked.then((begun): Handled => {
      if (!begun) return FAULT;
      return begun.kind === "early" ? { kind: "retry", delay_s: begun.retry_in_s } : ACK;
    });
    return Promise.race([handled, scheduler.wait(PATIENCE_MS).then(() => FAULT)]);
  }

  async #begin({ account, job, round }: WebhookMessage): Promise<BeginAnswer | undefined> {
    try {
      return await this.env.ACCOUNT.getByName(account).beginDelivery(job, round);
    } catch (error) {
      log("warn", "webhook_not_begun", { job, reason: reasonOf(error) });
      return undefined;
    }
  }

  async #try(message: WebhookMessage, begun: Granted, targets: TargetRules, asked_at: number): Promise<void> {
    const { job } = message;
    try {
      if (Date.now() > asked_at + GRANT_MS) throw new Error("The account answered too late.");
      const report = await attempt(this.env, begun, targets);
      const { ok, status, failure, duration_ms } = report;
      const target = new URL(begun.url).origin;
      log(ok ? "info" : "warn", "webhook_attempt", { job, n: begun.n, ok, status, failure, target, ms: duration_ms });
      if (await this.#report(message, begun, report)) await this.#note(message, target, report);
    } catch (error) {
      // The account's sweep goes on when the claim has run out.
      log("error", "webhook_fault", { job, n: begun.n, reason: reasonOf(error) });
    }
  }

  /**
   * Tells the account while it may still believe that the attempt is in flight, each time with a fresh stub.
   * @returns whether the round has failed with it
   */
  async #report({ account, job, round }: WebhookMessage, { n }: Granted, report: AttemptReport): Promise<boolean> {
    for (;;) {
      try {
        return await this.env.ACCOUNT.getByName(account).finishDelivery(job, round, n, report);
      } catch (error) {
        if (Date.now() + REPORT_RETRY_MS > report.started_at + CLAIM_MS) throw error;
        await scheduler.wait(REPORT_RETRY_MS);
      }
    }
  }

  /** For the operators' list of all accounts. A word that is lost, and a round that ends without a courier, miss a line there only. */
  async #note({ account, job, round }: WebhookMessage, target: string, report: AttemptReport): Promise<void> {
    const { failure = null, status = null } = report;
    try {
      await noteFailedDelivery(this.env.DIRECTORY, {
        account_id: account,
        job_id: job,
        round,
        at: Date.now(),
        target,
        failure,
        status,
      });
    } catch (error) {
      log("warn", "failed_delivery_not_noted", { job, reason: reasonOf(error) });
    }
  }
}
