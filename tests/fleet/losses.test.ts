import { describe, expect, test } from "vitest";
import { OUTAGE_MS, SILENCE_MS, START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import { RosterRows } from "../../worker/fleet/roster.ts";
import { hold, NOW, openPool, placedIn, sync, ticket, Voice, verdictsIn } from "./fixture.ts";

const A = "acc_a";
const lost = (pool: Pool) => [...pool.runners.values()].filter(({ entry }) => entry.state === "lost").length;
const fleetOf = (count: number) => Array.from({ length: count }, (_, n) => new Voice(`runner-${n}`));

describe("a runner that falls silent", () => {
  test("is lost after 15 s, with all that it held", () => {
    const [one, two] = [new Voice("one"), new Voice("two")];
    const { pool } = openPool([one, two]);
    sync(pool, A, { want: [ticket("j1", { avoid: ["two"] })] }, NOW);
    two.beat(pool, NOW + 14_000);
    pool.tick(NOW + SILENCE_MS - 1);
    expect(lost(pool)).toBe(0);
    pool.tick(NOW + SILENCE_MS);
    expect(pool.runners.get("one")?.entry).toMatchObject({ state: "lost", lost_at: NOW + SILENCE_MS });
    expect(pool.runners.get("two")?.entry.state).toBe("active");
    expect(verdictsIn(pool.takeNews().get(A))).toEqual(["j1.1 lost"]);
  });

  test("is lost once: its verdicts are not told again", () => {
    const { pool } = openPool([new Voice("one")]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    pool.tick(NOW + SILENCE_MS);
    pool.takeNews();
    pool.tick(NOW + 2 * SILENCE_MS);
    expect(pool.takeNews().size).toBe(0);
  });

  test("stays lost for those who ask, also after a restart of the fleet", () => {
    const one = new Voice("one");
    const { pool, sql } = openPool([one]);
    pool.tick(NOW + SILENCE_MS);
    const again = new Pool(new RosterRows(sql), { started_at: NOW + 20_000, grace_until: NOW + 40_000 });
    for (const each of [pool, again]) {
      expect(verdictsIn(sync(each, A, { hold: [hold("j1", one)] }, NOW + 20_000))).toEqual(["j1.1 lost"]);
    }
  });

  test("is active again with its next beat, and what that lists is held", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    pool.tick(NOW + SILENCE_MS);
    one.takes(A, { job: "j1", fence: 1 });
    one.beat(pool, NOW + 30_000);
    expect(pool.runners.get("one")?.entry.state).toBe("active");
    expect(pool.runners.get("one")?.entry).not.toHaveProperty("lost_at");
    expect(verdictsIn(sync(pool, A, { hold: [hold("j1", one)] }, NOW + 30_000))).toEqual(["j1.1 held"]);
  });

  test("makes the pool look at it in time", () => {
    const { pool } = openPool([new Voice("one")]);
    pool.tick(NOW);
    expect(pool.nextTick(NOW)).toBe(NOW + SILENCE_MS);
    pool.tick(NOW + SILENCE_MS);
    expect(pool.nextTick(NOW + SILENCE_MS)).toBeUndefined();
  });
});

describe("a fleet object that has just started", () => {
  function restarted(grace_until = NOW + START_GRACE_MS) {
    const one = new Voice("one");
    const { sql } = openPool([one]);
    return { one, pool: new Pool(new RosterRows(sql), { started_at: NOW, grace_until }) };
  }

  test("gives a runner no work before it has heard it", () => {
    const { one, pool } = restarted();
    expect(sync(pool, A, { want: [ticket("j1")] }, NOW).placed).toEqual([]);
    one.beat(pool, NOW + 3_000);
    expect(placedIn(pool.takeNews().get(A))).toEqual(["j1"]);
  });

  test("judges no runner before 20 s have passed", () => {
    const { one, pool } = restarted();
    pool.tick(NOW + START_GRACE_MS - 1);
    expect(verdictsIn(sync(pool, A, { hold: [hold("j1", one)] }, NOW + START_GRACE_MS - 1))).toEqual(["j1.1 unknown"]);
    pool.tick(NOW + START_GRACE_MS);
    expect(verdictsIn(pool.takeNews().get(A))).toEqual(["j1.1 lost"]);
  });

  test("judges none of its tickets as impossible before", () => {
    const { pool } = restarted();
    const alien = ticket("j1", { needs: { classes: ["Unheard"], models: [] } });
    expect(sync(pool, A, { want: [alien] }, NOW + START_GRACE_MS - 1).impossible).toEqual([]);
    expect(sync(pool, A, { want: [alien] }, NOW + START_GRACE_MS).impossible).toHaveLength(1);
  });

  test("a second time does not begin the grace anew, but leaves time for one beat", () => {
    const { pool } = restarted(NOW - 5_000);
    pool.tick(NOW + 5_999);
    expect(lost(pool)).toBe(0);
    pool.tick(NOW + 6_000);
    expect(lost(pool)).toBe(1);
  });
});

describe("when many fall silent together", () => {
  test("more than a third, and at least three, the observer is the suspect: losses wait for 60 s", () => {
    const voices = fleetOf(8);
    const { pool } = openPool(voices);
    const heard = (now: number) => voices.slice(3).forEach((voice) => void voice.beat(pool, now));
    heard(NOW + 10_000);
    pool.tick(NOW + SILENCE_MS);
    expect(lost(pool)).toBe(0);
    heard(NOW + SILENCE_MS + OUTAGE_MS - 5_000);
    pool.tick(NOW + SILENCE_MS + OUTAGE_MS - 1);
    expect(lost(pool)).toBe(0);
    pool.tick(NOW + SILENCE_MS + OUTAGE_MS);
    expect(lost(pool)).toBe(3);
  });

  test.each([
    ["three of nine are no outage", 9, 3],
    ["two of two are none", 2, 2],
  ])("%s", (_, count, silent) => {
    const voices = fleetOf(count);
    const { pool } = openPool(voices);
    for (const voice of voices.slice(silent)) voice.beat(pool, NOW + 10_000);
    pool.tick(NOW + SILENCE_MS);
    expect(lost(pool)).toBe(silent);
  });

  test("and come back in time, nothing is lost", () => {
    const voices = fleetOf(4);
    const { pool } = openPool(voices);
    pool.tick(NOW + 40_000);
    for (const voice of voices) voice.beat(pool, NOW + 41_000);
    pool.tick(NOW + 50_000);
    expect(lost(pool)).toBe(0);
  });

  test("runners that were lost or revoked before do not count", () => {
    const voices = fleetOf(12);
    const { pool } = openPool(voices);
    for (const voice of voices.slice(0, 6)) pool.revoke(voice.name, NOW);
    for (const voice of voices.slice(9)) voice.beat(pool, NOW + 10_000);
    pool.tick(NOW + SILENCE_MS);
    expect(lost(pool)).toBe(0);
  });
});
