import { describe, expect, test } from "vitest";
import { freed, hold, NOW, openPool, placedIn, request, sync, ticket, Voice, verdictsIn } from "./fixture.ts";

const A = "acc_a";
const B = "acc_b";
const want = (...jobs: string[]) => ({ want: jobs.map((job) => ticket(job)) });

describe("seats", () => {
  test("go to tickets at once, and the answer says all that a dispatch needs", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    expect(sync(pool, A, want("j1"), NOW).placed).toEqual([
      { job: "j1", fence: 1, runner: "one", boot: 1, url: "https://one.example", jkt: "jkt-one" },
    ]);
  });

  test("are never given twice: not to one account, nor to two", () => {
    const one = new Voice("one", { seats: 2 });
    const { pool } = openPool([one]);
    expect(placedIn(sync(pool, A, want("j1", "j2", "j3"), NOW))).toEqual(["j1", "j2"]);
    expect(sync(pool, B, want("k1"), NOW).placed).toEqual([]);
    expect(pool.seats.seated.size).toBe(2);
  });

  test("are bounded by the enrolment, whatever a beat says", () => {
    const one = new Voice("one", { seats: 8 });
    const { pool } = openPool([one], { max_seats: 1 });
    expect(placedIn(sync(pool, A, want("j1", "j2"), NOW))).toEqual(["j1"]);
  });

  test("that become free go to waiting tickets as news", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1"), NOW);
    sync(pool, B, want("k1"), NOW);
    sync(pool, A, { freed: [freed("j1", "one")] }, NOW + 1_000);
    expect([...pool.takeNews()].map(([account, said]) => [account, ...placedIn(said)])).toEqual([[B, "k1"]]);
    expect(pool.takeNews().size).toBe(0);
  });

  test("go to nobody while the runner drains", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    one.draining = true;
    one.beat(pool, NOW);
    expect(sync(pool, A, want("j1"), NOW).placed).toEqual([]);
  });

  test("listed by a beat count as taken, whoever put them there", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    one.takes(B, { job: "k1", fence: 4 });
    one.beat(pool, NOW);
    expect(sync(pool, A, want("j1"), NOW).placed).toEqual([]);
  });
});

describe("a standing placement", () => {
  test("is repeated, and never a second one made", () => {
    const voices = [new Voice("one"), new Voice("two")];
    const { pool } = openPool(voices);
    const [first] = sync(pool, A, want("j1"), NOW).placed;
    for (const full of [false, true]) {
      expect(sync(pool, A, { ...want("j1"), full }, NOW + 1_000).placed).toEqual([first]);
    }
    expect(pool.seats.seated.size).toBe(1);
  });

  test("that nobody has confirmed for 60 s is void", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1"), NOW);
    for (let t = 5_000; t < 60_000; t += 5_000) one.beat(pool, NOW + t);
    pool.tick(NOW + 59_999);
    expect(pool.seats.seated.size).toBe(1);
    pool.tick(NOW + 60_000);
    expect(pool.seats.seated.size).toBe(0);
    expect(pool.takeNews().size).toBe(0);
  });

  test.each(["hold", "beat"])("that a %s has confirmed stays", (by) => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1"), NOW);
    if (by === "hold") sync(pool, A, { hold: [hold("j1", one, { kind: "trying" })] }, NOW);
    else one.takes(A, { job: "j1", fence: 1 });
    for (let t = 5_000; t <= 70_000; t += 5_000) one.beat(pool, NOW + t);
    pool.tick(NOW + 70_000);
    expect(pool.seats.seated.size).toBe(1);
  });
});

