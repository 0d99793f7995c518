import type { MiddlewareHandler } from "hono";
import { WINDOW_MS } from "../schemas/limits.ts";
import type { WindowView } from "./account/keys.ts";
import { countAddress } from "./address-limiter.ts";
import type { AuthVariables } from "./auth.ts";
import type { Env } from "./env.ts";

function write(headers: Headers, { limit, remaining, reset_at }: WindowView, now: number): void {
  const reset = Math.max(reset_at, now);
  headers.set("X-RateLimit-Limit", String(limit));
  headers.set("X-RateLimit-Remaining", String(remaining));
  headers.set("X-RateLimit-Reset", String(Math.ceil(reset / 1000)));
  headers.set("RateLimit-Policy", `"default";q=${limit};w=${WINDOW_MS / 1000}`);
  headers.set("RateLimit", `"default";r=${remaining};t=${Math.max(0, Math.ceil((reset - now) / 1000))}`);
}

/**
 * Puts the rate headers on every response under /v1/ (spec section 8.2, contract section 3): the key's window where one is known,
 * else the client address's, looked at without counting.
 */
export const rateHeaders = (): MiddlewareHandler<{ Bindings: Env; Variables: AuthVariables }> =>
  async function rateHeadersMiddleware(c, next) {
    await next();
    const known = c.get("window") as WindowView | undefined;
    const window = known ?? (await countAddress(c.env.ADDRESS, c.req.header("cf-connecting-ip"), 0)).window;
    write(c.res.headers, window, Date.now());
  };
