import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { submitJob, watchJob } from "../../scripts/local/client.ts";
import { freePort } from "../../scripts/local/ports.ts";
import { type Stack, startStack } from "../../scripts/local/stack.ts";
import { type FuzzKey, makeKeys } from "./accounts.ts";
import { judge } from "./judge.ts";
import { workerdMiB } from "./memory.ts";
import { type FuzzRequest, requestOf } from "./requests.ts";
import { bytesOf, type Names, type Outcome, sendFetch, sendRaw } from "./wire.ts";

/**
 * Malformed requests against the local service over real HTTP. Nothing may be answered with a 5xx, hang, leave the envelope or
 * the rate headers out, or cost memory that does not come back.
 */

const USAGE = `Usage: node tests/fuzz/fuzz.ts [--requests 20000] [--seed N] [--only N]

  --requests N  how many requests are sent, default 20000
  --seed N      a run with the same seed sends the same requests
  --only N      send request number N of that seed alone, and show what goes and what comes
`;

const CONNECTIONS = 24;
const SHOWN_FAULTS = 10;
/** Memory is measured first when everything is warm. */
const WARM_REQUESTS = 2_000;
/**
 * The local runtime collects lazily: well-formed requests alone take it to the same height, and from about 22,000 requests of any kind
 * on it stays near 950 MiB (36,000 were sent). What leaks goes through this.
 */
const MOST_MIB = 1_300;
const PROMPT =
  '{"prompt":{"1":{"class_type":"EmptyImage","inputs":{"width":8,"height":8,"batch_size":1,"color":255}},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"last"}}}}';

function options() {
  const { values } = parseArgs({
    options: { requests: { type: "string" }, seed: { type: "string" }, only: { type: "string" } },
  });
  const number = (text: string | undefined, otherwise: number): number => {
    const value = text === undefined ? otherwise : Number(text);
    if (Number.isInteger(value) && value >= 0) return value;
    console.error(USAGE);
    process.exit(2);
  };
  return {
    requests: number(values.requests, 20_000),
    seed: number(values.seed, Date.now() % 1_000_000),
    only: values.only === undefined ? undefined : number(values.only, 0),
  };
}

interface Run {
  readonly labels: Map<string, number>;
  /** The first request of each kind of fault. */
  readonly faults: Map<string, string>;
  faultCount: number;
  raw: number;
}

const shown = (bytes: Buffer, most = 1_500): string =>
  bytes.length <= most
    ? JSON.stringify(bytes.toString("latin1"))
    : `${JSON.stringify(bytes.subarray(0, most).toString("latin1"))} ... ${bytes.length} bytes`;

const said = (outcome: Outcome): string =>
  outcome.kind === "answer"
    ? `${outcome.answer.status} ${JSON.stringify(Object.fromEntries(outcome.answer.headers))} ${outcome.answer.body.slice(0, 600)}`
    : outcome.kind;

/** A third goes by fetch where it can, the rest over raw sockets. */
async function send(request: FuzzRequest, names: Names): Promise<{ outcome: Outcome; raw: boolean }> {
  const byFetch = !request.brokenHttp && request.n % 3 === 0;
  const outcome = byFetch ? await sendFetch(request, names) : undefined;
  return outcome ? { outcome, raw: false } : { outcome: await sendRaw(bytesOf(request, names), names), raw: true };
}

async function one(
  run: Run,
  seed: number,
  n: number,
  base: URL,
  keys: readonly FuzzKey[],
  loud: boolean,
): Promise<void> {
  const request = requestOf(seed, n);
  const { key = "", job = "" } = keys[n % keys.length] ?? {};
  const names: Names = { host: base.hostname, port: Number(base.port), key, job };
  const { outcome, raw } = await send(request, names);
  const { label, fault } = judge(request, outcome);
  if (raw) run.raw++;
  run.labels.set(label, (run.labels.get(label) ?? 0) + 1);
  if (loud) console.log(`sent      ${shown(bytesOf(request, names), 20_000)}\nanswered  ${said(outcome)}`);
  if (fault === undefined) return;
  run.faultCount++;
  const kind = `${fault}, ${request.framing}, ${label}`;
  if (run.faults.size < SHOWN_FAULTS && !run.faults.has(kind)) {
    run.faults.set(
      kind,
      `request ${n}: ${fault}\n  again     node tests/fuzz/fuzz.ts --seed ${seed} --only ${n}\n  sent      ${shown(bytesOf(request, names))}\n  answered  ${said(outcome)}`,
    );
  }
}

