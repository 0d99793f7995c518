import { sha256, signRequest } from "../../schemas/signed-request.ts";
import type { Env } from "../env.ts";
import { edgeKeys } from "./edge-keys.ts";

export interface SignedPost {
  /** The runner's own URL: whom the request is for, whatever lies in between. */
  readonly runnerUrl: string;
  /** Below that URL, with a slash at its beginning. */
  readonly path: string;
  readonly body: string;
  readonly timeout_ms: number;
  /** Ends the request's own validity earlier than usual. Epoch milliseconds. */
  readonly expiresAt?: number;
}

/** A POST to a runner, signed for its URL (design section 7, "Edge -> runner"). Follows no redirect. */
export async function signedPost(
  env: Env,
  { runnerUrl, path, body, timeout_ms, expiresAt }: SignedPost,
): Promise<Response> {
  const keys = await edgeKeys(env);
  const url = `${runnerUrl.replace(/\/$/, "")}${path}`;
  const token = await signRequest(
    {
      type: "dispatch+jwt",
      audience: runnerUrl,
      method: "POST",
      url,
      bodySha256: await sha256(body),
      jti: crypto.randomUUID(),
      now: Date.now(),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    },
    { privateKey: keys.privateKey, header: { kid: keys.kid } },
  );
  return fetch(url, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body,
    redirect: "manual",
    signal: AbortSignal.timeout(timeout_ms),
  });
}
