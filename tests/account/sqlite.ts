import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { Sql } from "../../worker/account/sql.ts";

export interface TestSql extends Sql {
  /** Runs `work` and takes everything back if it throws, as a Durable Object's `transactionSync` does. */
  transaction<T>(work: () => T): T;
  close(): void;
}

/** A database in memory behind the interface of a Durable Object's `SqlStorage`. */
export function openSql(): TestSql {
  const database = new DatabaseSync(":memory:");
  const prepared = new Map<string, StatementSync>();
  return {
    exec(query, ...bindings) {
      const statement = prepared.get(query) ?? database.prepare(query);
      prepared.set(query, statement);
      const rows = statement.all(...bindings);
      return { toArray: () => rows };
    },
    get databaseSize() {
      return Number(database.prepare("PRAGMA page_count").get()?.page_count) * 4096;
    },
    transaction(work) {
      database.exec("BEGIN");
      try {
        const value = work();
        database.exec("COMMIT");
        return value;
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
    },
    close: () => database.close(),
  };
}
