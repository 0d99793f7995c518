import { createServer } from "node:http";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { submitJob } from "../scripts/local/client.ts";
import { callOperator } from "../scripts/local/operator.ts";
import { startStack } from "../scripts/local/stack.ts";

/**
 * Webhooks on the local stack: how long after a job's end one arrives, what a customer whose receiver is silent costs another one, and
 * when failed attempts are made again.
 */

const JOBS = 1_000;
const AT_ONCE = 4;
const SILENT_AT_ONCE = 50;
const PROBES = 60;
const PROBE_EVERY_MS = 120;
const FAILING = 20;
/** Spec section 6.5. */
const ELAPSED_MS = [0, 1_000, 6_000, 36_000];

interface Access {
  readonly base_url: string;
  readonly api_key: string;
}
interface Arrival {
  readonly at: number;
  readonly ended_at: number;
}

const quantile = (values: readonly number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))] ?? Number.NaN;

const shown = (ms: number): string => ms.toFixed(0).padStart(6);

function report(what: string, values: readonly number[]): void {
  const [median, p90, p99, most] = [0.5, 0.9, 0.99, 1].map((q) => shown(quantile(values, q)));
  console.log(`${what.padEnd(66)} median ${median}   p90 ${p90}   p99 ${p99}   most ${most} ms`);
}

/** Keeps when each job's notifications came; answers with `status`, or never. */
async function receiver(status: number | undefined) {
  const arrivals = new Map<string, Arrival[]>();
  const waiting = new Map<string, () => void>();
  const server = createServer(async (request, response) => {
    const at = Date.now();
    let text = "";
    for await (const part of request) text += String(part);
    const { job_id, completed_at, cancelled_at } = JSON.parse(text) as Record<string, string>;
    const ended_at = Date.parse(completed_at ?? cancelled_at ?? "");
    arrivals.set(job_id ?? "", [...(arrivals.get(job_id ?? "") ?? []), { at, ended_at }]);
    if (status !== undefined) response.writeHead(status).end();
    waiting.get(job_id ?? "")?.();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (typeof address !== "object" || !address) throw new Error("The receiver has no address.");
  return {
    url: `http://127.0.0.1:${address.port}/`,
    arrivals,
    arrived: (job_id: string) =>
      arrivals.has(job_id) ? Promise.resolve() : new Promise<void>((resolve) => waiting.set(job_id, resolve)),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

const bodyFor = (webhook_url: string): string =>
  JSON.stringify({
    webhook_url,
    prompt: {
      "1": { class_type: "EmptyImage", inputs: { width: 16, height: 16, batch_size: 1, color: 255 } },
      "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "bench" } },
    },
  });

/** A job that ends at once, without a runner: it is cancelled. */
async function endAtOnce(access: Access, webhook_url: string): Promise<string> {
  const { job_id } = await submitJob(access, bodyFor(webhook_url));
  const headers = { authorization: `Bearer ${access.api_key}` };
  const response = await fetch(`${access.base_url}/v1/jobs/${job_id}/cancel`, { method: "POST", headers });
  await response.body?.cancel();
  return job_id;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const lags = (arrivals: Iterable<Arrival[]>): number[] =>
  [...arrivals].flatMap(([first]) => (first ? [first.at - first.ended_at] : []));

const root = join(import.meta.dirname, "..");
const folder = await mkdtemp(join(tmpdir(), "darkroom-bench-"));
const stack = await startStack({ root, folder, strict: false, say: console.log });
const { local } = stack;
const closing: (() => void)[] = [];
const opened = async (status: number | undefined) => {
  const one = await receiver(status);
  closing.push(one.close);
  return one;
};
const account = async (): Promise<Access> => {
  const body = { email: "bench@example.com", tier: "enterprise" };
  const made = await callOperator<{ api_key: string }>(local.base_url, local.operator_token, "POST", "/accounts", body);
  return { base_url: local.base_url, api_key: made.api_key };
};

/** Lags of single deliveries, one every PROBE_EVERY_MS. */
async function probes(): Promise<number[]> {
  const access = await account();
  const fast = await opened(204);
  for (let n = 0; n < PROBES; n++) {
    await Promise.all([endAtOnce(access, fast.url), pause(PROBE_EVERY_MS)]);
  }
  while (fast.arrivals.size < PROBES) await pause(50);
  return lags(fast.arrivals.values());
}

try {
  const fast = await opened(204);
  let left = JOBS;
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      const access = await account();
      while (left-- > 0) await fast.arrived((await submitJob(access, bodyFor(fast.url))).job_id);
    }),
  );
  report(`${JOBS} jobs, ${AT_ONCE} at a time: end of the job to arrival`, lags(fast.arrivals.values()));

  report(`${PROBES} single ends, nothing else going on`, await probes());
  const silent = await opened(undefined);
  const slow = await account();
  await Promise.all(Array.from({ length: SILENT_AT_ONCE }, () => endAtOnce(slow, silent.url)));
  report(`the same while ${SILENT_AT_ONCE} deliveries to another customer's silent receiver hang`, await probes());

  const failing = await opened(500);
  const access = await account();
  for (let n = 0; n < FAILING; n++) await Promise.all([endAtOnce(access, failing.url), pause(50)]);
  await pause((ELAPSED_MS.at(-1) ?? 0) + 3_000);
  for (const [n, elapsed] of ELAPSED_MS.entries()) {
    const late = [...failing.arrivals.values()].flatMap((row) => {
      const [first, nth] = [row[0], row[n]];
      return first && nth ? [nth.at - (n === 0 ? nth.ended_at : first.at) - elapsed] : [];
    });
    report(`attempt ${n + 1} of ${late.length} failing deliveries: later than ${elapsed / 1000} s by`, late);
  }
} finally {
  for (const close of closing) close();
  await stack.stop();
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(0);
