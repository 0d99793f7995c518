import { createRemoteJWKSet, errors } from "jose";
import { EDGE_PATHS } from "../schemas/runner-protocol.ts";
import { CLOCK_SKEW_S, type KeySource, verifyRequest } from "../schemas/signed-request.ts";
import { createReplayCache } from "./replay.ts";

/** A fresh fetch of the edge's keys for an unknown `kid` at most this often: strangers can't make the runner ask for more. */
const KEYS_COOLDOWN_MS = 30_000;
/** How long a key that the edge has withdrawn may still be believed. */
const KEYS_MAX_AGE_MS = 10 * 60_000;
const KEYS_TIMEOUT_MS = 5_000;

export type Caller =
  /** The edge; the body's digest has still to be compared with `bodySha256`. */
  | { readonly ok: true; readonly bodySha256: string }
  /**
   * `reason` names the check that failed, for the operators of both machines. It holds no secret. `replayed`: a copy of this very
   * request has been let in before.
   */
  | { readonly ok: false; readonly reason: string; readonly replayed?: true };

/** Who may call the runner: the edge, and nobody else. */
export interface Gate {
  /** Judges a request before its body is read. A request is good once. `path` is below the runner's own URL. */
  admit(authorization: string | undefined, method: string, path: string): Promise<Caller>;
}

class KeysUnavailable extends Error {}

/** The edge's published keys: cached, fetched again when they are old or when a `kid` is unknown. */
export function edgeKeys(edge: string): KeySource {
  const remote = createRemoteJWKSet(new URL(`${edge}${EDGE_PATHS.jwks}`), {
    cooldownDuration: KEYS_COOLDOWN_MS,
    cacheMaxAge: KEYS_MAX_AGE_MS,
    timeoutDuration: KEYS_TIMEOUT_MS,
  });
  return async (header, token) => {
    try {
      return await remote(header, token);
    } catch (error) {
      const judged =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys ||
        error instanceof errors.JOSENotSupported;
      throw judged ? error : new KeysUnavailable("the edge's keys can't be fetched", { cause: error });
    }
  };
}

/**
 * `url` is the runner's own address as it was enrolled: it is the audience and the base of every signed URL, whatever a request's
 * Host header says. `wallClock` gives epoch milliseconds.
 */
export function createGate({
  url,
  keys,
  wallClock = Date.now,
}: {
  url: string;
  keys: KeySource;
  wallClock?: () => number;
}): Gate {
  const replays = createReplayCache();
  return {
    async admit(authorization, method, path) {
      const token = /^Bearer ([A-Za-z0-9_.-]+)$/i.exec(authorization ?? "")?.[1];
      if (token === undefined) return { ok: false, reason: "no signed request in the Authorization header" };
      const request = {
        type: "dispatch+jwt",
        audience: url,
        method,
        url: `${url}${path}`,
        now: wallClock(),
      } as const;
      try {
        const verified = await verifyRequest(token, request, keys);
        if (!verified.ok) return { ok: false, reason: verified.reason };
        const { jti, exp, body_sha256 } = verified.claims;
        if (!replays.use(jti, (exp + CLOCK_SKEW_S) * 1000, wallClock()))
          return { ok: false, replayed: true, reason: "jti: this request was seen before" };
        return { ok: true, bodySha256: body_sha256 };
      } catch (error) {
        if (error instanceof KeysUnavailable) return { ok: false, reason: error.message };
        throw error;
      }
    },
  };
}
