import { Hono, type MiddlewareHandler } from "hono";
import { base64url } from "jose";
import * as v from "valibot";
import { KEY_PREFIX_LENGTH } from "../../schemas/api-key.ts";
import { AccountId, DEFAULT_POOL, PoolName } from "../../schemas/ids.ts";
import { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { newKey, standardWebhooksSecret } from "../accounts.ts";
import { countAddress } from "../address-limiter.ts";
import { findAccount } from "../directory/directory.ts";
import type { Env } from "../env.ts";
import { ApiError, refusalOf } from "../errors.ts";
import * as actions from "./actions.ts";
import { SCRIPT } from "./actions.ts";
import { invite, type Invited, MAX_NOTE } from "./invitations.ts";

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

const NewInvitation = v.object({
  account_id: v.optional(AccountId),
  tier: v.optional(Tier),
  note: v.optional(v.pipe(v.string(), v.trim(), v.maxLength(MAX_NOTE)), ""),
});

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

const NO_SUCH_ACCOUNT = refusalOf("not_found", "There is no such account.");

async function knownAccount(env: Env, account_id: string): Promise<string> {
  const known = v.is(AccountId, account_id) && (await findAccount(env.DIRECTORY, account_id));
  if (!known) throw new ApiError(NO_SUCH_ACCOUNT);
  return account_id;
}

/** Makes a key; it is shown only when account and directory know it. */
async function createKey(env: Env, account_id: string, name: string): Promise<string> {
  const { key, key_hash, prefix } = await newKey();
  const added = await actions.addKey(env, SCRIPT, account_id, { key_hash, prefix, name });
  if (added.ok) return key;
  const message =
    added.reason === "too_many_keys" ? "The account has 20 keys." : "The account made 20 keys within a day.";
  throw new ApiError({ code: "invalid_request", message });
}

const NO_SUCH_RUNNER = refusalOf("not_found", "The pool has no such runner.");

/** What the operator's script calls. JSON in, one JSON object out; refusals in the envelope. */
export const operatorRoutes = new Hono<{ Bindings: Env }>()
  .use(operatorOnly())
  .post("/accounts", async (c) => {
    const { email, tier, pool } = await body(c.req.raw, NewAccount);
    const { account_id, webhook_secret } = await actions.openAccount(c.env, SCRIPT, { email, tier, pool });
    const api_key = await createKey(c.env, account_id, "first key");
    return c.json({ account_id, api_key, webhook_secret }, 201);
  })
  .post("/accounts/:account/tier", async (c) => {
    const { tier } = await body(c.req.raw, TierBody);
    const account_id = await knownAccount(c.env, c.req.param("account"));
    await actions.changeTier(c.env, SCRIPT, account_id, tier);
    return c.json({ account_id, tier });
  })
  .post("/accounts/:account/suspend", async (c) => {
    const account_id = await knownAccount(c.env, c.req.param("account"));
    await actions.setSuspended(c.env, SCRIPT, account_id, true);
    return c.json({ account_id, suspended: true });
  })
  .post("/accounts/:account/resume", async (c) => {
    const account_id = await knownAccount(c.env, c.req.param("account"));
    await actions.setSuspended(c.env, SCRIPT, account_id, false);
    return c.json({ account_id, suspended: false });
  })
  .post("/accounts/:account/webhook-secret", async (c) => {
    const account_id = await knownAccount(c.env, c.req.param("account"));
    const { webhook_secret } = await actions.renewWebhookSecret(c.env, SCRIPT, account_id);
    return c.json(
      { account_id, webhook_secret, standard_webhooks_secret: standardWebhooksSecret(webhook_secret) },
      201,
    );
  })
  .post("/accounts/:account/keys", async (c) => {
    const { name } = await body(c.req.raw, NewKeyBody);
    const account_id = await knownAccount(c.env, c.req.param("account"));
    const api_key = await createKey(c.env, account_id, name);
    return c.json({ account_id, name, api_key }, 201);
  })
  .post("/accounts/:account/keys/revoke", async (c) => {
    const { key } = await body(c.req.raw, RevokeBody);
    const account_id = await knownAccount(c.env, c.req.param("account"));
    const revoked = await actions.revokeKey(c.env, SCRIPT, account_id, key);
    if (revoked.ok) return c.json({ account_id, key, revoked: true });
    if (revoked.reason === "unknown")
      throw new ApiError(refusalOf("not_found", "The account has no key that begins so."));
    throw new ApiError({
      code: "invalid_request",
      message: "Several keys begin so; revoke the one you mean in the portal.",
    });
  })
  .post("/invitations", async (c) => {
    const { account_id, tier, note } = await body(c.req.raw, NewInvitation);
    if (account_id !== undefined && tier !== undefined)
      throw new ApiError({
        code: "invalid_request",
        message: "Give account_id to have that account claimed, or tier for a new one, not both.",
        details: { field: "tier" },
      });
    const invited: Invited =
      account_id === undefined ? { kind: "new", tier: tier ?? "free" } : { kind: "claim", account_id };
    const made = await invite(c.env, SCRIPT, invited, { note, token: base64url.encode(random(32)) });
    if (!made.ok) {
      if (made.reason === "no_such_account") throw new ApiError(NO_SUCH_ACCOUNT);
      const message = "Somebody signs in to that account already.";
      throw new ApiError({ code: "invalid_request", message, details: { field: "account_id" } });
    }
    return c.json({ url: made.url, expires_at: new Date(made.expires_at).toISOString() }, 201);
  })
  .post("/runner-tokens", async (c) => {
    const { pool, max_seats } = await body(c.req.raw, NewToken);
    const made = await actions.makeEnrolToken(c.env, SCRIPT, { pool, max_seats, random: base64url.encode(random(32)) });
    return c.json({ token: made.token, pool, max_seats, expires_at: new Date(made.expires_at).toISOString() }, 201);
  })
  .get("/runners", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    return c.json({ pool, runners: await c.env.FLEET.getByName(pool).runners() });
  })
  .post("/runners/:runner/revoke", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner_id = c.req.param("runner");
    const revoked = await actions.revokeRunner(c.env, SCRIPT, pool, runner_id);
    if (!revoked.ok) throw new ApiError(NO_SUCH_RUNNER);
    return c.json({ pool, runner_id, revoked: true });
  })
  .post("/runners/:runner/drain", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner_id = c.req.param("runner");
    const drained = await actions.drainRunner(c.env, SCRIPT, pool, runner_id);
    if (!drained.ok) throw new ApiError(NO_SUCH_RUNNER);
    return c.json({ pool, runner_id, draining: true });
  })
  .get("/fleet", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    return c.json({ pool, ...(await c.env.FLEET.getByName(pool).status()) });
  });
