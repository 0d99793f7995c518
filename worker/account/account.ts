import type { Progress } from "../../schemas/job.ts";
import { TIER_LIMITS, TIER_RETENTION } from "../../schemas/limits.ts";
import type { Beat } from "../../schemas/runner-protocol.ts";
import { settle } from "./admission.ts";
import { openDelivery } from "./deliveries.ts";
import { FleetLinks, SYNC_WITHIN_MS } from "./fleet-links.ts";
import { accept, deadlineOf, type Job, type Placement, type Step } from "./jobs.ts";
import type { Key, RequestWindow, Settings } from "./keys.ts";
import { callDeferred, openRound } from "./notifications.ts";
import { owe, type Removal, removalsAtEnd, removalsAtExpiry } from "./outbox.ts";
import type { AccountStore, StoredJob } from "./store.ts";
import { chargeWindow } from "./usage.ts";

/**
 * The account's state and the moves that all its verbs share (design section 4): rows in the store, copies and unwritten words
 * in memory, and the side effects that the verb owes once its transaction is durable. Pure: no platform type, no clock.
 */

export type Effect =
  /** There is something that the fleet should hear. */
  | { readonly kind: "sync" }
  /** A placement was written: post it to its runner. */
  | { readonly kind: "dispatch"; readonly job_id: string; readonly fence: number }
  /** A nudge to the runner; its next beat or progress report makes it certain. */
  | { readonly kind: "stop"; readonly job_id: string; readonly fence: number; readonly placement: Placement }
  | { readonly kind: "deliver"; readonly job_id: string; readonly round: number; readonly delay_s: number }
  | { readonly kind: "remove"; readonly removal: Removal }
  /** Whoever waits should look again: one job has ended, or the account's keys have changed. */
  | { readonly kind: "wake"; readonly job_id?: string };

/** Acceptance that is not written yet. */
interface Acceptance {
  readonly fence: number;
  readonly beat: Beat;
  /** When the word came, and how long it had been running by then. */
  readonly at: number;
  readonly running_ms: number;
}

/** A key's window as memory knows it. */
interface KnownWindow {
  readonly window: RequestWindow;
  readonly used_at: number;
  written: boolean;
  /** Windows that it followed and whose requests are not charged yet. */
  readonly closed: readonly RequestWindow[];
}

/** What an account keeps of ended jobs (contract section 6); an object's database may hold 10 GB. */
const MAX_KEPT_JOBS = 1_000_000;
const MAX_KEPT_BYTES = 6e9;
/** More than one an end, so that the bounds are reached again. */
const LEAVE_AT_ONCE = 2;

export class Account {
  readonly store: AccountStore;
  readonly links: FleetLinks;
  /** Latest words of running executions, never stored. */
  readonly progress = new Map<
    string,
    { readonly fence: number; readonly running_ms: number; readonly progress: Progress }
  >();
  readonly #windows = new Map<string, KnownWindow>();
  readonly #accepted = new Map<string, Acceptance>();
  #settings: Settings | undefined;
  #effects: Effect[] = [];

  /** @param pools the pools of the deployment that jobs may spill over to */
  constructor(store: AccountStore, { pools = [] }: { pools?: readonly string[] } = {}) {
    this.store = store;
    this.links = new FleetLinks(pools);
  }

  /** Side effects owed since the last call; to be carried out after the commit. */
  takeEffects(): Effect[] {
    const effects = this.#effects;
    this.#effects = [];
    return effects;
  }

  /** A transaction was rolled back: what memory knows beyond the rows may never have happened. */
  rolledBack(): void {
    this.#settings = undefined;
    this.#windows.clear();
    this.#accepted.clear();
    this.#effects = [];
    this.links.restart();
  }

