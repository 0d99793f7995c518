import { describe as suite, expect, test } from "vitest";
import { Pool } from "../../worker/fleet/pool.ts";
import { type RosterEntry, RosterRows, type RosterStore } from "../../worker/fleet/roster.ts";
import { viewDetails, viewRunners } from "../../worker/fleet/views.ts";
import { describe, entryOf, NOW, openPool, placedIn, sync, ticket, Voice } from "./fixture.ts";

/** What a runner says of itself: with its first beat, and with any other when it has changed. */

const A = "acc_a";
const CLOSED = [
  { group: "core: writes models", classes: ["ModelSave", "LoraSave"], reason: "They write to the disk." },
];
const needs = (...classes: string[]) => ({ needs: { classes, models: [] } });

/** Its next beat, with a description. */
const tells = (pool: Pool, one: Voice, said: ReturnType<typeof describe>, now: number) =>
  pool.beat(one.name, `jkt-${one.name}`, { ...one.next(), describe: said }, now);

suite("a description with a later beat", () => {
  test("opens the runner for what it can do now, and closes it for the rest", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    expect(sync(pool, A, { want: [ticket("j1", needs("Later"))] }, NOW).impossible).toHaveLength(1);
    tells(pool, one, describe(["Later"]), NOW + 1_000);
    expect(placedIn(pool.takeNews().get(A))).toEqual(["j1"]);
    const answer = sync(pool, A, { want: [ticket("j2")] }, NOW + 2_000);
    expect(answer).toMatchObject({ placed: [], impossible: [{ job: "j2" }] });
  });

  test("takes nothing from the runner that it holds", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j1")] }, NOW);
    one.takes(A, { job: "j1", fence: 1 });
    tells(pool, one, describe(["Later"]), NOW + 1_000);
    pool.tick(NOW + 10_000);
    expect([...pool.seats.seated.keys()]).toEqual(["j1.1"]);
    expect(pool.runners.capacity).toBe(2);
  });

  test("changes the catalogue, and only where the classes have changed", () => {
    const one = new Voice("one");
    const { pool } = openPool([one, new Voice("two", { classes: ["Other"] })]);
    expect(pool.takeCatalogue()).toEqual(["Other", "SaveImage"]);
    tells(pool, one, describe(["Later"]), NOW + 1_000);
    expect(pool.takeCatalogue()).toEqual(["Later", "Other"]);
    tells(pool, one, { ...describe(["Later"]), models: ["sd.safetensors"], closed: CLOSED }, NOW + 2_000);
    tells(pool, one, { ...describe(["Later"]), models: ["sd.safetensors"], closed: CLOSED }, NOW + 3_000);
    expect(pool.takeCatalogue()).toBeUndefined();
  });

  test("costs a write only where it says something new", () => {
    const one = new Voice("one");
    const { sql } = openPool([one]);
    const written: RosterEntry[] = [];
    const rows = new RosterRows(sql);
    const store: RosterStore = {
      runners: () => rows.runners(),
      putRunner: (entry) => {
        written.push(entry);
        rows.putRunner(entry);
      },
    };
    const pool = new Pool(store, { started_at: NOW, grace_until: NOW });
    tells(pool, one, describe(), NOW + 1_000);
    expect(written).toHaveLength(0);
    tells(pool, one, { ...describe(), closed: CLOSED }, NOW + 2_000);
    tells(pool, one, { ...describe(), closed: CLOSED }, NOW + 3_000);
    expect(written.map(({ description }) => description?.closed)).toEqual([CLOSED]);
  });
});

suite("closed node classes", () => {
  test("are counted in the list and named in the details, and outlive the fleet object", () => {
    const one = new Voice("one");
    const { pool, sql } = openPool([one]);
    tells(pool, one, { ...describe(), closed: CLOSED }, NOW);
    const again = new Pool(new RosterRows(sql), { started_at: NOW, grace_until: NOW });
    for (const { state } of [pool, again]) {
      expect(viewRunners(state)).toMatchObject([{ classes: 1, closed_classes: 2 }]);
      expect(JSON.stringify(viewRunners(state))).not.toContain("ModelSave");
      expect(viewDetails(state, "one")).toMatchObject({ version: "1", models: [], closed: CLOSED });
    }
    expect(viewDetails(pool.state, "two")).toBeNull();
  });

  test("are in no catalogue, and make no runner fit for a ticket", () => {
    const one = new Voice("one");
    const { pool } = openPool([one]);
    tells(pool, one, { ...describe(), closed: CLOSED }, NOW);
    expect(pool.takeCatalogue()).toEqual(["SaveImage"]);
    expect(sync(pool, A, { want: [ticket("j1", needs("ModelSave"))] }, NOW).placed).toEqual([]);
  });

  test("are kept once for all runners that say the same", () => {
    const voices = ["one", "two", "three"].map((name) => new Voice(name));
    const { pool, sql } = openPool(voices);
    for (const voice of voices) tells(pool, voice, { ...describe(), closed: CLOSED }, NOW);
    expect(sql.exec("SELECT id FROM lists").toArray()).toHaveLength(1);
    const entries = new RosterRows(sql).runners();
    expect(entries).toMatchObject(voices.map(() => ({ description: { closed: CLOSED } })));
    expect(new Set(entries.map(({ description }) => description)).size).toBe(1);
  });

  test("are none for a runner that says nothing of them", () => {
    const { pool } = openPool([new Voice("one")]);
    pool.enrol(entryOf("two"));
    expect(viewDetails(pool.state, "one")).toMatchObject({ closed_classes: 0, closed: [] });
    expect(viewDetails(pool.state, "two")).toMatchObject({ version: null, engine: null, closed: [] });
  });
});
