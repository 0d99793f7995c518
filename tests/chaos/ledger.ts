import type { JobRecord } from "../../schemas/job.ts";
import { isTerminal } from "../../scripts/local/client.ts";
import type { PlannedJob } from "./load.ts";
import type { Delivery } from "./receiver.ts";

/** All that a client and its receiver were told of one job. */
export interface Entry {
  readonly job_id: string;
  readonly planned: PlannedJob;
  /** The record as it was when it was first seen terminal. */
  readonly end?: JobRecord;
  /** How many deliveries of each event id came. */
  readonly events: ReadonlyMap<string, number>;
}

interface Kept extends Entry {
  end?: JobRecord;
  /** When the end was first seen: answers to what was asked earlier may still say that the job is open. */
  ended_at: number;
  events: Map<string, number>;
}

/** What of a terminal record may never change: all but how its webhook stands and what signs its URLs. */
function fingerprint(record: JobRecord): string {
  const { webhook: _, outputs, ...rest } = record;
  const files = outputs?.files.map(({ url, ...file }) => ({ ...file, path: new URL(url).pathname }));
  return JSON.stringify({ ...rest, files });
}

/** What the outside world was told. Whatever contradicts what it was told before is a violation. */
export class Ledger {
  readonly #jobs = new Map<string, Kept>();
  readonly #byNumber = new Map<number, string>();
  /** Deliveries that came before the answer to their submission. */
  readonly #early = new Map<string, Delivery[]>();
  readonly violations: string[] = [];
  deliveries = 0;

  /** A submission sent at `asked_at` was answered with this record. */
  accepted(planned: PlannedJob, record: JobRecord, asked_at: number): void {
    const { job_id } = record;
    const known = this.#byNumber.get(planned.n);
    if (known !== undefined && known !== job_id)
      this.violations.push(`submission ${planned.n} was accepted as ${known} and as ${job_id}`);
    this.#byNumber.set(planned.n, job_id);
    if (!this.#jobs.has(job_id))
      this.#jobs.set(job_id, { job_id, planned, events: new Map(), ended_at: Number.POSITIVE_INFINITY });
    this.seen(record, asked_at);
    const early = this.#early.get(job_id) ?? [];
    this.#early.delete(job_id);
    for (const delivery of early) this.#count(delivery);
  }

  /** The service showed this record, in an answer to whatever was sent at `asked_at`. */
  seen(record: JobRecord, asked_at: number): void {
    const entry = this.#jobs.get(record.job_id);
    if (!entry) return;
    if (!entry.end) {
      if (!isTerminal(record)) return;
      entry.end = record;
      entry.ended_at = Date.now();
    } else if (!isTerminal(record) && asked_at < entry.ended_at) {
      // Two answers have overtaken each other on their way.
    } else if (fingerprint(entry.end) !== fingerprint(record)) {
      this.violations.push(`job ${record.job_id} was\n  ${fingerprint(entry.end)}\nand then\n  ${fingerprint(record)}`);
    }
  }

  delivered(delivery: Delivery): void {
    this.deliveries++;
    if (this.#jobs.has(delivery.job_id)) this.#count(delivery);
    else this.#early.set(delivery.job_id, [...(this.#early.get(delivery.job_id) ?? []), delivery]);
  }

  #count({ job_id, event, event_id, status }: Delivery): void {
    const events = this.#jobs.get(job_id)?.events;
    const name = `${event_id} ${event} ${status}`;
    events?.set(name, (events.get(name) ?? 0) + 1);
  }

  /** Notifications of jobs that nobody submitted. */
  get strays(): readonly string[] {
    return [...this.#early.keys()];
  }

  get entries(): readonly Entry[] {
    return [...this.#jobs.values()];
  }

  get(job_id: string): Entry | undefined {
    return this.#jobs.get(job_id);
  }
}
