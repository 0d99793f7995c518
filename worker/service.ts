import { createApp, type Switches } from "./app.ts";
import type { Env } from "./env.ts";
import { consumeWebhooks } from "./webhooks/consumer.ts";
import type { WebhookMessage } from "./webhooks/message.ts";

/** The Worker's handlers for one set of switches. */
export function service(switches: Switches) {
  const app = createApp(switches);
  return {
    fetch: (request, env, ctx) => app.fetch(request, env, ctx),
    queue: (batch, env, ctx) => consumeWebhooks(batch, ctx.exports.Courier, switches.webhookTargets(env)),
  } satisfies ExportedHandler<Env, WebhookMessage>;
}