  owes(effect: Effect): void {
    if (effect.kind === "sync" && this.#effects.some((other) => other.kind === "sync")) return;
    this.#effects.push(effect);
  }

  get settings(): Settings | undefined {
    this.#settings ??= this.store.settings();
    return this.#settings;
  }

  putSettings(settings: Settings): void {
    this.store.putSettings(settings);
    this.#settings = settings;
  }

  /** For verbs that can only be called on an account that exists: its directory entry comes after its settings. */
  get mustSettings(): Settings {
    const { settings } = this;
    if (!settings) throw new Error("This account object has no account.");
    return settings;
  }

  /** The key with its window as memory knows it. */
  key(hash: string): Key | undefined {
    const key = this.store.key(hash);
    return key && this.#asKnown(key);
  }

  /** Every key as memory knows it, the oldest first. */
  keys(): Key[] {
    return this.store.keys().map((key) => this.#asKnown(key));
  }

  #asKnown(key: Key): Key {
    const known = this.#windows.get(key.key_hash);
    return known ? { ...key, window: known.window, last_used_at: known.used_at } : key;
  }

  /** Counts in memory, beginning with the key as it was read; `writeBehind` stores it. */
  setWindow({ key_hash, window: before }: Key, window: RequestWindow, now: number): void {
    const known = this.#windows.get(key_hash);
    const closed = known && !known.written ? known.closed : [];
    const follows = before.used > 0 && before.opened_at !== window.opened_at;
    this.#windows.set(key_hash, {
      window,
      used_at: now,
      written: false,
      closed: follows ? [...closed, before] : closed,
    });
  }

  /** Whether memory holds words that the rows do not have yet. */
  get unwritten(): boolean {
    return this.#accepted.size > 0 || [...this.#windows.values()].some((entry) => !entry.written);
  }

  /** Stores windows and acceptances; rides along with any transaction that happens anyway. */
  writeBehind(): void {
    for (const [hash, entry] of this.#windows) {
      if (entry.written) continue;
      for (const window of entry.closed) chargeWindow(this.store, hash, window);
      this.store.putWindow(hash, entry.window, entry.used_at);
      entry.written = true;
    }
    for (const job_id of [...this.#accepted.keys()]) this.load(job_id);
  }

  /** Remembers a runner's word; the row follows with the next transaction, or as soon as somebody looks. */
  hear(job_id: string, fence: number, word: { beat: Beat; running_ms: number }, now: number): void {
    if (!this.#accepted.has(job_id)) {
      this.#accepted.set(job_id, { fence, beat: word.beat, running_ms: word.running_ms, at: now });
    }
  }

  /** A job as it is, an unwritten acceptance included; that is written first. Call it inside a transaction. */
  load(job_id: string): StoredJob | undefined {
    const stored = this.store.job(job_id);
    const word = this.#accepted.get(job_id);
    this.#accepted.delete(job_id);
    const running = stored && word && accept(stored.job, word.fence, word, word.at);
    if (!running) return stored;
    this.#put(running);
    return { seq: stored.seq, job: running };
  }

  insert(job: Job, prompt: string | undefined): StoredJob {
    const stored = this.store.insertJob(job, prompt);
    this.store.setTimer("job", job.job_id, deadlineOf(job));
    return stored;
  }

  #put(job: Job): void {
    this.store.putJob(job);
    this.store.setTimer("job", job.job_id, deadlineOf(job));
  }

  /**
   * Any open job keeps a sync due: whatever memory and messages lose, the conversation goes on. One that is due sooner stays: what
   * happens all the time must not put it off for ever.
   */
  keepSyncing(now: number, within_ms = SYNC_WITHIN_MS): void {
    const due_at = this.store.timerDueAt("sync", "");
    if (due_at === undefined || due_at > now + within_ms) this.store.setTimer("sync", "", now + within_ms);
  }

  /** Writes a placed job and owes its dispatch. */
  putPlaced(job: Job, now: number): void {
    this.#put(job);
    const pool = job.placement?.pool ?? this.mustSettings.pool;
    if (this.links.placed(pool, { job: job.job_id, fence: job.fence })) this.owes({ kind: "sync" });
    this.keepSyncing(now);
    this.owes({ kind: "dispatch", job_id: job.job_id, fence: job.fence });
  }

  /** Writes a transition and everything that follows from it: slots, webhook, removals, words for the fleet. */
  apply(step: Step, now: number): void {
    const { job } = step;
    const { job_id } = job;
    for (const consequence of step.consequences) {
      if (consequence.kind === "stop") {
        this.owes({ kind: "stop", job_id, fence: consequence.fence, placement: consequence.placement });
      } else if (consequence.kind === "freed") {
        const { fence, pool, runner, outcome } = consequence;
        this.links.freed(pool, { job: job_id, fence, runner, outcome });
      } else if (consequence.kind === "dropped") {
        this.links.dropped(consequence.pool, { job: job_id, fence: consequence.fence });
      } else this.links.ticketDropped({ job: job_id, fence: consequence.fence });
    }
    if (job.phase !== "running") this.progress.delete(job_id);
    this.#put(job);
    this.owes({ kind: "sync" });
    if (job.phase === "ended") this.#ended(job, step, now);
    this.writeBehind();
  }

  /** Forgets an ended job; its outputs are owed. */
  remove(job: Job, now: number): void {
    for (const removal of removalsAtExpiry(this.mustSettings.account_id, job)) {
      owe(this.store, removal, now);
      this.owes({ kind: "remove", removal });
    }
    this.store.deleteJob(job.job_id);
    if (job.webhook_url !== undefined) callDeferred(this, now);
  }

  #ended(job: Job, step: Step, now: number): void {
    const { account_id } = this.mustSettings;
    const { job_id } = job;
    this.owes({ kind: "wake", job_id });
    this.store.addEvent(job_id);
    // The oldest leave early where an account keeps too many (contract section 6).
    if (this.store.span() > MAX_KEPT_JOBS || this.store.bytes() > MAX_KEPT_BYTES) {
      for (const old of this.store.oldestEnded(LEAVE_AT_ONCE)) if (old.job_id !== job_id) this.remove(old, now);
    }
    if (job.prompt_in === "row") this.store.deletePrompt(job_id);
    if (step.outputs) this.store.putFiles(job_id, step.outputs);
    if (job.webhook_url !== undefined) {
      openRound(this, openDelivery(job_id, 1, now), now);
    }
    for (const removal of removalsAtEnd(account_id, job)) {
      owe(this.store, removal, now);
      this.owes({ kind: "remove", removal });
    }
    this.settleKey(job.key_hash, now);
  }

  /** Promotes and swaps until no slot of the key is free or nothing waits that may have one. */
  settleKey(key_hash: string, now: number): void {
    const limits = TIER_LIMITS[this.mustSettings.tier];
    for (;;) {
      const { store } = this;
      const use = store.use(key_hash);
      if (use.places === 0) return;
      const move = settle(use, limits, store.firstWaiting(key_hash), store.weakestReady(key_hash));
      if (!move) return;
      if (move.kind === "swap") {
        this.#put({ ...move.down, phase: "waiting" });
        this.links.ticketDropped({ job: move.down.job_id, fence: move.down.fence + 1 });
      }
      this.#put({ ...(move.kind === "swap" ? move.up : move.job), phase: "ready" });
      this.keepSyncing(now);
      this.owes({ kind: "sync" });
    }
  }

  /** The retention of a job that never got a lease: the tier's at its end. */
  get retention() {
    return TIER_RETENTION[this.mustSettings.tier];
  }
}
