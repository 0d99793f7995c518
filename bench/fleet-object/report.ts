/** What Node asks of the driver inside workerd, and what it answers. Times are milliseconds. */

export interface Plan {
  /** `null`: a fleet that does nothing, to know what the driver itself costs. */
  readonly fleet: "real" | "null";
  readonly accounts: number;
  readonly runners: number;
  readonly seats: number;
  readonly jobs_per_s: number;
  readonly length_ms: number;
  readonly warmup_s: number;
  readonly seconds: number;
}

export interface Latency {
  readonly count: number;
  readonly median_ms: number;
  readonly p99_ms: number;
  readonly worst_ms: number;
}

export interface Report {
  /** The measured time, epoch. */
  readonly from: number;
  readonly until: number;
  /** Jobs within the measured time. */
  readonly offered: number;
  readonly placed: number;
  readonly released: number;
  readonly sync: Latency;
  readonly beat: Latency;
  /** From the ticket to the placement, as the account learns of it. */
  readonly wait: Latency;
  /** Callbacks of the fleet with news. */
  readonly news: number;
  readonly failures: number;
  /** Runners that the fleet thinks are there at the end, and tickets that wait. */
  readonly runners_active: number;
  readonly tickets_waiting: number;
  /** Executions that the fleet declared lost: no runner fails here, so each is a stall that lasted 15 s. */
  readonly lost: number;
  /** What the fleet object wrote before the measured time: enrolments and first beats. */
  readonly rows_written_before: number;
  /** What the fleet object wrote: rows by SQL and key-value, and alarms set. */
  readonly rows_written: number;
  readonly alarms_set: number;
  /** How far the driver was behind its own timetable: beyond a few milliseconds the isolate is full. */
  readonly late: Latency;
}
