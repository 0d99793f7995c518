import { runInDurableObject } from "cloudflare:test";
import * as v from "valibot";
import { expect } from "vitest";
import { ERROR_STATUS, type ErrorCode, ErrorEnvelope } from "../../schemas/error.ts";
import { type JobList, JobRecord } from "../../schemas/job.ts";
import { accountObject, api, type TestAccount } from "../worker/service.ts";

/** What tests of the contract ask of an account, and how they look at its answers. */

export type Row = Record<string, string | number | null>;

/** A look into the account's rows. */
export const rows = (
  account: Pick<TestAccount, "account_id">,
  query: string,
  ...bindings: (string | number)[]
): Promise<Row[]> =>
  runInDurableObject(
    accountObject(account),
    (_, state) => state.storage.sql.exec(query, ...bindings).toArray() as Row[],
  );

/** A refusal with this code and the status that belongs to it; returns its error. */
export async function refused(response: Response, code: ErrorCode): Promise<ErrorEnvelope["error"]> {
  const text = await response.text();
  expect(`${response.status} ${text}`).toContain(`"${code}"`);
  const { error } = v.parse(ErrorEnvelope, JSON.parse(text));
  expect({ status: response.status, code: error.code }).toEqual({ status: ERROR_STATUS[code], code });
  expect(error.request_id).toBe(response.headers.get("x-request-id"));
  return error;
}

/** The record in an answer, held to its schema and to what belongs to its status (contract section 1). */
export async function recordIn(response: Response): Promise<JobRecord> {
  const body = await response.json();
  expectRecord(body);
  return body;
}

const TERMINAL = ["completed", "failed", "cancelled"];

export function expectRecord(body: unknown): asserts body is JobRecord {
  const record = v.parse(v.strictObject(JobRecord.entries), body);
  const terminal = TERMINAL.includes(record.status);
  const has = (field: keyof JobRecord): boolean => record[field] !== undefined;
  const want: [keyof JobRecord, boolean][] = [
    ["completed_at", record.status === "completed" || record.status === "failed"],
    ["cancelled_at", record.status === "cancelled"],
    ["execution_time_ms", record.status === "completed"],
    ["outputs", record.status === "completed"],
    ["error", record.status === "failed"],
    ["timing", terminal],
    ["expires_at", terminal],
  ];
  expect(Object.fromEntries(want.map(([field]) => [field, has(field)]))).toEqual(Object.fromEntries(want));
  if (record.status !== "queued") expect(has("queue_position")).toBe(false);
  if (record.status === "queued") expect([has("started_at"), has("progress")]).toEqual([false, false]);
  if (record.status === "running") expect([has("started_at"), has("attempt")]).toEqual([true, true]);
  if (has("started_at")) expect(has("attempt")).toBe(true);
}

export const cancel = (key: string, job_id: string): Promise<Response> =>
  api(key, `/v1/jobs/${job_id}/cancel`, { method: "POST" });

export const remove = (key: string, job_id: string): Promise<Response> =>
  api(key, `/v1/jobs/${job_id}`, { method: "DELETE" });

export async function list(key: string, query = ""): Promise<JobList> {
  const response = await api(key, `/v1/jobs${query}`);
  if (response.status !== 200) throw new Error(`list: ${response.status} ${await response.text()}`);
  return (await response.json()) as JobList;
}

/** Slots and places of a key, as the API shows them. */
export async function use(key: string): Promise<{ running: number; queued: number }> {
  const { running, queued } = (await (await api(key, "/v1/limits")).json()) as { running: number; queued: number };
  return { running, queued };
}

/** How often each status came. */
export function statuses(responses: readonly Response[]): Record<number, number> {
  const counts: Record<number, number> = {};
  for (const { status } of responses) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}
