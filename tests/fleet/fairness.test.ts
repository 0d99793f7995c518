import { describe, expect, test } from "vitest";
import { TIER_WEIGHT, Tier } from "../../schemas/limits.ts";
import { charge, joins, PREPAID_MS, type Share } from "../../worker/fleet/fairness.ts";
import type { Pool } from "../../worker/fleet/pool.ts";
import { freed, NOW, openPool, ticket, request, Voice } from "./fixture.ts";

/** Accounts that always have 20 tickets at the fleet, on one runner whose jobs take as long as `length` says. */
class Contest {
  readonly served = new Map<string, number>();
  readonly #pool: Pool;
  readonly #names = new Map<string, Tier>();
  #busy: { account: string; job: string; until: number }[] = [];
  #now = NOW;
  #next = 0;

  constructor(seats: number) {
    this.#pool = openPool([new Voice("one", { seats })]).pool;
  }

  joins(account: string, tier: Tier): void {
    this.#names.set(account, tier);
    this.#say(account, 20);
  }

  #say(account: string, tickets: number, ended?: string): void {
    const want = Array.from({ length: tickets }, () =>
      ticket(`${account}-${++this.#next}`, { created_at: this.#next }),
    );
    const tier = this.#names.get(account) ?? "free";
    const over = ended === undefined ? [] : [freed(ended, "one")];
    const answer = this.#pool.sync(request(account, { tier, want, freed: over }), this.#now);
    for (const { job } of answer.placed) this.#busy.push({ account, job, until: 0 });
    for (const [other, { placed }] of this.#pool.takeNews()) {
      for (const { job } of placed) this.#busy.push({ account: other, job, until: 0 });
    }
  }

  /** Runs until that many jobs have ended. */
  run(jobs: number, length: (account: string) => number = () => 10_000): void {
    for (let n = 0; n < jobs; n++) {
      for (const seat of this.#busy) if (seat.until === 0) seat.until = this.#now + length(seat.account);
      this.#busy.sort((a, b) => a.until - b.until);
      const done = this.#busy.shift();
      if (!done) throw new Error("Nothing runs.");
      this.#now = done.until;
      this.served.set(done.account, (this.served.get(done.account) ?? 0) + length(done.account));
      this.#say(done.account, 1, done.job);
    }
  }

  /** Share of all GPU time so far. */
  share(account: string): number {
    const all = [...this.served.values()].reduce((sum, ms) => sum + ms, 0);
    return (this.served.get(account) ?? 0) / all;
  }
}

describe("over many jobs GPU time is shared", () => {
  test("by weight 1, 4 and 16, within 2 percent", () => {
    const contest = new Contest(1);
    for (const tier of Tier.options) contest.joins(tier, tier);
    contest.run(2_100);
    for (const tier of Tier.options) expect(contest.share(tier)).toBeCloseTo(TIER_WEIGHT[tier] / 21, 1.5);
  });

  test("by time and not by jobs: long ones pay for themselves", () => {
    const contest = new Contest(2);
    contest.joins("short", "pro");
    contest.joins("long", "pro");
    contest.run(2_000, (account) => (account === "long" ? 60_000 : 2_000));
    expect(contest.share("long")).toBeGreaterThan(0.45);
    expect(contest.share("long")).toBeLessThan(0.55);
  });

  test("equally between equals, however many tickets one of them sends", () => {
    const contest = new Contest(4);
    contest.joins("one", "free");
    for (let n = 0; n < 10; n++) contest.joins("flood", "free");
    contest.run(1_000);
    expect(contest.share("flood")).toBeCloseTo(0.5, 1.5);
  });
});

test("a newcomer starts at the present: it neither waits for what it never used, nor takes what it missed", () => {
  const contest = new Contest(1);
  contest.joins("old", "free");
  contest.run(500);
  contest.joins("new", "free");
  contest.served.clear();
  contest.run(20);
  expect(contest.share("new")).toBeGreaterThanOrEqual(0.4);
  expect(contest.share("new")).toBeLessThanOrEqual(0.6);
});

describe("a placement", () => {
  function seated() {
    const { pool } = openPool([new Voice("one", { seats: 4 })]);
    const virtual = () => (pool.seats.clients.get("acc_a")?.share.virtual ?? Number.NaN) * TIER_WEIGHT.pro;
    const say = (part: Parameters<typeof request>[1], now = NOW) =>
      pool.sync(request("acc_a", { tier: "pro", ...part }), now);
    say({ want: [ticket("j1"), ticket("j2")] });
    return { pool, virtual, say };
  }

  test("prepays 5 s", () => {
    expect(seated().virtual()).toBe(2 * PREPAID_MS);
  });

  test("gives back what was not used when its seat is free", () => {
    const { virtual, say } = seated();
    say({ freed: [freed("j1", "one")] }, NOW + 1_000);
    expect(virtual()).toBe(PREPAID_MS + 1_000);
  });

  test("pays for what it uses while it runs", () => {
    const { pool, virtual } = seated();
    pool.tick(NOW + 12_000);
    expect(virtual()).toBe(2 * 12_000);
    pool.tick(NOW + 14_000);
    expect(virtual()).toBe(2 * 14_000);
  });

  test("that was refused costs nothing", () => {
    const { virtual, say } = seated();
    say({ freed: [freed("j1", "one", "refused_full")] }, NOW + 3_000);
    expect(virtual()).toBe(PREPAID_MS);
  });

  test("on a runner that was lost costs nothing", () => {
    const { pool, say, virtual } = seated();
    say({ want: [ticket("j3", { needs: { classes: ["Unheard"], models: [] } })] }, NOW + 9_000);
    pool.revoke("one", NOW + 9_000);
    expect(virtual()).toBe(0);
  });
});

test("a share is charged by its tier's weight, and joins at the present without going back", () => {
  const share = (tier: Tier): Share => ({ tier, virtual: 100 });
  expect(Tier.options.map((tier) => charge(share(tier), 1_600).virtual)).toEqual([1_700, 500, 200]);
  expect(charge(charge(share("pro"), 5_000), -5_000).virtual).toBe(100);
  expect(joins(share("free"), 50).virtual).toBe(100);
  expect(joins(share("free"), 500).virtual).toBe(500);
});
