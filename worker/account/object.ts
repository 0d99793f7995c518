import { DurableObject } from "cloudflare:workers";
import type { KeyLimits, Tier } from "../../schemas/limits.ts";
import type { EndReport, ProgressReport } from "../../schemas/runner-protocol.ts";
import { configOf } from "../config.ts";
import type { Env } from "../env.ts";
import type { FleetNews } from "../fleet/sync.ts";
import type { Account } from "./account.ts";
import * as administration from "./administration.ts";
import * as executions from "./executions.ts";
import type { IdempotencyClaim } from "./idempotency.ts";
import type { Reporter } from "./jobs.ts";
import type { Gate, Settings } from "./keys.ts";
import * as notifications from "./notifications.ts";
import * as owner from "./owner.ts";
import * as ownerDeliveries from "./owner-deliveries.ts";
import * as ownerJobs from "./owner-jobs.ts";
import * as ownerKeys from "./owner-keys.ts";
import type * as answers from "./owner-types.ts";
import { usageOf } from "./owner-usage.ts";
import type { JobView } from "./record.ts";
import * as requests from "./requests.ts";
import { Runtime } from "./runtime.ts";
import type { PageFilter } from "./store.ts";
import * as webhooks from "./webhook-requests.ts";
import { replaceWebhookSecret } from "./webhook-secrets.ts";

/**
 * One account as a Durable Object: its verbs, each in a transaction of its own, with a clock; runtime.ts carries out what they owe
 * once that is durable. It makes no HTTP request (design section 4).
 */
