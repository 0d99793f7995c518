import { setSuspended, setTier } from "../../worker/account/administration.ts";
import {
  cancelJob,
  deleteJob,
  getJob,
  submit,
  type Submission,
  type Submitted,
} from "../../worker/account/requests.ts";
import { promptKey } from "../../worker/account/outbox.ts";
import { type AccountNode, KEYS } from "./account-node.ts";
import type { Bucket } from "./bucket.ts";
import { holds } from "./violation.ts";
import type { World } from "./world.ts";

/** The Worker repeats a submission that broke, with the same job id (design section 4). */
const TRIES = 3;
const PATIENCE_MS = 10_000;

/** A job whose submission was answered with 2xx. */
export interface Accepted {
  readonly account: AccountNode;
  readonly job: string;
  /** Its client has asked for its removal. */
  unwanted: boolean;
}

/** What clients and operators ask of one account. */
export class Clients {
  readonly accepted: Accepted[] = [];
  /** Jobs whose submission nobody answered: their prompts are left to the bucket's lifecycle rule. */
  readonly unknown = new Set<string>();
  readonly #world: World;
  readonly #bucket: Bucket;
  readonly #nextId: () => string;
  /** Jobs by idempotency key: a claimed key has one. */
  readonly #claimed = new Map<string, string>();

  constructor(world: World, bucket: Bucket, nextId: () => string) {
    this.#world = world;
    this.#bucket = bucket;
    this.#nextId = nextId;
  }

  #key = (): string => KEYS[this.#world.chance(0.7) ? 0 : 1] ?? "";
  #line = (account: AccountNode, what: string) => ({
    name: `client -> ${account.id} ${what}`,
    patience_ms: PATIENCE_MS,
    once: true,
  });

  submits(account: AccountNode, { queue_timeout_s }: { queue_timeout_s: number }): void {
    const world = this.#world;
    const job_id = this.#nextId();
    const options = { timeout_s: 30, queue_timeout_s, priority: world.between(-1, 1) };
    const inRow = world.chance(0.8);
    const claim = world.chance(0.2)
      ? { idempotency_key: `claim-${world.between(1, 6)}`, body_sha256: "one" }
      : undefined;
    const submission: Submission = {
      job_id,
      needs: { classes: world.chance(0.15) ? ["Rare"] : ["SaveImage"], models: [] },
      options,
      ...(inRow ? { prompt: "{}" } : {}),
      ...(world.chance(0.6) ? { webhook_url: "https://hooks.example/" } : {}),
      ...(claim ? { idempotency: claim } : {}),
    };
    if (!inRow) this.#bucket.put(promptKey(account.id, job_id));
    const key = this.#key();
    const asks = (tries: number): void =>
      world.call(
        this.#line(account, `submit ${job_id}`),
        () => account.run((one, now) => submit(one, key, submission, now)),
        (gated) => {
          if (gated) this.#answered(account, submission, gated.value, tries > 1);
          else if (tries < TRIES) asks(tries + 1);
        },
      );
    this.unknown.add(job_id);
    asks(1);
  }

  /** @param broke an earlier try may have stored the job */
  #answered(
    account: AccountNode,
    { job_id, prompt, idempotency }: Submission,
    value: Submitted | undefined,
    broke: boolean,
  ): void {
    if (!broke) this.unknown.delete(job_id);
    const stored = value?.kind === "stored" ? value.view.record.job_id : undefined;
    // The Worker removes what it wrote for nothing.
    if (stored !== job_id && prompt === undefined && !this.unknown.has(job_id))
      this.#bucket.remove({ what: "object", key: promptKey(account.id, job_id) });
    if (stored === undefined) return;
    if (idempotency) {
      const name = `${account.id} ${idempotency.idempotency_key}`;
      const before = this.#claimed.get(name);
      holds(
        before === undefined || before === stored,
        "an idempotency key has one job",
        () => `${before} and ${stored}`,
      );
      this.#claimed.set(name, stored);
    }
    if (this.accepted.some(({ job }) => job === stored)) return;
    const one: Accepted = { account, job: stored, unwanted: false };
    holds(account.rows.job(stored) !== undefined, "what was answered with 2xx is stored", () => stored);
    this.accepted.push(one);
    this.#later(one);
  }

  /** What its client does with it afterwards. */
  #later(one: Accepted): void {
    const world = this.#world;
    const { account, job } = one;
    const ask = (what: string, delay_ms: number, work: () => unknown) =>
      world.after(delay_ms, () => world.call(this.#line(account, `${what} ${job}`), work, () => {}));
    if (world.fault(0.1, "cancel")) {
      ask(
        "cancel",
        world.between(0, 20_000),
        () => account.run((a, now) => cancelJob(a, KEYS[0] ?? "", job, now)).value?.record.status,
      );
    }
    if (world.chance(0.3))
      ask(
        "get",
        world.between(0, 10_000),
        () => account.run((a, now) => getJob(a, KEYS[0] ?? "", job, now)).value?.record.status,
      );
    if (world.fault(0.05, "delete")) {
      ask("delete", world.between(5_000, 60_000), () => {
        one.unwanted = true;
        return account.run((a, now) => {
          const before = a.store.job(job);
          const deleted = deleteJob(a, KEYS[0] ?? "", job, now).value;
          holds(deleted !== "deleted" || before?.job.phase === "ended", "only ended jobs are deleted", () => job);
          return deleted;
        });
      });
    }
  }

  suspends(account: AccountNode, suspended: boolean): void {
    this.#world.call(
      this.#line(account, suspended ? "suspend" : "resume"),
      () => account.run((one, now) => setSuspended(one, suspended, now)),
      () => {},
    );
  }

  upgrades(account: AccountNode): void {
    this.#world.call(
      this.#line(account, "upgrade"),
      () => account.run((one, now) => setTier(one, "enterprise", now)),
      () => {},
    );
  }
}
