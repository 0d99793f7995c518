import type { TargetRules } from "../../schemas/targets.ts";
import { log, reasonOf } from "../log.ts";
import { type Courier, FAULT } from "./courier.ts";
import type { WebhookMessage } from "./message.ts";

/** A batch in parallel, each message settled on its own. Couriers answer soon: no receiver and no account holds up a batch. */
export async function consumeWebhooks(
  batch: MessageBatch<WebhookMessage>,
  couriers: Pick<Courier, "deliver">,
  targets: TargetRules,
): Promise<void> {
  await Promise.all(
    batch.messages.map(async (message) => {
      const handled = await couriers.deliver(message.body, targets).catch((error) => {
        log("warn", "courier_lost", { job: message.body.job, reason: reasonOf(error) });
        return FAULT;
      });
      if (handled.kind === "ack") message.ack();
      else message.retry({ delaySeconds: handled.delay_s });
    }),
  );
}
