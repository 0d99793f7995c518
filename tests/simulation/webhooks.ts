import { MAX_DELIVERY_ATTEMPTS } from "../../schemas/webhook.ts";
import { CLAIM_MS } from "../../worker/account/deliveries.ts";
import { beginDelivery, finishDelivery } from "../../worker/account/notifications.ts";
import type { AccountNode } from "./account-node.ts";
import { holds } from "./violation.ts";
import { Broken, type World } from "./world.ts";

/** Where the account can't be asked the queue brings the message again (worker/webhooks/courier.ts). */
const FAULT_RETRY_MS = 5_000;
/** Beyond so many the queue gives a message up. */
const MAX_RETRIES = 8;

/** A queue that loses, doubles and delays messages, and a consumer that may die with one. */
export class Webhooks {
  readonly #world: World;
  /** Attempts that were granted, by job, round and number. */
  readonly #granted = new Set<string>();
  /** Until when an attempt is in flight, by job and round. */
  readonly #claimed = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }

  send(account: AccountNode, job: string, round: number, delay_s: number, retries = 0): void {
    const world = this.#world;
    if (retries > MAX_RETRIES) return;
    const again = (ms: number) => this.send(account, job, round, ms / 1000, retries + 1);
    const line = { name: `queue -> ${account.id} ${job} round ${round}`, patience_ms: 0 };
    world.after(delay_s * 1000, () =>
      world.message(line, () => {
        try {
          this.#consume(account, job, round, again);
        } catch (error) {
          if (!(error instanceof Broken)) throw error;
          again(FAULT_RETRY_MS);
        }
      }),
    );
  }

  #consume(account: AccountNode, job: string, round: number, again: (ms: number) => void): void {
    const world = this.#world;
    const begun = account.run((one, now) => beginDelivery(one, job, round, now));
    if (begun.kind === "early") again(begun.retry_in_s * 1000);
    if (begun.kind !== "granted") return;
    const attempt = `${job} ${round} ${begun.n}`;
    holds(!this.#granted.has(attempt), "an attempt of a delivery is granted once", () => attempt);
    holds(begun.n <= MAX_DELIVERY_ATTEMPTS, "a delivery has at most four attempts", () => attempt);
    this.#granted.add(attempt);
    // A claim lasts 15 s; after it the next attempt may begin, whatever became of this one.
    const claim = `${job} ${round}`;
    const free = account.now >= (this.#claimed.get(claim) ?? 0);
    holds(
      free || account.clockSetAt >= world.now - CLAIM_MS,
      "one attempt of a delivery is in flight at a time",
      () => attempt,
    );
    this.#claimed.set(claim, account.now + CLAIM_MS);
    const ok = world.chance(0.8) || !world.faulty;
    const report = { attempt_id: attempt, ok, started_at: world.now, duration_ms: 1 };
    world.after(world.between(10, world.chance(0.2) ? 12_000 : 500), () => {
      this.#claimed.delete(claim);
      if (world.fault(0.03, "consumer dies")) return;
      try {
        account.run((one, now) => finishDelivery(one, job, round, begun.n, report, now));
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
      }
    });
  }
}
