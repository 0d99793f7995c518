import { Hono, type MiddlewareHandler } from "hono";
import { base64url } from "jose";
import * as v from "valibot";
import { apiKey, KEY_PREFIX_LENGTH } from "../../schemas/api-key.ts";
import { AccountId, accountId, DEFAULT_POOL, PoolName } from "../../schemas/ids.ts";
import { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import type { AccountObject } from "../account/object.ts";
import { countAddress } from "../address-limiter.ts";
import { findAccount, insertAccount, insertKey } from "../directory/directory.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import { enrolToken } from "../runners/enrol.ts";

/** An enrolment token is good for an hour. */
const ENROL_TOKEN_MS = 3_600_000;
const KeyName = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(100));

const NewAccount = v.object({
  email: v.pipe(v.string(), v.maxLength(254), v.regex(/^[^\s@]+@[^\s@]+$/, "must be an e-mail address")),
  tier: Tier,
  pool: v.optional(PoolName, DEFAULT_POOL),
});
const NewKeyBody = v.object({ name: KeyName });
const TierBody = v.object({ tier: Tier });
const RevokeBody = v.object({ key: v.pipe(v.string(), v.length(KEY_PREFIX_LENGTH)) });
const NewToken = v.object({
  pool: v.optional(PoolName, DEFAULT_POOL),
  max_seats: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(64)), 8),
});

/** Spec section 2.3: 64 hexadecimal characters. */
const newWebhookSecret = (): string => [...random(32)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const random = (bytes: number): Uint8Array => crypto.getRandomValues(new Uint8Array(bytes));

/** Lets in who shows one of the operator's tokens; wrong ones are counted by address. */
const operatorOnly = (): MiddlewareHandler<{ Bindings: Env }> =>
  async function operatorOnlyMiddleware(c, next) {
    const [, token] = /^Bearer +(\S+)$/i.exec(c.req.header("authorization") ?? "") ?? [];
    const hashes = c.env.OPERATOR_TOKEN_HASHES.split(",").filter((hash) => hash !== "");
    if (token === undefined || !hashes.includes(await sha256(token))) {
      const { allowed } = await countAddress(c.env.ADDRESS, c.req.header("cf-connecting-ip"), 1);
      if (!allowed)
        throw new ApiError(refusalOf("rate_limit_exceeded", "Too many attempts from this address."), {
          "Retry-After": "60",
        });
      throw new ApiError(
        refusalOf("invalid_auth_format", "An operator token is needed: Authorization: Bearer <token>."),
      );
    }
    await next();
  };

async function body<S extends v.GenericSchema>(request: Request, schema: S): Promise<v.InferOutput<S>> {
  const text = await request.text();
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), schema), text === "" ? "{}" : text);
  if (parsed.success) return parsed.output;
  const [issue] = parsed.issues;
  const field = String(issue.path?.[0]?.key ?? "body");
  throw new ApiError({ code: "invalid_request", message: `${field}: ${issue.message}`, details: { field } });
}

function poolOf(pool = DEFAULT_POOL): string {
  if (v.is(PoolName, pool)) return pool;
  throw new ApiError({ code: "invalid_request", message: "pool is malformed.", details: { field: "pool" } });
}

async function knownAccount(env: Env, account_id: string): Promise<DurableObjectStub<AccountObject>> {
  const known = v.is(AccountId, account_id) && (await findAccount(env.DIRECTORY, account_id));
  if (!known) throw new ApiError(refusalOf("not_found", "There is no such account."));
  return env.ACCOUNT.getByName(account_id);
}

/** Makes a key: known to its account first, shown only when the directory holds it. */
async function createKey(
  env: Env,
  account_id: string,
  account: DurableObjectStub<AccountObject>,
  name: string,
): Promise<string> {
  const key = apiKey(random(32));
  const key_hash = await sha256(key);
  const added = await account.addKey({ key_hash, prefix: key.slice(0, KEY_PREFIX_LENGTH), name });
  if (!added.ok) {
    const message =
      added.reason === "too_many_keys" ? "The account has 20 keys." : "The account made 20 keys within a day.";
    throw new ApiError({ code: "invalid_request", message });
  }
  await insertKey(env.DIRECTORY, key_hash, account_id, Date.now());
  return key;
}