describe("a sync", () => {
  test("in full withdraws what it does not name: tickets and seats", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1", "j2"), NOW);
    sync(pool, A, { ...want("j3"), full: true, hold: [hold("j1", one, { kind: "trying" })] }, NOW);
    expect([...(pool.seats.clients.get(A)?.tickets.keys() ?? [])]).toEqual(["j3.1"]);
    sync(pool, A, { full: true }, NOW);
    expect(pool.seats.seated.size).toBe(0);
  });

  test("in part withdraws only what it drops", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1", "j2", "j3"), NOW);
    sync(pool, A, { drop: [{ job: "j2", fence: 1 }] }, NOW);
    expect([...(pool.seats.clients.get(A)?.tickets.keys() ?? [])]).toEqual(["j3.1"]);
    expect([...pool.seats.seated.keys()]).toEqual(["j1.1"]);
  });

  test("touches nothing of another account", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, want("j1"), NOW);
    sync(pool, B, { full: true, drop: [{ job: "j1", fence: 1 }], freed: [freed("j1", "one")] }, NOW);
    expect([...pool.seats.seated.keys()]).toEqual(["j1.1"]);
  });

  test("from an account that knows an earlier life of the fleet is answered with send_full", () => {
    const { pool } = openPool([new Voice("one")]);
    const { epoch, send_full } = pool.sync(request(A), NOW);
    expect(send_full).toBe(true);
    expect(pool.sync(request(A, { epoch: epoch - 1 }), NOW).send_full).toBe(true);
    expect(pool.sync(request(A, { epoch }), NOW).send_full).toBe(false);
    expect(pool.sync(request(A, { full: true }), NOW).send_full).toBe(false);
  });

  test("is invited again after some 5 s, and later the more accounts there are, never all at the same time", () => {
    const { pool } = openPool();
    const first = sync(pool, A, want("j1"), NOW).again_in_s;
    expect(first).toBeGreaterThanOrEqual(5);
    expect(first).toBeLessThanOrEqual(6.25);
    const invited = new Set<number>();
    for (let n = 1; n < 1_000; n++) invited.add(sync(pool, `acc_${n}`, want(`j${n}`), NOW).again_in_s);
    expect(invited.size).toBeGreaterThan(900);
    expect(sync(pool, A, want("j1"), NOW).again_in_s).toBe(2 * first);
  });

  test("of an account that falls silent is forgotten with its tickets", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, "acc_b", want("j0"), NOW);
    sync(pool, A, want("j1"), NOW);
    sync(pool, "acc_b", { full: true, hold: [hold("j0", one)] }, NOW + 170_000);
    one.takes("acc_b", { job: "j0", fence: 1 });
    one.beat(pool, NOW + 179_000);
    pool.tick(NOW + 179_000);
    expect(pool.seats.clients.get(A)?.tickets.size).toBe(1);
    pool.tick(NOW + 180_000);
    expect(pool.seats.clients.get(A)?.tickets.size).toBe(0);
  });
});

describe("a hold", () => {
  test("outranks the fleet's memory: what it did not know takes its seat", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    const answer = sync(pool, A, { full: true, hold: [hold("j1", one)], ...want("j2") }, NOW);
    expect(verdictsIn(answer)).toEqual(["j1.1 unknown"]);
    expect(answer.placed).toEqual([]);
  });

  test("of what a beat lists is held, with that beat and how long it has been running", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    one.held = [{ account: A, job: "j1", fence: 1, running_ms: 700 }];
    one.beat(pool, NOW);
    expect(sync(pool, A, { hold: [hold("j1", one, { kind: "trying" })] }, NOW).verdicts).toEqual([
      { job: "j1", fence: 1, verdict: "held", beat: { boot: 1, n: 1 }, running_ms: 700 },
    ]);
  });

  test("on an earlier boot, or a runner that nobody knows, is lost", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    const holds = [hold("j1", one, { boot: 0 }), hold("j2", new Voice("none"))];
    expect(verdictsIn(sync(pool, A, { hold: holds }, NOW))).toEqual(["j1.1 lost", "j2.1 lost"]);
    expect(pool.seats.seated.size).toBe(0);
  });
});

describe("a revoked runner", () => {
  test("loses what it held, is not heard any more, and gets nothing", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    sync(pool, A, want("j1"), NOW);
    expect(pool.revoke("one", NOW)).toBe(true);
    expect(verdictsIn(pool.takeNews().get(A))).toEqual(["j1.1 revoked"]);
    expect(one.beat(pool, NOW)).toBeUndefined();
    expect(sync(pool, A, { want: [ticket("j1", { fence: 2 })] }, NOW).placed).toEqual([]);
    expect(pool.revoke("none", NOW)).toBe(false);
  });

  test("is a new one when it enrols again; any other known key keeps its identity", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    const entry = pool.runners.get("one")?.entry;
    if (!entry) throw new Error("The runner is not enrolled.");
    expect(pool.enrol({ ...entry, runner_id: "other", url: "https://moved.example" })).toMatchObject({
      runner_id: "one",
      url: "https://moved.example",
    });
    pool.revoke("one", NOW);
    expect(pool.enrol({ ...entry, runner_id: "other" }).runner_id).toBe("other");
  });
});
