import { migrate } from "../../worker/account/migrations.ts";
import type { Job } from "../../worker/account/jobs.ts";
import { Rows } from "../../worker/account/rows.ts";
import type { AccountStore, Timer } from "../../worker/account/store.ts";
import { openSql, type TestSql } from "../account/sqlite.ts";
import { judgeWrite } from "./job-rules.ts";
import { MemoryStore } from "./memory-store.ts";
import { Broken } from "./world.ts";

/** What of an account outlives its process: rows and the alarm. */
export interface AccountDisk {
  readonly rows: AccountStore;
  readonly watch: Watch;
  alarm: number | undefined;
  /** Runs `work`; if it throws, the rows are as before. */
  transaction<T>(work: () => T): T;
  timers(): Timer[];
  close(): void;
}

/** Sees every write of an account's job, and breaks one of them on demand. */
export class Watch {
  /** Jobs that were written, or lost a timer, since this was last emptied. */
  readonly touched = new Set<string>();
  /** So many writes are left until one throws. */
  fuse = Number.POSITIVE_INFINITY;

  write(): void {
    if (--this.fuse < 0) throw new Broken("a write failed");
  }

  job(before: Job | undefined, after: Job): void {
    this.write();
    judgeWrite(before, after);
    this.touched.add(after.job_id);
  }
}

/** Has every write of a store seen before it happens. */
function watched<S extends AccountStore>(store: S): { readonly rows: S; readonly watch: Watch } {
  const watch = new Watch();
  const { putJob, insertJob, setTimer, clearTimer } = store;
  store.putJob = (job) => {
    watch.job(store.job(job.job_id)?.job, job);
    putJob.call(store, job);
  };
  store.insertJob = (job, prompt) => {
    watch.job(undefined, job);
    return insertJob.call(store, job, prompt);
  };
  store.setTimer = (kind, ref, due_at) => {
    watch.write();
    setTimer.call(store, kind, ref, due_at);
  };
  store.clearTimer = (kind, ref) => {
    watch.touched.add(ref);
    clearTimer.call(store, kind, ref);
  };
  return { rows: store, watch };
}

export function memoryDisk(): AccountDisk {
  const { rows, watch } = watched(new MemoryStore());
  return {
    rows,
    watch,
    alarm: undefined,
    transaction: (work) => rows.transaction(work),
    timers: () => rows.timers(),
    close() {},
  };
}

export function sqliteDisk(): AccountDisk {
  const sql: TestSql = openSql();
  migrate(sql);
  const { rows, watch } = watched(new Rows(sql));
  // The database's pages are no part of a schedule.
  rows.bytes = () => 0;
  return {
    rows,
    watch,
    alarm: undefined,
    transaction: (work) => sql.transaction(work),
    timers: () => rows.dueTimers(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    close: () => sql.close(),
  };
}
