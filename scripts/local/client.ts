import type { JobRecord } from "../../schemas/job.ts";
import type { LocalFile } from "./state.ts";

type Access = Pick<LocalFile, "base_url" | "api_key">;

/** The service's own words, where it refuses. */
async function call<T>({ base_url, api_key }: Access, path: string, init: RequestInit = {}): Promise<T> {
  const headers = { authorization: `Bearer ${api_key}`, "content-type": "application/json" };
  const response = await fetch(`${base_url}${path}`, { ...init, headers });
  const answer = (await response.json()) as T & { error?: { code: string; message: string } };
  if (!response.ok) throw new Error(`${path}: ${answer.error?.code}: ${answer.error?.message}`);
  return answer;
}

export const submitJob = (access: Access, body: string): Promise<JobRecord> =>
  call(access, "/v1/jobs", { method: "POST", body });

export const getJob = (access: Access, job_id: string): Promise<JobRecord> => call(access, `/v1/jobs/${job_id}`);

export const isTerminal = ({ status }: JobRecord): boolean => status !== "queued" && status !== "running";

/** Polls until the job has ended. `onChange` hears every record that tells something new. */
export async function watchJob(
  access: Access,
  first: JobRecord,
  { every_ms, timeout_ms, onChange }: { every_ms: number; timeout_ms: number; onChange(record: JobRecord): void },
): Promise<JobRecord> {
  const deadline = Date.now() + timeout_ms;
  let record = first;
  let told = "";
  for (;;) {
    const telling = JSON.stringify([record.status, record.progress?.node_id, record.attempt]);
    if (telling !== told) onChange(record);
    told = telling;
    if (isTerminal(record)) return record;
    if (Date.now() > deadline)
      throw new Error(`Job ${record.job_id} is still ${record.status} after ${timeout_ms / 1000} s.`);
    await new Promise((resolve) => setTimeout(resolve, every_ms));
    record = await getJob(access, record.job_id);
  }
}
