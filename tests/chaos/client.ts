import type { JobList, JobRecord } from "../../schemas/job.ts";
import type { Ledger } from "./ledger.ts";
import type { PlannedJob } from "./load.ts";

/** Who submits: a key of one account. */
export interface Access {
  /** Straight to the service: what is tested is not the client's line. */
  readonly base_url: string;
  readonly api_key: string;
}

/** A call is repeated for this long; a service that is back, or has room again, accepts it. */
const PATIENCE_MS = 600_000;
const ANSWER_TIMEOUT_MS = 10_000;
const FIRST_PAUSE_MS = 200;
const MOST_PAUSE_MS = 10_000;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A client as its author should write it: it repeats what it may repeat, and honours Retry-After. */
export class CarefulClient {
  readonly #ledger: Ledger;
  readonly #seed: number;
  /** Refusals, faults and broken connections by what they were. */
  readonly troubles = new Map<string, number>();

  constructor(ledger: Ledger, seed: number) {
    this.#ledger = ledger;
    this.#seed = seed;
  }

  #trouble(what: string): void {
    this.troubles.set(what, (this.troubles.get(what) ?? 0) + 1);
  }

  /** Repeats until there is an answer that is final, for at most PATIENCE_MS. Undefined: there was none. */
  async #call<T>({ base_url, api_key }: Access, path: string, init: RequestInit = {}): Promise<T | undefined> {
    const headers = { ...init.headers, authorization: `Bearer ${api_key}`, "content-type": "application/json" };
    const what = `${init.method ?? "GET"} ${path.replace(/[0-9a-f-]{36}/, "{id}").replace(/\?.*/, "")}`;
    const deadline = Date.now() + PATIENCE_MS;
    for (let wait = FIRST_PAUSE_MS; Date.now() < deadline; wait = Math.min(wait * 2, MOST_PAUSE_MS)) {
      try {
        const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
        const response = await fetch(`${base_url}${path}`, { ...init, headers, signal });
        if (response.ok) return (await response.json()) as T;
        const text = await response.text();
        this.#trouble(`${what}: ${response.status}`);
        if (response.status < 500 && response.status !== 429) throw new Refused(`${what}: ${response.status} ${text}`);
        const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
        if (retryAfter > 0) await pause(retryAfter * 1000);
      } catch (error) {
        if (error instanceof Refused) throw error;
        this.#trouble(`${what}: no answer`);
      }
      await pause(wait);
    }
    return undefined;
  }

  /** Resolves with the job's id; rejects when the submission is refused or was not answered in time. */
  async submit(access: Access, planned: PlannedJob, webhook_url: string): Promise<string> {
    const asked_at = Date.now();
    const options = JSON.stringify({ webhook_url, metadata: { n: planned.n } }).slice(1);
    const record = await this.#call<JobRecord>(access, "/v1/jobs", {
      method: "POST",
      headers: { "idempotency-key": `chaos-${this.#seed}-${planned.n}` },
      body: `{"prompt":${planned.prompt},${options}`,
    });
    if (!record) throw new Error(`Submission ${planned.n} was not answered for ${PATIENCE_MS / 1000} s.`);
    this.#ledger.accepted(planned, record, asked_at);
    return record.job_id;
  }

  async look(access: Access, job_id: string): Promise<void> {
    const asked_at = Date.now();
    const record = await this.#call<JobRecord>(access, `/v1/jobs/${job_id}`);
    if (record) this.#ledger.seen(record, asked_at);
  }

  async cancel(access: Access, job_id: string): Promise<void> {
    const asked_at = Date.now();
    const record = await this.#call<JobRecord>(access, `/v1/jobs/${job_id}/cancel`, { method: "POST" });
    if (record) this.#ledger.seen(record, asked_at);
  }

  /** A page of the account's jobs, newest first, as the service lists them. */
  async list(access: Access, cursor?: string): Promise<JobList> {
    const asked_at = Date.now();
    const page = await this.#call<JobList>(
      access,
      `/v1/jobs?limit=100${cursor === undefined ? "" : `&cursor=${cursor}`}`,
    );
    if (!page) throw new Error("The list was not answered.");
    for (const record of page.jobs) this.#ledger.seen(record, asked_at);
    return page;
  }

  limits(access: Access): Promise<{ running: number; queued: number } | undefined> {
    return this.#call(access, "/v1/limits");
  }
}

class Refused extends Error {}
