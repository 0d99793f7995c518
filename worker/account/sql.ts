/** As much of SQLite as is used: a Durable Object's `SqlStorage` has it. */
export interface Sql {
  readonly databaseSize: number;
  exec(query: string, ...bindings: SqlValue[]): { toArray(): Row[] };
}

export type SqlValue = string | number | null;
export type Row = Record<string, unknown>;

export const orNull = (value: number | undefined): number | null => value ?? null;

/** A row's `body`. Throws where it is no JSON. */
export const parseBody = <T>(row: Row): T => JSON.parse(String(row.body)) as T;

/** Reads rows. One that can't be read stops nobody but itself. */
export class RowReader {
  readonly #sql: Sql;
  readonly #onPoisoned: (row: Row) => void;

  constructor(sql: Sql, onPoisoned: (row: Row) => void) {
    this.#sql = sql;
    this.#onPoisoned = onPoisoned;
  }

  one(query: string, ...bindings: SqlValue[]): Row | undefined {
    return this.#sql.exec(query, ...bindings).toArray()[0];
  }

  /** The rows that can be read; the others are passed over, and somebody hears of them. */
  readable<T>(rows: Row[], read: (row: Row) => T): T[] {
    return rows.flatMap((row) => {
      try {
        return [read(row)];
      } catch {
        this.#onPoisoned(row);
        return [];
      }
    });
  }
}
