import { configOf } from "./config.ts";
import type { Env } from "./env.ts";
import { service } from "./service.ts";

export { AccountObject } from "./account/object.ts";
export { AddressObject } from "./address-limiter.ts";
export { FleetObject } from "./fleet/object.ts";
export { Dispatcher } from "./runners/dispatcher.ts";
export { Courier } from "./webhooks/courier.ts";

const publicOnly = (env: Env) => ({ ownHosts: configOf(env).ownHosts, loopback: false });

export default service({ webhookTargets: publicOnly, runnerTargets: publicOnly });
