import type { JobList, JobRecord } from "../../schemas/job.ts";
import type { JobEvent, JobEventList, WebhookDelivery } from "../../schemas/webhook.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import type { DevelopmentAccount, LocalFile } from "../../scripts/local/state.ts";
import { QUICK_PROMPT } from "./stack.ts";

const PROMPT = JSON.parse(QUICK_PROMPT) as object;
/** No runner serves it: its jobs wait until they are cancelled. */
const IDLE_POOL = "idle";

/** An account on the largest tier, and what its owner asks of the service. */
export class Customer {
  readonly #baseUrl: string;
  readonly #account: DevelopmentAccount;

  private constructor(baseUrl: string, account: DevelopmentAccount) {
    this.#baseUrl = baseUrl;
    this.#account = account;
  }

  /** @param idle its jobs are never run */
  static async create({ base_url, operator_token }: LocalFile, { idle = false } = {}): Promise<Customer> {
    const settings = { email: "customer@example.com", tier: "enterprise", ...(idle ? { pool: IDLE_POOL } : {}) };
    return new Customer(base_url, await callOperator(base_url, operator_token, "POST", "/accounts", settings));
  }

  get webhookSecret(): string {
    return this.#account.webhook_secret;
  }

  async #ask<T>(path: string, init: RequestInit = {}): Promise<T> {
    const headers = { authorization: `Bearer ${this.#account.api_key}`, "content-type": "application/json" };
    const response = await fetch(`${this.#baseUrl}/v1${path}`, { ...init, headers });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return (await response.json()) as T;
  }

  readonly #post = <T>(path: string, body?: object): Promise<T> =>
    this.#ask(path, { method: "POST", ...(body ? { body: JSON.stringify(body) } : {}) });

  /** The id of a quick job that makes one picture. */
  async submit(webhook_url: string): Promise<string> {
    return (await this.#post<JobRecord>("/jobs", { prompt: PROMPT, webhook_url })).job_id;
  }

  /** The id of a job that was cancelled as soon as it was submitted. */
  async endedJob(webhook_url: string): Promise<string> {
    const job_id = await this.submit(webhook_url);
    await this.#post(`/jobs/${job_id}/cancel`);
    return job_id;
  }

  /** The newest 100. */
  async jobs(): Promise<ReadonlyMap<string, JobRecord>> {
    const { jobs } = await this.#ask<JobList>("/jobs?limit=100");
    return new Map(jobs.map((job) => [job.job_id, job]));
  }

  job(job_id: string): Promise<JobRecord> {
    return this.#ask(`/jobs/${job_id}`);
  }

  webhook(job_id: string): Promise<WebhookDelivery> {
    return this.#ask(`/jobs/${job_id}/webhook`);
  }

  redeliver(job_id: string): Promise<JobRecord> {
    return this.#post(`/jobs/${job_id}/webhook/redeliver`);
  }

  /** All there are, page by page. */
  async events(limit: number, after?: string): Promise<JobEvent[]> {
    const found: JobEvent[] = [];
    for (let from = after; ; ) {
      const query = new URLSearchParams({ limit: String(limit), ...(from === undefined ? {} : { after: from }) });
      const { events, has_more, next_after } = await this.#ask<JobEventList>(`/events?${query}`);
      found.push(...events);
      if (!has_more) return found;
      from = next_after;
    }
  }
}
