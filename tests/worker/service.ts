import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import type { ErrorEnvelope } from "../../schemas/error.ts";
import type { JobRecord } from "../../schemas/job.ts";
import type { Tier } from "../../schemas/limits.ts";
import { OPERATOR_TOKEN, TEST_BINDINGS } from "./bindings.ts";

/** The service under test, called as its clients call it. */

export const BASE = TEST_BINDINGS.PUBLIC_BASE_URL;

export function call(path: string, init: RequestInit = {}): Promise<Response> {
  return exports.default.fetch(new Request(`${BASE}${path}`, init));
}

export interface TestAccount {
  readonly account_id: string;
  readonly api_key: string;
  readonly webhook_secret: string;
}

export async function operator<T>(path: string, body?: Record<string, unknown>): Promise<T> {
  const response = await call(`/operator${path}`, {
    method: body ? "POST" : "GET",
    headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

export const newAccount = (tier: Tier = "pro", pool = "default"): Promise<TestAccount> =>
  operator("/accounts", { email: "test@example.com", tier, pool });

export function api(key: string, path: string, init: RequestInit = {}): Promise<Response> {
  return call(path, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } });
}

/** A graph that any engine with core nodes runs. */
export const HELLO = {
  "1": { class_type: "EmptyImage", inputs: { width: 8, height: 8, batch_size: 1, color: 255 } },
  "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "hello" } },
};

export function submit(key: string, body: unknown = { prompt: HELLO }): Promise<Response> {
  return api(key, "/v1/jobs", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

/** A submission that must be accepted. */
export async function submitted(key: string, body?: unknown): Promise<JobRecord> {
  const response = await submit(key, body);
  if (response.status !== 202) throw new Error(`submit: ${response.status} ${await response.text()}`);
  return (await response.json()) as JobRecord;
}

export async function readJob(key: string, job_id: string): Promise<JobRecord> {
  const response = await api(key, `/v1/jobs/${job_id}`);
  if (response.status !== 200) throw new Error(`read: ${response.status} ${await response.text()}`);
  return (await response.json()) as JobRecord;
}

export async function errorOf(response: Response): Promise<ErrorEnvelope["error"]> {
  return ((await response.json()) as ErrorEnvelope).error;
}

/** The object of an account, for looking inside. */
export const accountObject = (account: Pick<TestAccount, "account_id">) => env.ACCOUNT.getByName(account.account_id);

/** Makes timers of one kind due and fires the alarm, as time would. */
export async function fireTimers(account: Pick<TestAccount, "account_id">, kind: string): Promise<void> {
  const object = accountObject(account);
  await runInDurableObject(object, (_, state) => {
    state.storage.sql.exec("UPDATE timers SET due_at = 0 WHERE kind = ?", kind);
  });
  await runDurableObjectAlarm(object);
}
