import type { Context, MiddlewareHandler } from "hono";
import { isLiveKey, isTestKey } from "../schemas/api-key.ts";
import type { Refusal } from "../schemas/error.ts";
import { sha256 } from "../schemas/signed-request.ts";
import type { AccountObject } from "./account/object.ts";
import type { Gate, WindowView } from "./account/keys.ts";
import type { Gated } from "./account/requests.ts";
import { MAX_WAITS } from "./account/waits.ts";
import { countAddress } from "./address-limiter.ts";
import { accountOfKey } from "./directory/directory.ts";
import type { Env } from "./env.ts";
import { ApiError, refusalOf } from "./errors.ts";
import { RememberedRefusals } from "./remembered-refusals.ts";

/** Whoever asks, and the one way to ask the account on their behalf. */
export interface Caller {
  readonly account: string;
  readonly keyHash: string;
  /**
   * Calls one verb of the account object: the request's only round trip. Sets the rate headers; throws ApiError where the gate
   * is closed. After a broken connection the same call is repeated with a fresh stub, so verbs are idempotent.
   */
  ask<T>(verb: (account: DurableObjectStub<AccountObject>, keyHash: string) => Promise<Gated<T>>): Promise<T>;
  /** Counts a request that is refused for a reason of its own, and returns that refusal to be thrown. */
  refuse(refusal: Refusal, headers?: Record<string, string>): Promise<ApiError>;
}

export interface AuthVariables {
  caller: Caller;
  /** What the rate headers will show. */
  window: WindowView;
}

type AuthContext = Context<{ Bindings: Env; Variables: AuthVariables }>;

/** Calls of an account are tried this often, each time with a fresh stub. */
const TRIES = 3;

const refusals = new RememberedRefusals();

const isBroken = (error: unknown): boolean =>
  error instanceof Error &&
  "retryable" in error &&
  error.retryable === true &&
  !("overloaded" in error && error.overloaded);

async function callAccount<T>(
  env: Env,
  account: string,
  verb: (stub: DurableObjectStub<AccountObject>) => Promise<T>,
): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await verb(env.ACCOUNT.getByName(account));
    } catch (error) {
      if (error instanceof Error && "overloaded" in error && error.overloaded) {
        throw new ApiError(refusalOf("service_unavailable"), { "Retry-After": "1" });
      }
      if (!isBroken(error)) throw error;
      if (tries >= TRIES) throw new ApiError(refusalOf("service_unavailable"), { "Retry-After": "1" });
    }
  }
}

/** Takes the window for the headers, and throws what the gate refuses. */
function pass(c: AuthContext, gate: Gate): void {
  if (gate.window) c.set("window", gate.window);
  if (gate.ok) return;
  if (gate.code === "too_many_waits") {
    const refusal = refusalOf("rate_limit_exceeded", `At most ${MAX_WAITS} requests of a key may wait at once.`);
    throw new ApiError(refusal, { "Retry-After": "1" });
  }
  if (gate.code !== "rate_limit_exceeded") throw new ApiError(refusalOf(gate.code));
  throw rateLimited(gate.window?.reset_at ?? Date.now());
}

/** @param what which window is used up; the answer says when it resets */
export function rateLimited(reset_at: number, what = "Too many requests."): ApiError {
  const seconds = Math.max(1, Math.ceil((reset_at - Date.now()) / 1000));
  return new ApiError(refusalOf("rate_limit_exceeded", `${what} The window resets in ${seconds} s.`), {
    "Retry-After": String(seconds),
  });
}

function callerOf(c: AuthContext, account: string, keyHash: string): Caller {
  const caller: Caller = {
    account,
    keyHash,
    async ask(verb) {
      const known = refusals.recall(keyHash, Date.now());
      if (known) pass(c, known);
      const { gate, value } = await callAccount(c.env, account, (stub) => verb(stub, keyHash));
      refusals.remember(keyHash, gate);
      pass(c, gate);
      return value as Exclude<typeof value, undefined>;
    },
    async refuse(refusal, headers = {}) {
      await caller.ask(async (stub, hash) => ({ gate: await stub.count(hash) }));
      return new ApiError(refusal, headers);
    },
  };
  return caller;
}

/** A request whose key can't be used: counted by its address, then refused (contract section 3). */
async function refuseStranger(c: AuthContext, refusal: Refusal): Promise<never> {
  const { allowed, window } = await countAddress(c.env.ADDRESS, c.req.header("cf-connecting-ip"), 1);
  c.set("window", window);
  throw allowed ? new ApiError(refusal) : rateLimited(window.reset_at);
}

function missingAuth(c: AuthContext): Refusal {
  const inUrl = /sk_(live|test)_/.test(c.req.url);
  const hint = inUrl ? " A key in the URL is never accepted; treat that one as leaked." : "";
  return refusalOf("missing_auth", `Send your API key in the header "Authorization: Bearer <API_KEY>".${hint}`);
}

/**
 * Resolves the Authorization header to a caller (spec section 5). What is known to be refused is refused here without a call:
 * a revoked key for good, an exhausted window until its reset.
 */
export const authenticate = (): MiddlewareHandler<{ Bindings: Env; Variables: AuthVariables }> =>
  async function authenticateMiddleware(c, next) {
    const header = c.req.header("authorization");
    if (header === undefined) return refuseStranger(c, missingAuth(c));
    const [, key] = /^bearer +([^\s,]+)$/i.exec(header.trim()) ?? [];
    if (key === undefined) {
      return refuseStranger(
        c,
        refusalOf("invalid_auth_format", 'The Authorization header must be "Bearer <API_KEY>".'),
      );
    }
    if (isTestKey(key)) {
      return refuseStranger(
        c,
        refusalOf("invalid_api_key", "Sandbox keys (sk_test_) are not available yet. Use a live key."),
      );
    }
    if (!isLiveKey(key)) return refuseStranger(c, refusalOf("invalid_api_key"));
    const keyHash = await sha256(key);
    const account = await accountOfKey(c.env, keyHash);
    if (account === undefined) return refuseStranger(c, refusalOf("invalid_api_key"));
    c.set("caller", callerOf(c, account, keyHash));
    await next();
  };
