import type { Context } from "hono";
import { calculateJwkThumbprint, importJWK, jwtVerify } from "jose";
import * as v from "valibot";
import { PoolName, runnerId } from "../../schemas/ids.ts";
import { type Enrolled, Enrolment, Proof, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { sha256, verifyRequest } from "../../schemas/signed-request.ts";
import { checkTarget, type TargetRules } from "../../schemas/targets.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { firstBytes } from "../first-bytes.ts";
import { log, reasonOf } from "../log.ts";
import { unauthorised } from "./authorise.ts";
import { edgeKeys } from "./edge-keys.ts";
import { MAX_BODY_BYTES, runnerBody } from "./json-body.ts";
import { signedPost } from "./signed-post.ts";
import { signCredential } from "./tokens.ts";

const PROOF_TIMEOUT_MS = 5_000;
const MAX_PROOF_BYTES = 4096;
const TOKEN = /^dre_([a-z][a-z0-9-]{0,31})_[A-Za-z0-9_-]{43}$/;

/** A one-time enrolment token for a pool. `random` is 43 characters of base64url from a cryptographic source. */
export const enrolToken = (pool: string, random: string): string => `dre_${pool}_${random}`;

/** Posts a nonce to the runner's URL, which its key must sign: proof that this key answers there. Undefined when all is well. */
async function unproven(env: Env, enrolment: Enrolment): Promise<string | undefined> {
  const { baseUrl } = configOf(env);
  const nonce = crypto.randomUUID();
  const body = JSON.stringify({ nonce });
  try {
    const response = await signedPost(env, {
      runnerUrl: enrolment.url,
      path: RUNNER_PATHS.proof,
      body,
      timeout_ms: PROOF_TIMEOUT_MS,
    });
    if (!response.ok) return `it answered ${response.status}`;
    const { proof } = v.parse(Proof, JSON.parse(await firstBytes(response, MAX_PROOF_BYTES)));
    const key = await importJWK(enrolment.public_jwk, "EdDSA");
    const { payload } = await jwtVerify(proof, key, {
      algorithms: ["EdDSA"],
      typ: "proof+jwt",
      issuer: enrolment.url,
      audience: baseUrl,
    });
    return payload.nonce === nonce ? undefined : "it signed another nonce";
  } catch (error) {
    log("warn", "enrolment_unproven", { url: enrolment.url, reason: reasonOf(error) });
    return "it could not be reached there, or its answer could not be verified";
  }
}

/** `POST /runners/enrol` (design section 7, "Enrolment"). Idempotent for the key that spent the token. */
export async function enrol(c: Context<{ Bindings: Env }>, targets: TargetRules): Promise<Response> {
  const { baseUrl } = configOf(c.env);
  const proof = c.req.header("dpop");
  if (proof === undefined) return unauthorised(c, "no DPoP proof").response;
  const request = {
    type: "dpop+jwt",
    audience: baseUrl,
    method: "POST",
    url: baseUrl + c.req.path,
    now: Date.now(),
  } as const;
  const proven = await verifyRequest(proof, request, "embedded");
  if (!proven.ok) return unauthorised(c, `proof ${proven.reason}`).response;
  const body = await runnerBody(c, Enrolment, proven.claims.body_sha256, MAX_BODY_BYTES.enrolment);
  if (!body.ok) return body.response;
  const enrolment = body.value;
  const jkt = await calculateJwkThumbprint(enrolment.public_jwk);
  if (jkt !== proven.thumbprint) return unauthorised(c, "proof by another key").response;

  const refuse = (status: 400 | 403, code: string, message: string): Response =>
    c.json({ error: { code, message } }, status);
  const [, pool] = TOKEN.exec(enrolment.token) ?? [];
  if (pool === undefined || !v.is(PoolName, pool))
    return refuse(403, "invalid_token", "This is not an enrolment token.");
  const target = checkTarget(enrolment.url, targets);
  if (!target.ok) return refuse(400, "invalid_url", `The runner's URL is refused: ${target.rule}.`);
  if (target.url.search !== "" || target.url.hash !== "") {
    return refuse(400, "invalid_url", "The runner's URL is refused: it must have no query and no fragment.");
  }
  const fleet = c.env.FLEET.getByName(pool);
  const token_hash = await sha256(enrolment.token);
  if (!(await fleet.token(token_hash, jkt)))
    return refuse(403, "invalid_token", "This enrolment token is unknown, expired or spent.");
  const fault = await unproven(c.env, enrolment);
  if (fault !== undefined)
    return refuse(400, "unreachable", `The runner at ${enrolment.url} did not prove itself: ${fault}.`);

  const { name, url, public_jwk } = enrolment;
  const enrolled = await fleet.enrol(token_hash, {
    runner_id: runnerId(crypto.getRandomValues(new Uint8Array(20))),
    name,
    url,
    public_jwk,
    jkt,
    max_seats: 1,
    state: "active",
    boot: 0,
    enrolled_at: Date.now(),
  });
  if (!enrolled.ok) return refuse(403, "invalid_token", "This enrolment token is unknown, expired or spent.");
  const { runner_id, max_seats } = enrolled.entry;
  const credential = await signCredential(
    { sub: runner_id, pool, cnf: { jkt } },
    await edgeKeys(c.env),
    baseUrl,
    Date.now(),
  );
  log("info", "runner_enrolled", { runner: runner_id, pool, url });
  const answer: Enrolled = { runner_id, pool, max_seats, credential };
  return c.json(answer);
}
