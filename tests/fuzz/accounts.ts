import { submitJob } from "../../scripts/local/client.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import type { LocalFile } from "../../scripts/local/state.ts";

/**
 * Keys enough that no window ends a run: requests go round all of them. Their accounts are of a pool without runners, so that
 * what is accepted by chance keeps no engine busy.
 */
export interface FuzzKey {
  readonly key: string;
  /** A job of its own, so that few requests find that an earlier one has deleted it. */
  readonly job: string;
}

const ACCOUNTS = 6;
const KEYS_EACH = 10;
const POOL = "fuzz";
const PROMPT = '{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":0}}}';

/** Nobody is there: every delivery to it fails. */
const WEBHOOK_URL = "https://hooks.example.invalid/fuzz";

/** Waits for ever; or has ended, with a notification that has failed and may be asked for again. */
async function newJob(access: Pick<LocalFile, "base_url" | "api_key">, ended: boolean): Promise<string> {
  const { job_id, urls } = await submitJob(
    access,
    `{"prompt":${PROMPT}${ended ? `,"webhook_url":"${WEBHOOK_URL}"` : ""}}`,
  );
  if (ended) await fetch(urls.cancel, { method: "POST", headers: { authorization: `Bearer ${access.api_key}` } });
  return job_id;
}

export async function makeKeys({ base_url, operator_token }: LocalFile): Promise<FuzzKey[]> {
  const keys: FuzzKey[] = [];
  const operate = <T>(path: string, body: Record<string, unknown>): Promise<T> =>
    callOperator(base_url, operator_token, "POST", path, body);
  for (let n = 0; n < ACCOUNTS; n++) {
    const account = { email: `fuzz-${n}@example.com`, tier: "enterprise", pool: POOL };
    const { account_id, api_key } = await operate<{ account_id: string; api_key: string }>("/accounts", account);
    const more = Array.from({ length: KEYS_EACH - 1 }, (_, k) =>
      operate<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: `fuzz ${k + 1}` }),
    );
    const all = [api_key, ...(await Promise.all(more)).map((created) => created.api_key)];
    for (const [k, key] of all.entries()) {
      keys.push({ key, job: await newJob({ base_url, api_key: key }, k % 2 === 1) });
    }
  }
  return keys;
}