/** What the operator's script calls. JSON in, one JSON object out; refusals in the envelope. */
export const operatorRoutes = new Hono<{ Bindings: Env }>()
  .use(operatorOnly())
  .post("/accounts", async (c) => {
    const { email, tier, pool } = await body(c.req.raw, NewAccount);
    const account_id = accountId(random(20));
    const webhook_secret = newWebhookSecret();
    const account = c.env.ACCOUNT.getByName(account_id);
    await account.create({ account_id, tier, pool, suspended: false, webhook_secret });
    await insertAccount(c.env.DIRECTORY, { account_id, email, pool, created_at: Date.now() });
    const api_key = await createKey(c.env, account_id, account, "first key");
    return c.json({ account_id, api_key, webhook_secret }, 201);
  })
  .post("/accounts/:account/tier", async (c) => {
    const { tier } = await body(c.req.raw, TierBody);
    const account = await knownAccount(c.env, c.req.param("account"));
    await account.setTier(tier);
    return c.json({ account_id: c.req.param("account"), tier });
  })
  .post("/accounts/:account/suspend", async (c) => {
    await (await knownAccount(c.env, c.req.param("account"))).setSuspended(true);
    return c.json({ account_id: c.req.param("account"), suspended: true });
  })
  .post("/accounts/:account/resume", async (c) => {
    await (await knownAccount(c.env, c.req.param("account"))).setSuspended(false);
    return c.json({ account_id: c.req.param("account"), suspended: false });
  })
  .post("/accounts/:account/webhook-secret", async (c) => {
    const account_id = c.req.param("account");
    const account = await knownAccount(c.env, account_id);
    const webhook_secret = newWebhookSecret();
    await account.replaceWebhookSecret(webhook_secret);
    return c.json({ account_id, webhook_secret, standard_webhooks_secret: `whsec_${btoa(webhook_secret)}` }, 201);
  })
  .post("/accounts/:account/keys", async (c) => {
    const { name } = await body(c.req.raw, NewKeyBody);
    const account_id = c.req.param("account");
    const account = await knownAccount(c.env, account_id);
    const api_key = await createKey(c.env, account_id, account, name);
    return c.json({ account_id, name, api_key }, 201);
  })
  .post("/accounts/:account/keys/revoke", async (c) => {
    const { key } = await body(c.req.raw, RevokeBody);
    const account_id = c.req.param("account");
    const revoked = await (await knownAccount(c.env, account_id)).revokeKey(key);
    if (revoked.ok) return c.json({ account_id, key, revoked: true });
    if (revoked.reason === "unknown")
      throw new ApiError(refusalOf("not_found", "The account has no key that begins so."));
    throw new ApiError({
      code: "invalid_request",
      message: "Several keys begin so; revoke the one you mean in the portal.",
    });
  })
  .post("/runner-tokens", async (c) => {
    const { pool, max_seats } = await body(c.req.raw, NewToken);
    const token = enrolToken(pool, base64url.encode(random(32)));
    const expires_at = Date.now() + ENROL_TOKEN_MS;
    await c.env.FLEET.getByName(pool).putToken({ token_hash: await sha256(token), max_seats, expires_at });
    return c.json({ token, pool, max_seats, expires_at: new Date(expires_at).toISOString() }, 201);
  })
  .get("/runners", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    return c.json({ pool, runners: await c.env.FLEET.getByName(pool).runners() });
  })
  .post("/runners/:runner/revoke", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner_id = c.req.param("runner");
    const revoked = await c.env.FLEET.getByName(pool).revoke(runner_id);
    if (!revoked) throw new ApiError(refusalOf("not_found", "The pool has no such runner."));
    return c.json({ pool, runner_id, revoked: true });
  })
  .post("/runners/:runner/drain", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner_id = c.req.param("runner");
    const drained = await c.env.FLEET.getByName(pool).drain(runner_id);
    if (!drained) throw new ApiError(refusalOf("not_found", "The pool has no such runner."));
    return c.json({ pool, runner_id, draining: true });
  })
  .get("/fleet", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    return c.json({ pool, ...(await c.env.FLEET.getByName(pool).status()) });
  });
