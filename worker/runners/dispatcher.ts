import { WorkerEntrypoint } from "cloudflare:workers";
import * as v from "valibot";
import { Accepted, encodeOrder, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import type { DispatchAnswer } from "../account/executions.ts";
import { DISPATCH_REPEAT_MS, type Placement } from "../account/jobs.ts";
import { promptKey, type Removal } from "../account/outbox.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import { firstBytes } from "../first-bytes.ts";
import { log, reasonOf } from "../log.ts";
import type { WebhookMessage } from "../webhooks/message.ts";
import { edgeKeys } from "./edge-keys.ts";
import { signedPost } from "./signed-post.ts";
import { signLease } from "./tokens.ts";

/** One execution to post, as the account object knows it. */
export interface DispatchOrder {
  readonly account: string;
  readonly job: string;
  readonly fence: number;
  readonly placement: Placement;
  readonly lease_until: number;
  readonly timeout_ms: number;
  /** Absent where the prompt lies in R2. */
  readonly prompt?: string;
}

/** A runner has this long to take an order, and a second more for each MiB. */
const DISPATCH_TIMEOUT_MS = 3_000;
const STOP_TIMEOUT_MS = 3_000;
const MIB = 1024 ** 2;
/** An answer of a runner is small; what is longer is no answer of ours. */
const MAX_ANSWER_BYTES = 4096;
/** Keys that one removal call takes at a time; R2 deletes at most 1,000 at once. */
const REMOVAL_PAGE = 1000;

/**
 * Everything that an account object must not wait for: a stateless entrypoint of the same Worker, so that one frozen runner never
 * holds the object's few connections (design section 4).
 */
export class Dispatcher extends WorkerEntrypoint<Env> {
  /** Posts one execution to its runner. Never throws for what a runner or the network does: that is the answer. */
  async dispatch(order: DispatchOrder): Promise<DispatchAnswer> {
    const { account, job, fence, placement, lease_until, timeout_ms } = order;
    const stored = order.prompt ?? (await (await this.env.STORE.get(promptKey(account, job)))?.text());
    if (stored === undefined) return { kind: "no_prompt" };
    const { baseUrl } = configOf(this.env);
    const { pool, runner, boot, jkt, retention } = placement;
    const claims = { sub: runner, pool, account, job, fence, retention, cnf: { jkt } };
    const lease = await signLease(claims, await edgeKeys(this.env), baseUrl, Date.now(), lease_until);
    const body = encodeOrder({ account, job, fence, boot, timeout_ms, lease }, stored);
    try {
      const patience = DISPATCH_TIMEOUT_MS + Math.ceil(body.length / MIB) * 1000;
      const expiresAt = placement.at + DISPATCH_REPEAT_MS;
      const response = await signedPost(this.env, {
        runnerUrl: placement.url,
        path: RUNNER_PATHS.executions,
        body,
        timeout_ms: patience,
        expiresAt,
      });
      return await this.#answerOf(response, order);
    } catch (error) {
      log("warn", "dispatch_unknown", { job, fence, runner, reason: reasonOf(error) });
      return { kind: "unknown", reason: "network" };
    }
  }

  async #answerOf(response: Response, { job, fence, placement }: DispatchOrder): Promise<DispatchAnswer> {
    const text = await firstBytes(response, MAX_ANSWER_BYTES);
    const { status } = response;
    if (status === 202) {
      const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), Accepted), text);
      return parsed.success ? { kind: "accepted", ...parsed.output } : { kind: "unknown", reason: "malformed 202" };
    }
    log(status === 429 || status === 503 ? "info" : "warn", "dispatch_refused", {
      job,
      fence,
      runner: placement.runner,
      status,
    });
    if (status === 429 || status === 503) {
      return text.includes('"error"')
        ? { kind: "refused", outcome: "refused_full" }
        : { kind: "unknown", reason: `status ${status}` };
    }
    // A copy of this very request has come before: its runner may have taken that one. Another request is answered by its table.
    if (status === 401 && text.includes('"replayed"')) return { kind: "unknown", reason: "replayed" };
    if (status === 409) return { kind: "refused", outcome: "refused_boot" };
    if (status === 410) return { kind: "refused", outcome: "refused" };
    if (status >= 400 && status < 500) return { kind: "refused", outcome: "strike" };
    return { kind: "unknown", reason: `status ${status}` };
  }

  /** Asks a runner to stop one execution: a nudge, whose loss its next beat or progress report makes good. */
  async stop(account: string, job: string, fence: number, placement: Placement): Promise<void> {
    try {
      const body = JSON.stringify({ account, job, fence });
      const response = await signedPost(this.env, {
        runnerUrl: placement.url,
        path: RUNNER_PATHS.stops,
        body,
        timeout_ms: STOP_TIMEOUT_MS,
      });
      await response.body?.cancel();
    } catch (error) {
      log("info", "stop_unanswered", { job, fence, runner: placement.runner, reason: reasonOf(error) });
    }
  }

  /** Puts a webhook message into the queue. Throws when the queue refuses: the sweep sends another. */
  async send(message: WebhookMessage, delay_s: number): Promise<void> {
    await this.env.WEBHOOKS.send(message, delay_s > 0 ? { delaySeconds: delay_s } : {});
  }

  /** Removes stored objects. Repeating it is harmless. Throws when the store refuses: it stays owed. */
  async remove({ what, key }: Removal): Promise<void> {
    if (what === "object") return this.env.STORE.delete(key);
    for (;;) {
      const { objects, truncated } = await this.env.STORE.list({ prefix: key, limit: REMOVAL_PAGE });
      if (objects.length > 0) await this.env.STORE.delete(objects.map((object) => object.key));
      if (!truncated) return;
    }
  }
}
