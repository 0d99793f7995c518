import type { TargetRules } from "../../schemas/targets.ts";
import type { Courier } from "./courier.ts";
import type { WebhookMessage } from "./message.ts";

/** A batch in parallel, each message settled on its own. Couriers answer soon: no receiver and no account holds up a batch. */
export async function consumeWebhooks(
  batch: MessageBatch<WebhookMessage>,
  couriers: Pick<Courier, "deliver">,
  targets: TargetRules,
): Promise<void> {
  await Promise.all(
    batch.messages.map(async (message) => {
      const handled = await couriers.deliver(message.body, targets);
      if (handled.kind === "ack") message.ack();
      else message.retry({ delaySeconds: handled.delay_s });
    }),
  );
}