export class AccountObject extends DurableObject<Env> {
  readonly #runtime: Runtime;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#runtime = new Runtime(ctx, { fleets: env.FLEET, pools: configOf(env).pools });
  }

  #run<T>(verb: (account: Account, now: number) => T): T {
    return this.#runtime.run(verb);
  }

  override alarm(): Promise<void> {
    return this.#runtime.alarm();
  }

  // What API clients ask; routes/ calls these, one for each request.

  count(key_hash: string): Gate {
    return this.#run((account, now) => requests.count(account, key_hash, now));
  }

  submit(key_hash: string, submission: requests.Submission): requests.Gated<requests.Submitted> {
    return this.#run((account, now) => requests.submit(account, key_hash, submission, now));
  }

  /** @param wait_s answer when the job has ended, or after so many seconds; 0: at once */
  async getJob(key_hash: string, job_id: string, wait_s: number): Promise<requests.Gated<JobView | null>> {
    const seen = this.#run((account, now) => requests.getJob(account, key_hash, job_id, now));
    if (wait_s === 0 || !seen.value || seen.value.record.expires_at !== undefined) return seen;
    return this.#waitFor(key_hash, job_id, wait_s, false);
  }

  /** The second half of a submission with `Prefer: wait`: the end of the job, or its state after so many seconds. */
  async awaitSubmitted(key_hash: string, job_id: string, wait_s: number): Promise<requests.Gated<JobView | null>> {
    return this.#waitFor(key_hash, job_id, wait_s, true);
  }

  async #waitFor(
    key_hash: string,
    job_id: string,
    wait_s: number,
    submitted: boolean,
  ): Promise<requests.Gated<JobView | null>> {
    const look = () => this.#run((account, now) => requests.lookAgain(account, key_hash, job_id, submitted, now));
    const seen = look();
    if (!seen.value || seen.value.record.expires_at !== undefined) return seen;
    const waited = this.#runtime.waits.enter(key_hash, job_id, wait_s * 1000);
    if (!waited) {
      const { window } = seen.gate;
      return { gate: { ok: false, code: "too_many_waits", ...(window ? { window } : {}) } };
    }
    await waited;
    return look();
  }

  listJobs(key_hash: string, page: PageFilter & { limit: number }): requests.Gated<requests.JobPage> {
    return this.#run((account, now) => requests.listJobs(account, key_hash, page, now));
  }

  cancelJob(key_hash: string, job_id: string): requests.Gated<JobView | null> {
    return this.#run((account, now) => requests.cancelJob(account, key_hash, job_id, now));
  }

  deleteJob(key_hash: string, job_id: string): requests.Gated<requests.Deleted> {
    return this.#run((account, now) => requests.deleteJob(account, key_hash, job_id, now));
  }

  redeliver(key_hash: string, which: { job_id: string; request: string }): requests.Gated<webhooks.Redelivered> {
    return this.#run((account, now) => webhooks.redeliver(account, key_hash, which, now));
  }

  readDelivery(key_hash: string, job_id: string): requests.Gated<webhooks.DeliveryRead> {
    return this.#run((account, now) => webhooks.readDelivery(account, key_hash, job_id, now));
  }

  listEvents(
    key_hash: string,
    page: { after: webhooks.EventsAfter; limit: number },
  ): requests.Gated<webhooks.EventPage | "unknown"> {
    return this.#run((account, now) => webhooks.listEvents(account, key_hash, page, now));
  }

  limits(key_hash: string): requests.Gated<KeyLimits> {
    return this.#run((account, now) => requests.limits(account, key_hash, now));
  }

  isReused(key_hash: string, claim: IdempotencyClaim): requests.Gated<boolean> {
    return this.#run((account, now) => requests.isReused(account, key_hash, claim, now));
  }

  // What fleet and runners tell; fleet/object.ts and runners/ call these.

  /** News of the fleet's own accord: the same as a sync's answer, applied by the same function. */
  fleetNews(pool: string, news: FleetNews): void {
    this.#run((account, now) => executions.applyNews(account, pool, news, now));
  }

  progress(job_id: string, fence: number, report: ProgressReport): executions.ProgressVerdict {
    return this.#run((account, now) => executions.progress(account, job_id, fence, report, now));
  }

  mayUpload(job_id: string, fence: number): boolean {
    return this.#run((account) => executions.mayUpload(account, job_id, fence));
  }

  endExecution(job_id: string, fence: number, by: Reporter, report: EndReport): executions.EndAnswerKind {
    return this.#run((account, now) => executions.endExecution(account, job_id, fence, by, report, now));
  }

  // What the webhook courier asks; webhooks/courier.ts calls these.

  beginDelivery(job_id: string, round: number): notifications.BeginAnswer {
    return this.#run((account, now) => notifications.beginDelivery(account, job_id, round, now));
  }

  finishDelivery(job_id: string, round: number, n: number, report: notifications.AttemptReport): boolean {
    return this.#run((account, now) => notifications.finishDelivery(account, job_id, round, n, report, now));
  }

  // What operators change; operator/ calls these.

  create(settings: Settings): void {
    this.#run((account) => administration.create(account, settings));
  }

  setTier(tier: Tier): void {
    this.#run((account, now) => administration.setTier(account, tier, now));
  }

  setSuspended(suspended: boolean): void {
    this.#run((account, now) => administration.setSuspended(account, suspended, now));
  }

  /** @param secret made by the caller: repeating the call is harmless */
  replaceWebhookSecret(secret: string): void {
    this.#run((account, now) => replaceWebhookSecret(account, secret, now));
  }

  addKey(key: administration.NewKey): administration.AddKey {
    return this.#run((account, now) => administration.addKey(account, key, now));
  }

  revokeKey(prefix: string): administration.RevokeKey {
    return this.#run((account, now) => administration.revokeKey(account, prefix, now));
  }

  operatorView(): answers.OperatorView | null {
    return this.#run((account, now) => owner.operatorView(account, now));
  }

  // What the owner's portal asks; portal/ calls these. Each takes the session's epoch, and is described at its verb.

  /** The gate of all of them: only a session that was not signed out sees or changes anything. */
  #owned<T>(epoch: number, verb: (account: Account, now: number) => T): answers.Owned<T> {
    return this.#run((account, now) => owner.owned(account, epoch, () => verb(account, now)));
  }

  /** What a session that begins now carries as its epoch; null where there is no account. The one that asks for none. */
  ownerEpoch(): number | null {
    return this.#run((account) => owner.sessionEpoch(account) ?? null);
  }

  /** Ends all sessions of the account; answers what those that begin from now on carry. */
  ownerSignOut(epoch: number): answers.Owned<number> {
    return this.#owned(epoch, (account) => owner.signOut(account));
  }

  ownerOverview(epoch: number): answers.Owned<answers.OwnerOverview> {
    return this.#owned(epoch, owner.overview);
  }

  ownerKeys(epoch: number): answers.Owned<readonly answers.OwnerKey[]> {
    return this.#owned(epoch, ownerKeys.listKeys);
  }

  ownerAddKey(epoch: number, key: administration.NewKey): answers.Owned<answers.OwnerAddKey> {
    return this.#owned(epoch, (account, now) => ownerKeys.addOwnersKey(account, key, now));
  }

  ownerRevokeKey(epoch: number, key_hash: string): answers.Owned<answers.OwnerRevokeKey> {
    return this.#owned(epoch, (account, now) => ownerKeys.revokeOwnersKey(account, key_hash, now));
  }

  ownerSecret(epoch: number): answers.Owned<answers.OwnerSecret> {
    return this.#owned(epoch, owner.secret);
  }

  ownerReplaceSecret(epoch: number, secret: string, seen: number): answers.Owned<answers.OwnerReplaceSecret> {
    return this.#owned(epoch, (account, now) => owner.replaceSecret(account, secret, seen, now));
  }

  ownerJobs(epoch: number, filter: answers.OwnerJobFilter, limit: number): answers.Owned<answers.OwnerJobPage> {
    return this.#owned(epoch, (account) => ownerJobs.pageOfJobs(account, filter, limit));
  }

  ownerJob(epoch: number, job_id: string): answers.Owned<answers.OwnerJobDetail | null> {
    return this.#owned(epoch, (account, now) => ownerJobs.detailOfJob(account, job_id, now));
  }

  ownerCancel(epoch: number, job_id: string): answers.Owned<JobView | null> {
    return this.#owned(epoch, (account, now) => requests.cancelStored(account, job_id, now));
  }

  ownerDeliveries(
    epoch: number,
    filter: answers.OwnerDeliveryFilter,
    limit: number,
  ): answers.Owned<answers.OwnerDeliveryPage> {
    return this.#owned(epoch, (account) => ownerDeliveries.pageOfDeliveries(account, filter, limit));
  }

  ownerRedeliver(epoch: number, which: { job_id: string; request: string }): answers.Owned<answers.OwnerRedeliver> {
    return this.#owned(epoch, (account, now) => ownerDeliveries.redeliverOne(account, which, now));
  }

  ownerRedeliverFailed(epoch: number, request: string, limit: number): answers.Owned<answers.OwnerRedeliverFailed> {
    return this.#owned(epoch, (account, now) => ownerDeliveries.redeliverFailed(account, request, limit, now));
  }

  ownerUsage(epoch: number, days: number): answers.Owned<answers.OwnerUsage> {
    return this.#owned(epoch, (account, now) => usageOf(account, days, now));
  }
}
