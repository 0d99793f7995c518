import type { Heartbeat, HeartbeatAnswer } from "../../schemas/runner-protocol.ts";
import type { EnrolToken, RosterEntry } from "../../worker/fleet/roster.ts";
import { Clock } from "../../tests/simulation/clock.ts";
import type {
  ExecutionRef,
  FleetNews,
  Freed,
  Hold,
  Placed,
  SyncAnswer,
  SyncRequest,
  Ticket,
} from "../../worker/fleet/sync.ts";
import { type Chance, between, exponential, stream, zipf } from "../fairness/chance.ts";
import { CLASSES, rosterEntry } from "../fairness/runner.ts";
import { written } from "./counted.ts";
import type { Latency, Plan, Report } from "./report.ts";

/** All accounts and runners of a fleet, played in one request inside workerd: each message is a call of the fleet object. */

/** What the fleet has told accounts on its own, in the order of its arrival. */
export const inbox: { readonly account: string; readonly news: FleetNews; readonly at: number }[] = [];

export interface Fleet {
  sync(request: SyncRequest): Promise<SyncAnswer>;
  beat(runner_id: string, message: Heartbeat): Promise<HeartbeatAnswer | null>;
  enrol(token: EnrolToken, entry: RosterEntry): Promise<void>;
  status(): Promise<{ readonly runners_active: number; readonly tickets_waiting: number }>;
}

const BEAT_MS = 5_000;
/** Between two looks at the timetable. */
const LOOK_MS = 2;
const CONFIRM_MS = 20_000;

class Latencies {
  readonly #values: number[] = [];
  add(ms: number): void {
    this.#values.push(ms);
  }
  clear(): void {
    this.#values.length = 0;
  }
  report(): Latency {
    const sorted = this.#values.toSorted((a, b) => a - b);
    const at = (q: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0;
    return { count: sorted.length, median_ms: at(0.5), p99_ms: at(0.99), worst_ms: at(1) };
  }
}

interface Account {
  readonly name: string;
  readonly tickets: Map<string, { readonly ticket: Ticket; readonly offered_at: number }>;
  readonly holds: Map<string, Hold>;
  readonly fresh: Set<string>;
  want: Ticket[];
  freed: Freed[];
  epoch?: number;
  full_due_at: number;
  confirm_at: number;
  syncing: boolean;
  again: boolean;
}

interface Runner {
  readonly id: string;
  readonly process: string;
  boot: number;
  n: number;
  readonly held: Map<string, ExecutionRef & { readonly account: string; readonly started_at: number }>;
}

export class Driver {
  readonly #plan: Plan;
  readonly #fleet: Fleet;
  readonly #chance: Chance = stream(1, "driver");
  readonly #clock = new Clock(Date.now());
  readonly #accounts = new Map<string, Account>();
  readonly #list: Account[] = [];
  readonly #runners = new Map<string, Runner>();
  readonly #sync = new Latencies();
  readonly #beat = new Latencies();
  readonly #wait = new Latencies();
  readonly #late = new Latencies();
  readonly #counts = { offered: 0, placed: 0, released: 0, news: 0, failures: 0, lost: 0 };
  #jobs = 0;

  constructor(plan: Plan, fleet: Fleet) {
    this.#plan = plan;
    this.#fleet = fleet;
    for (let n = 0; n < plan.accounts; n++) {
      const name = `account-${n}`;
      const account: Account = {
        name,
        tickets: new Map(),
        holds: new Map(),
        fresh: new Set(),
        want: [],
        freed: [],
        full_due_at: 0,
        confirm_at: Number.POSITIVE_INFINITY,
        syncing: false,
        again: false,
      };
      this.#accounts.set(name, account);
      this.#list.push(account);
    }
  }

