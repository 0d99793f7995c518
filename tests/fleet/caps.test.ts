import { describe, expect, test } from "vitest";
import type { Tier } from "../../schemas/limits.ts";
import { capsOf } from "../../worker/fleet/fairness.ts";
import { freed, NOW, openPool, placedIn, request, ticket, Voice } from "./fixture.ts";

const active = (free: number, pro = 0, enterprise = 0) => ({ free, pro, enterprise });

describe("the cap of an account", () => {
  test("is twice its weighted share of the seats", () => {
    expect(capsOf(100, 100, active(0, 5)).account.pro).toBe(40);
    expect(capsOf(100, 100, active(10)).account.free).toBe(20);
    expect(capsOf(210, 210, active(0, 1, 1)).account).toMatchObject({ pro: 84, enterprise: 336 });
  });

  test("is one seat at least", () => {
    expect(capsOf(10, 10, active(1_000, 1_000)).account).toMatchObject({ free: 1, pro: 1 });
    expect(capsOf(0, 0, active(1)).account.free).toBe(1);
  });

  test("does not shrink by more than a quarter of the pool for all Free accounts together", () => {
    // 1000 Free accounts beside one Pro account: without the bound it would have 2 * 100 * 4 / 1004 seats.
    expect(capsOf(100, 100, active(1_000, 1)).account.pro).toBe(150);
    expect(capsOf(100, 100, active(1_000, 1)).freeTier).toBe(25);
  });
});

/** One runner with so many seats, and accounts that ask for them. */
function poolOf(seats: number) {
  const { pool } = openPool([new Voice("one", { seats })], { max_seats: seats });
  let next = 0;
  return {
    pool,
    asks(account: string, tier: Tier, tickets: number) {
      const want = Array.from({ length: tickets }, () => ticket(`${account}-${++next}`, { created_at: next }));
      return pool.sync(request(account, { tier, want }), NOW);
    },
    ends(account: string, tier: Tier, job: string) {
      pool.sync(request(account, { tier, freed: [freed(job, "one")] }), NOW + 1);
      return [...pool.takeNews()].flatMap(([other, news]) => placedIn(news).map(() => other));
    },
    seatsOf: (account: string) => pool.seats.clients.get(account)?.seats.size ?? 0,
  };
}

test("an account alone has the whole pool", () => {
  const { asks, seatsOf } = poolOf(20);
  asks("one", "free", 30);
  expect(seatsOf("one")).toBe(20);
});

test("while others wait, an account beyond its share gets no further seat, however little it has used", () => {
  const { asks, ends, seatsOf } = poolOf(8);
  for (let n = 0; n < 4; n++) asks(`long-${n}`, "free", 2);
  expect(seatsOf("long-0")).toBe(2);
  // Fifty accounts come: each may have one seat now, and who had two and gives one up still has its one.
  for (let n = 0; n < 50; n++) asks(`new-${n}`, "free", 1);
  asks("long-0", "free", 5);
  expect(ends("long-0", "free", "long-0-1")).toEqual(["new-0"]);
  expect(seatsOf("long-0")).toBe(1);
});

test("a seat is never left empty for a cap's sake", () => {
  const { asks, seatsOf } = poolOf(8);
  asks("b", "free", 1);
  asks("a", "free", 20);
  expect(seatsOf("a") + seatsOf("b")).toBe(8);
});

test("the Free tier as a whole has a quarter while paid work waits, and all of it otherwise", () => {
  const { asks, ends, pool } = poolOf(8);
  for (let n = 0; n < 100; n++) asks(`free-${n}`, "free", 1);
  expect(pool.seats.freeTier).toBe(8);
  asks("paid", "pro", 20);
  const freeJobs = [...pool.seats.seated.values()].map(({ account, ref }) => [account, ref.job] as const);
  const served = freeJobs.flatMap(([account, job]) => ends(account, "free", job));
  // The paid account takes every seat that is freed until six are paid; then the two kinds alternate at the cap.
  expect(served.filter((account) => account === "paid").length).toBeGreaterThanOrEqual(6);
  expect(pool.seats.freeTier).toBeLessThanOrEqual(2);
});

test("an account that changes its tier counts with its new one", () => {
  const { asks, pool } = poolOf(4);
  asks("a", "free", 2);
  expect(pool.seats.active).toEqual(active(1));
  expect(pool.seats.freeTier).toBe(2);
  asks("a", "pro", 0);
  expect(pool.seats.active).toEqual(active(0, 1));
  expect(pool.seats.freeTier).toBe(0);
});
