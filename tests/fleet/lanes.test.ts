import { describe, expect, test } from "vitest";
import type { Tier } from "../../schemas/limits.ts";
import { freed, NOW, entryOf, openPool, placedIn, request, ticket, Voice } from "./fixture.ts";

const needs = (...classes: string[]) => ({ needs: { classes, models: [] } });
const model = (...models: string[]) => ({ needs: { classes: ["SaveImage"], models } });

/** Who was placed since the last look, in order. */
const served = (pool: ReturnType<typeof openPool>["pool"]): string[] =>
  [...pool.takeNews()].flatMap(([account, news]) => placedIn(news).map(() => account));

describe("tickets that different runners serve", () => {
  test("do not stand behind each other", () => {
    const { pool } = openPool([
      new Voice("plain"),
      new Voice("rich", { classes: ["SaveImage", "KSampler"], seats: 1 }),
    ]);
    pool.sync(request("a", { want: [ticket("a0", needs("KSampler"))] }), NOW);
    pool.sync(request("b", { want: [ticket("b1", needs("KSampler")), ticket("b2", needs("KSampler"))] }), NOW);
    expect(placedIn(pool.sync(request("c", { want: [ticket("c1")] }), NOW))).toEqual(["c1"]);
  });

  test("find their lane anew when a runner brings classes that none had", () => {
    const { pool } = openPool([new Voice("plain")]);
    pool.sync(request("a", { want: [ticket("a1", needs("KSampler")), ticket("a2", needs("Unheard"))] }), NOW);
    pool.enrol(entryOf("rich"));
    new Voice("rich", { classes: ["SaveImage", "KSampler"] }).beat(pool, NOW + 1_000);
    expect(served(pool)).toEqual(["a"]);
    expect([...(pool.seats.clients.get("a")?.tickets.keys() ?? [])]).toEqual(["a2.1"]);
  });
});

test("waiting in a lane where nothing moves gives no head start in another", () => {
  const { pool } = openPool([new Voice("one", { seats: 1 })]);
  let job = 0;
  const asks = (account: string, tier: Tier = "free") =>
    pool.sync(request(account, { tier, want: [ticket(`${account}-${++job}`, { created_at: job })] }), NOW);
  const ends = (account: string, name: string, now: number) =>
    pool.sync(request(account, { freed: [freed(name, "one")] }), now);
  // The sleeper waits for a class that nobody has, while others use an hour of GPU time.
  pool.sync(request("sleeper", { want: [ticket("s0", needs("Unheard"))] }), NOW);
  asks("worker");
  asks("worker");
  ends("worker", "worker-1", NOW + 3_600_000);
  asks("worker");
  asks("other");
  pool.takeNews();
  asks("sleeper");
  ends("worker", "worker-2", NOW + 7_200_000);
  const order = served(pool);
  pool.sync(request("sleeper", { want: [ticket("sleeper-x", { created_at: 99 })] }), NOW);
  ends(order[0] ?? "", [...pool.seats.seated.values()][0]?.ref.job ?? "", NOW + 7_205_000);
  // It has its turn like everybody else, and not two in a row for the time it did not use.
  expect([...order, ...served(pool)].sort()).toEqual(["other", "sleeper"]);
});

describe("a key's priorities", () => {
  test("order its own tickets and hold up no other key", () => {
    const { pool } = openPool([new Voice("one", { seats: 1 })]);
    pool.sync(request("a", { want: [ticket("first")] }), NOW);
    const want = [
      ticket("loud-1", { key: "loud", priority: 10, created_at: NOW + 2 }),
      ticket("loud-2", { key: "loud", priority: 10, created_at: NOW + 3 }),
      ticket("quiet", { key: "quiet", priority: -10, created_at: NOW + 1 }),
      ticket("loud-low", { key: "loud", priority: 0, created_at: NOW }),
    ];
    pool.sync(request("a", { want }), NOW);
    const order: string[] = [];
    for (let job = "first"; order.length < 4; job = order.at(-1) ?? "") {
      order.push(...placedIn(pool.sync(request("a", { freed: [freed(job, "one")] }), NOW)));
    }
    expect(order).toEqual(["quiet", "loud-1", "loud-2", "loud-low"]);
  });
});

describe("a seat that gets free on a warm runner", () => {
  function warm() {
    const { pool } = openPool([new Voice("one", { seats: 1 })]);
    pool.sync(request("x", { want: [ticket("x1", model("sdxl"))] }), NOW);
    return pool;
  }

  test("goes to one who finds its models there, of those who have used about as much", () => {
    const pool = warm();
    pool.sync(request("cold", { want: [ticket("c1", model("flux"))] }), NOW);
    pool.sync(request("warm", { want: [ticket("w1", model("sdxl"))] }), NOW);
    pool.sync(request("x", { freed: [freed("x1", "one")] }), NOW + 1_000);
    expect(served(pool)).toEqual(["warm"]);
  });

  test("but not to one who has used 10 s more for its weight: nobody falls further behind than that", () => {
    const pool = warm();
    pool.sync(request("cold", { want: [ticket("c1", model("flux"))] }), NOW);
    pool.sync(request("x", { want: [ticket("x2", model("sdxl"))] }), NOW);
    pool.sync(request("x", { freed: [freed("x1", "one")] }), NOW + 11_000);
    expect(served(pool)).toEqual(["cold"]);
  });
});

test("a runner of several seats is warm for what each of them ran last", () => {
  const { pool } = openPool([new Voice("one", { seats: 2 }), new Voice("two", { seats: 2 })]);
  const place = (job: string, name: string) =>
    pool.sync(request("a", { want: [ticket(job, model(name))] }), NOW).placed[0]?.runner;
  const sdxl = place("j1", "sdxl");
  const flux = place("j2", "flux");
  expect(flux).not.toBe(sdxl);
  pool.sync(request("a", { freed: [freed("j1", sdxl ?? ""), freed("j2", flux ?? "")] }), NOW);
  expect([place("j3", "flux"), place("j4", "sdxl")]).toEqual([flux, sdxl]);
});
