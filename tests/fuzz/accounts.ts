import { submitJob } from "../../scripts/local/client.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import type { LocalFile } from "../../scripts/local/state.ts";

/**
 * Keys enough that no window ends a run: requests go round all of them. Their accounts are of a pool without runners, so that
 * what is accepted by chance keeps no engine busy.
 */
export interface FuzzKey {
  readonly key: string;
  /** A job of its account. */
  readonly job: string;
}

const ACCOUNTS = 6;
const KEYS_EACH = 10;
const POOL = "fuzz";
const PROMPT = '{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":0}}}';

export async function makeKeys({ base_url, operator_token }: LocalFile): Promise<FuzzKey[]> {
  const keys: FuzzKey[] = [];
  for (let n = 0; n < ACCOUNTS; n++) {
    const { account_id, api_key } = await callOperator<{ account_id: string; api_key: string }>(
      base_url,
      operator_token,
      "POST",
      "/accounts",
      { email: `fuzz-${n}@example.com`, tier: "enterprise", pool: POOL },
    );
    const { job_id } = await submitJob({ base_url, api_key }, `{"prompt":${PROMPT}}`);
    keys.push({ key: api_key, job: job_id });
    for (let k = 1; k < KEYS_EACH; k++) {
      const more = await callOperator<{ api_key: string }>(
        base_url,
        operator_token,
        "POST",
        `/accounts/${account_id}/keys`,
        { name: `fuzz ${k}` },
      );
      keys.push({ key: more.api_key, job: job_id });
    }
  }
  return keys;
}
