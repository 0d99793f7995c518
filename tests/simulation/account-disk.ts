import { migrate } from "../../worker/account/migrations.ts";
import type { Job } from "../../worker/account/jobs.ts";
import { Rows } from "../../worker/account/rows.ts";
import type { AccountStore, StoredJob, Timer, TimerKind } from "../../worker/account/store.ts";
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

class WatchedMemory extends MemoryStore {
  readonly watch = new Watch();
  override putJob(job: Job): void {
    this.watch.job(this.job(job.job_id)?.job, job);
    super.putJob(job);
  }
  override insertJob(job: Job, prompt: string | undefined): StoredJob {
    this.watch.job(undefined, job);
    return super.insertJob(job, prompt);
  }
  override setTimer(kind: TimerKind, ref: string, due_at: number): void {
    this.watch.write();
    super.setTimer(kind, ref, due_at);
  }
  override clearTimer(kind: TimerKind, ref: string): void {
    this.watch.touched.add(ref);
    super.clearTimer(kind, ref);
  }
}

class WatchedRows extends Rows {
  readonly watch = new Watch();
  override putJob(job: Job): void {
    this.watch.job(this.job(job.job_id)?.job, job);
    super.putJob(job);
  }
  override insertJob(job: Job, prompt: string | undefined): StoredJob {
    this.watch.job(undefined, job);
    return super.insertJob(job, prompt);
  }
  override setTimer(kind: TimerKind, ref: string, due_at: number): void {
    this.watch.write();
    super.setTimer(kind, ref, due_at);
  }
  override clearTimer(kind: TimerKind, ref: string): void {
    this.watch.touched.add(ref);
    super.clearTimer(kind, ref);
  }
  /** The database's pages are no part of a schedule. */
  override bytes(): number {
    return 0;
  }
}

export function memoryDisk(): AccountDisk {
  const rows = new WatchedMemory();
  const { watch } = rows;
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
  const rows = new WatchedRows(sql);
  const { watch } = rows;
  return {
    rows,
    watch,
    alarm: undefined,
    transaction: (work) => sql.transaction(work),
    timers: () => rows.dueTimers(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    close: () => sql.close(),
  };
}
