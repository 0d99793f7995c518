import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getJob, isTerminal, submitJob } from "../scripts/local/client.ts";
import { callOperator } from "../scripts/local/operator.ts";
import { startStack } from "../scripts/local/stack.ts";

/** From POST to `completed` for the smallest job, one after another, on the local stack: how long the service itself takes. */

const JOBS = 40;
const POLL_MS = 10;
const BODY = JSON.stringify({
  prompt: {
    "1": { class_type: "EmptyImage", inputs: { width: 16, height: 16, batch_size: 1, color: 255 } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "bench" } },
  },
});

const quantile = (values: number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))] ?? Number.NaN;

const root = join(import.meta.dirname, "..");
const folder = await mkdtemp(join(tmpdir(), "darkroom-bench-"));
const stack = await startStack({ root, folder, strict: false, say: console.log });
try {
  const { local } = stack;
  const { api_key } = await callOperator<{ api_key: string }>(
    local.base_url,
    local.operator_token,
    "POST",
    "/accounts",
    {
      email: "bench@example.com",
      tier: "enterprise",
    },
  );
  const access = { base_url: local.base_url, api_key };
  const rows: { post: number; wall: number; service: number; engine: number; upload: number }[] = [];
  for (let n = 0; n < JOBS; n++) {
    const started = performance.now();
    let record = await submitJob(access, BODY);
    const post = performance.now() - started;
    while (!isTerminal(record)) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      record = await getJob(access, record.job_id);
    }
    if (record.status !== "completed") throw new Error(JSON.stringify(record));
    rows.push({
      post,
      wall: performance.now() - started,
      service: Date.parse(record.completed_at ?? "") - Date.parse(record.created_at),
      engine: record.execution_time_ms ?? 0,
      upload: record.timing?.upload_ms ?? 0,
    });
  }
  console.log(`${JOBS} jobs, one after another; milliseconds`);
  for (const [name, words] of [
    ["post", "POST answered"],
    ["wall", `POST to completed, seen by polling every ${POLL_MS} ms`],
    ["service", "created_at to completed_at"],
    ["engine", "of that in the engine"],
    ["upload", "of that storing the output"],
  ] as const) {
    const values = rows.map((row) => row[name]);
    console.log(
      `  ${words.padEnd(52)} median ${quantile(values, 0.5).toFixed(1).padStart(7)}   p90 ${quantile(values, 0.9).toFixed(1).padStart(7)}`,
    );
  }
} finally {
  await stack.stop();
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(0);
