/** What a Durable Object writes, counted where it calls its storage. */
export const written = { rows: 0, alarms: 0 };

/** Own properties of the storage hide those of its prototype; the object does not notice. */
export function counted(ctx: DurableObjectState): DurableObjectState {
  const { storage } = ctx;
  const { sql, kv } = storage;
  const set = storage.setAlarm.bind(storage);
  const exec = (query: string, ...bindings: unknown[]) => {
    const cursor = sql.exec(query, ...bindings);
    // Statements that write have run by now; a cursor that reads goes on as it is read.
    written.rows += cursor.rowsWritten;
    return cursor;
  };
  const put = (key: string, value: unknown) => {
    written.rows++;
    kv.put(key, value);
  };
  const setAlarm = (time: number | Date) => {
    written.alarms++;
    return set(time);
  };
  const over = (name: string, value: unknown) => Object.defineProperty(storage, name, { value });
  /** Methods of the runtime's own objects want those objects as `this`. */
  const hiding = <T extends object>(target: T, own: Partial<T>) =>
    new Proxy(target, {
      get: (_, name) => {
        if (name in own) return own[name as keyof T];
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  over("sql", hiding(sql, { exec: exec as typeof sql.exec }));
  over("kv", hiding(kv, { put }));
  over("setAlarm", setAlarm);
  return ctx;
}
