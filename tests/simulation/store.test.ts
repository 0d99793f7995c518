import { describe, expect, test } from "vitest";
import { Rows } from "../../worker/account/rows.ts";
import { migrate } from "../../worker/account/migrations.ts";
import { type RosterEntry, RosterRows, type RosterStore } from "../../worker/fleet/roster.ts";
import { openSql } from "../account/sqlite.ts";
import { Random } from "../fuzz/random.ts";
import { memoryFleet } from "./fleet-node.ts";
import { MemoryStore } from "./memory-store.ts";
import { change, look } from "./store-operations.ts";

/** The stores of the simulation answer as those over SQLite do, and a failed transaction leaves nothing in either. */

const SEEDS = 40;
const TRANSACTIONS = 60;

class Fails extends Error {}

describe("the account's store in memory", () => {
  test("answers as the rows in SQLite under random changes and failed transactions", () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = new Random(seed);
      const sql = openSql();
      migrate(sql);
      const rows = new Rows(sql);
      const memory = new MemoryStore();
      for (let n = 0; n < TRANSACTIONS; n++) {
        const changes = Array.from({ length: random.int(1, 4) }, () => change(random));
        const fails = random.chance(0.2);
        const outcomes = [rows, memory].map((store) => {
          const transaction = store === memory ? memory.transaction.bind(memory) : sql.transaction;
          try {
            transaction(() => {
              for (const one of changes) one(store);
              if (fails) throw new Fails();
            });
            return "done";
          } catch (error) {
            return error instanceof Fails ? "failed" : "refused";
          }
        });
        expect(outcomes[1], `seed ${seed}, transaction ${n}`).toBe(outcomes[0]);
        expect(look(memory), `seed ${seed}, transaction ${n}`).toEqual(look(rows));
      }
      sql.close();
    }
  });
});

describe("the fleet's roster in memory", () => {
  const entry = (random: Random): RosterEntry => ({
    runner_id: `run_${random.int(1, 4)}`,
    name: "a",
    url: "https://a.example",
    public_jwk: { kty: "OKP", crv: "Ed25519", x: "x" },
    jkt: "jkt",
    max_seats: random.int(1, 4),
    state: random.pick(["active", "lost", "revoked"]),
    boot: random.int(0, 3),
    enrolled_at: 1,
    ...(random.chance(0.5)
      ? {
          description: {
            version: "1",
            engine: { name: "e", version: "1" },
            classes: random.pick([["A"], ["B"]]),
            models: [],
          },
        }
      : {}),
  });

  test("answers as the rows in SQLite", () => {
    const random = new Random(1);
    const sql = openSql();
    const rows: RosterStore = new RosterRows(sql);
    const memory = memoryFleet();
    for (let n = 0; n < 300; n++) {
      const one = entry(random);
      const fails = random.chance(0.2);
      for (const [roster, transaction] of [
        [rows, sql.transaction],
        [memory.roster, memory.transaction],
      ] as const) {
        const work = () =>
          transaction(() => {
            roster.putRunner(one);
            if (fails) throw new Fails();
          });
        if (fails) expect(work).toThrow(Fails);
        else work();
      }
      expect(memory.roster.runners()).toEqual(rows.runners());
    }
    sql.close();
  });
});