  async run(): Promise<Report> {
    const { jobs_per_s, warmup_s, seconds } = this.#plan;
    await this.#enrolAll();
    const clock = this.#clock;
    clock.now = Date.now();
    for (const [n, runner] of [...this.#runners.values()].entries())
      clock.after((n * BEAT_MS) / this.#runners.size, () => this.#beats(runner));
    const arrive = () => {
      this.#offer();
      clock.after(exponential(this.#chance, 1_000 / jobs_per_s), arrive);
    };
    clock.after(0, arrive);
    const sweep = () => {
      for (const account of this.#list) if (this.#isDue(account)) this.#say(account);
      clock.after(250, sweep);
    };
    clock.after(250, sweep);
    await this.#runUntil(Date.now() + warmup_s * 1_000);
    const rows_written_before = written.rows;
    this.#measureAfresh();
    const from = Date.now();
    await this.#runUntil(Date.now() + seconds * 1_000);
    const until = Date.now();
    return {
      from,
      until,
      ...(await this.#fleet.status()),
      rows_written_before,
      ...this.#counts,
      sync: this.#sync.report(),
      beat: this.#beat.report(),
      wait: this.#wait.report(),
      late: this.#late.report(),
      rows_written: written.rows,
      alarms_set: written.alarms,
    };
  }

  #measureAfresh(): void {
    for (const latencies of [this.#sync, this.#beat, this.#wait, this.#late]) latencies.clear();
    Object.assign(this.#counts, { offered: 0, placed: 0, released: 0, news: 0, failures: 0, lost: 0 });
    written.rows = 0;
    written.alarms = 0;
  }

  async #runUntil(end: number): Promise<void> {
    for (let now = Date.now(); now < end; now = Date.now()) {
      const due = this.#clock.now;
      this.#clock.runUntil(now);
      this.#late.add(Math.max(0, now - due - LOOK_MS));
      for (const { account, news, at } of inbox.splice(0)) {
        this.#counts.news++;
        this.#hears(this.#accounts.get(account), news, at);
      }
      await scheduler.wait(LOOK_MS);
    }
  }

  async #enrolAll(): Promise<void> {
    const { runners, seats } = this.#plan;
    for (let n = 0; n < runners; n++) {
      const id = `runner-${n}`;
      const now = Date.now();
      await this.#fleet.enrol(
        { token_hash: `token-${n}`, max_seats: seats, expires_at: now + 3_600_000 },
        rosterEntry(id, seats, now),
      );
      const describe = { version: "1", engine: { name: "played", version: "1" }, classes: CLASSES, models: [] };
      const process = `process-${id}`;
      const first = { process, seats, draining: false, held: [], describe };
      const boot = (await this.#fleet.beat(id, first))?.boot ?? 0;
      this.#runners.set(id, { id, process, boot, n: 0, held: new Map() });
    }
  }

  #beats(runner: Runner): void {
    this.#clock.after(BEAT_MS, () => this.#beats(runner));
    const sent = Date.now();
    const held = [...runner.held.values()].map(({ account, job, fence, started_at }) => ({
      account,
      job,
      fence,
      running_ms: Math.max(0, sent - started_at),
    }));
    const beat = { boot: runner.boot, n: ++runner.n };
    this.#fleet.beat(runner.id, { beat, process: runner.process, seats: this.#plan.seats, draining: false, held }).then(
      () => this.#beat.add(Date.now() - sent),
      () => this.#counts.failures++,
    );
  }

  #offer(): void {
    const account = this.#list[Math.floor(this.#chance() * this.#list.length)];
    if (!account) return;
    const now = Date.now();
    const ticket: Ticket = {
      job: `${account.name}-${++this.#jobs}`,
      fence: 1,
      needs: { classes: CLASSES, models: [`checkpoint-${zipf(this.#chance, 12)}.safetensors`] },
      avoid: [],
      exclude: [],
      key: "k0",
      priority: 0,
      created_at: now,
    };
    account.tickets.set(ticket.job, { ticket, offered_at: now });
    account.want.push(ticket);
    this.#counts.offered++;
    this.#say(account);
  }

  #isDue(account: Account): boolean {
    if (account.tickets.size + account.holds.size === 0) return false;
    return Date.now() >= Math.min(account.full_due_at, account.confirm_at);
  }

  /** At most one conversation an account is under way; what changes meanwhile goes with the next. */
  #say(account: Account): void {
    if (account.syncing) {
      account.again = true;
      return;
    }
    account.again = false;
    account.syncing = true;
    const sent = Date.now();
    const full = sent >= account.full_due_at;
    const hold = full ? [...account.holds.values()] : [...account.fresh].flatMap((job) => account.holds.get(job) ?? []);
    const request: SyncRequest = {
      account: account.name,
      tier: "pro",
      ...(account.epoch === undefined ? {} : { epoch: account.epoch }),
      full,
      want: full ? [...account.tickets.values()].map(({ ticket }) => ticket) : account.want,
      drop: [],
      freed: account.freed,
      hold,
    };
    account.want = [];
    account.freed = [];
    account.fresh.clear();
    account.confirm_at = Number.POSITIVE_INFINITY;
    this.#fleet.sync(request).then(
      (answer) => {
        const now = Date.now();
        this.#sync.add(now - sent);
        account.epoch = answer.epoch;
        if (full) account.full_due_at = sent + answer.again_in_s * 1_000;
        if (answer.send_full) account.full_due_at = 0;
        account.syncing = false;
        this.#hears(account, answer, now);
        if (account.again || answer.send_full) this.#say(account);
      },
      () => {
        this.#counts.failures++;
        account.freed = [...request.freed, ...account.freed];
        account.full_due_at = 0;
        account.syncing = false;
      },
    );
  }

  #hears(account: Account | undefined, { placed, verdicts }: FleetNews, at: number): void {
    for (const { verdict } of verdicts) if (verdict === "lost") this.#counts.lost++;
    for (const one of placed) if (account) this.#placed(account, one, at);
  }

  #placed(account: Account, { job, fence, runner: id, boot }: Placed, at: number): void {
    const waiting = account.tickets.get(job);
    const runner = this.#runners.get(id);
    if (!waiting || !runner) return;
    account.tickets.delete(job);
    this.#counts.placed++;
    this.#wait.add(at - waiting.offered_at);
    const beat = { boot: runner.boot, n: runner.n };
    account.holds.set(job, { job, fence, runner: id, boot, kind: "accepted", beat, placed_at: at });
    account.fresh.add(job);
    account.confirm_at = Math.min(account.confirm_at, at + CONFIRM_MS);
    runner.held.set(job, { account: account.name, job, fence, started_at: at });
    const length = this.#plan.length_ms * between(this.#chance, 0.2, 1.8);
    this.#clock.at(at + length, () => {
      runner.held.delete(job);
      account.holds.delete(job);
      account.fresh.delete(job);
      account.freed.push({ job, fence, runner: id, outcome: "ended" });
      this.#counts.released++;
      this.#say(account);
    });
  }
}
