import { isLoopbackHost } from "../schemas/targets.ts";
import { configOf } from "./config.ts";
import { developmentSignIn } from "./development-sign-in.tsx";
import type { Env } from "./env.ts";
import { service } from "./service.ts";

export { AccountObject } from "./account/object.ts";
export { AddressObject } from "./address-limiter.ts";
export { FleetObject } from "./fleet/object.ts";
export { Dispatcher } from "./runners/dispatcher.ts";
export { Courier } from "./webhooks/courier.ts";

/**
 * The Worker as the local start runs it; no deploy bundle contains this file. Its switches work only while the service's own
 * address and the request's Host are loopback: webhooks may go to loopback and developers sign in
 * without a provider (neither in a strict start), runners may live there.
 */
interface LocalEnv extends Env {
  /** "1": webhook targets as in production. */
  readonly LOCAL_STRICT?: string;
}

const isLocal = (env: Env): boolean => isLoopbackHost(new URL(configOf(env).baseUrl).hostname);

const isStrict = (env: LocalEnv): boolean => env.LOCAL_STRICT === "1";

export default service({
  webhookTargets: (env: LocalEnv) => ({
    ownHosts: configOf(env).ownHosts,
    loopback: isLocal(env) && !isStrict(env),
  }),
  runnerTargets: (env) => ({ ownHosts: configOf(env).ownHosts, loopback: isLocal(env) }),
  developmentSignIn: developmentSignIn(isStrict),
  guard: async function localOnly(c, next) {
    // The request's URL carries its Host header.
    if (!isLocal(c.env) || !isLoopbackHost(new URL(c.req.url).hostname)) {
      return c.text("The local service answers on loopback only.", 403);
    }
    await next();
  },
});
