import type { RunnerConfig } from "./config.ts";
import type { Edge } from "./edge.ts";
import type { Identity, StoredEnrolment } from "./identity.ts";
import type { Log } from "./log.ts";
import { jittered, pause } from "./pause.ts";
import { StartError } from "./start-error.ts";

/** An edge that does not answer may just be starting; a token is spent by an answer only. */
const TRIES = 5;

/**
 * The enrolment for this edge and URL: the stored one, or a new one with the operator's token. The listener must be up, because the
 * edge asks it for a proof before it answers. Rejects with a StartError where there is no token, or the edge does not take it.
 */
export async function ensureEnrolled({
  config,
  identity,
  edge,
  log,
  retry_ms,
  signal,
  anew = false,
}: {
  config: Pick<RunnerConfig, "edge" | "url" | "name" | "token">;
  identity: Identity;
  edge: Pick<Edge, "enrol">;
  log: Log;
  /** Between tries that had no answer. */
  retry_ms: number;
  signal: AbortSignal;
  /** The stored enrolment is good for nothing any more. */
  anew?: boolean;
}): Promise<StoredEnrolment> {
  const { url, name, token } = config;
  const stored = identity.enrolment(config.edge, url);
  if (stored && !anew) return stored;
  if (token === undefined)
    throw new StartError(`not enrolled at ${config.edge} for ${url}: pass a one-time token with --token`, {
      exitCode: 2,
    });

  for (let tries = 1; !signal.aborted; tries++) {
    const answer = await edge.enrol({ token, name, public_jwk: identity.publicJwk, url });
    if (answer.ok) {
      const enrolment = { ...answer.answer, edge: config.edge, url };
      if (enrolment.max_seats < 1) throw new StartError("the enrolment allows this runner no seat");
      try {
        await identity.enrolled(enrolment);
      } catch (error) {
        throw new StartError("the enrolment can't be stored", { cause: error });
      }
      log.info(`enrolled as ${enrolment.runner_id} in pool ${enrolment.pool}`);
      return enrolment;
    }
    const refused = answer.status !== undefined && answer.status < 500;
    if (refused) throw new StartError(`the edge refused the enrolment (${answer.status}): ${answer.message}`);
    if (tries === TRIES) throw new StartError(`the edge does not answer the enrolment: ${answer.message}`);
    log.warn(`the edge does not answer the enrolment: ${answer.message}; trying again`);
    await pause(jittered(retry_ms * tries), signal);
  }
  throw new StartError("stopped before the enrolment was answered");
}