async function batch(from: number, to: number, act: (n: number) => Promise<void>): Promise<void> {
  let next = from;
  const worker = async (): Promise<void> => {
    while (next < to) await act(next++);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}

async function stillRunsJobs(stack: Stack): Promise<string | undefined> {
  const first = await submitJob(stack.local, PROMPT);
  const record = await watchJob(stack.local, first, { every_ms: 200, timeout_ms: 60_000, onChange: () => {} });
  if (record.status !== "completed") return `the last job is ${JSON.stringify(record)}`;
  const picture = await fetch(record.outputs?.images[0] ?? "");
  const { length } = await picture.bytes();
  return picture.status === 200 && length > 0 ? undefined : `its picture: ${picture.status}, ${length} bytes`;
}

async function fuzz(stack: Stack, { requests, seed, only }: ReturnType<typeof options>): Promise<number> {
  const base = new URL(stack.local.base_url);
  const keys = await makeKeys(stack.local);
  const run: Run = { labels: new Map(), faults: new Map(), faultCount: 0, raw: 0 };
  if (only !== undefined) {
    await one(run, seed, only, base, keys, true);
    for (const fault of run.faults.values()) console.log(fault);
    return run.faultCount;
  }
  const started = performance.now();
  const act = (n: number): Promise<void> => one(run, seed, n, base, keys, false);
  const warm = Math.min(WARM_REQUESTS, requests);
  await batch(0, warm, act);
  const before = await workerdMiB();
  const memory = [before];
  for (let n = warm; n < requests; n += WARM_REQUESTS) {
    await batch(n, Math.min(n + WARM_REQUESTS, requests), act);
    memory.push(await workerdMiB());
  }
  const after = memory.at(-1) ?? before;
  const seconds = (performance.now() - started) / 1000;

  const failures = [...run.faults.values()];
  if (run.faultCount > failures.length) failures.push(`and ${run.faultCount - failures.length} more requests`);
  if (after > MOST_MIB) failures.push(`workerd grew from ${before} to ${after} MiB`);
  const broken = await stillRunsJobs(stack).catch((error: unknown) => `no job runs any more: ${error}`);
  if (broken !== undefined) failures.push(broken);

  const table = [...run.labels].sort((a, b) => b[1] - a[1]);
  for (const [label, count] of table) console.log(`${String(count).padStart(7)}  ${label}`);
  console.log(
    `\nseed ${seed}: ${requests} requests (${run.raw} over raw sockets) in ${seconds.toFixed(0)} s, ${Math.round(requests / seconds)}/s; workerd, MiB every ${warm}: ${memory.join(" ")}; last job ${broken === undefined ? "completed" : "failed"}`,
  );
  for (const failure of failures) console.error(`\nFAILED ${failure}`);
  return failures.length;
}

const chosen = options();
console.log(`seed ${chosen.seed}`);
const folder = await mkdtemp(join(tmpdir(), "darkroom-fuzz-"));
let stack: Stack | undefined;
let failures = 1;
try {
  const port = await freePort(0, true, () => {});
  stack = await startStack({
    root: join(import.meta.dirname, "..", ".."),
    folder,
    port,
    strict: true,
    say: console.log,
  });
  failures = await fuzz(stack, chosen);
} finally {
  await stack?.stop();
  await rm(folder, { recursive: true, force: true, maxRetries: 5 });
}
process.exit(failures === 0 ? 0 : 1);
