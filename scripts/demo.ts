import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join, relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { JobRecord } from "../schemas/job.ts";
import { submitJob, watchJob } from "./local/client.ts";
import { isOwned } from "./local/processes.ts";
import { type Receiver, startReceiver } from "./local/receiver.ts";
import { onStopSignal } from "./local/signals.ts";
import { startStack } from "./local/stack.ts";
import { type LocalFile, readLocal } from "./local/state.ts";

/**
 * The main job, end to end, on this machine: every workflow of examples/ is submitted to the edge, run by a runner, its pictures
 * stored and fetched, its webhook received and verified. Exits with 0 when all of that happened.
 */

const JOB_TIMEOUT_MS = 120_000;
const WEBHOOK_TIMEOUT_MS = 60_000;
const POLL_MS = 60;

const root = join(import.meta.dirname, "..");
const { values } = parseArgs({ options: { folder: { type: "string", default: join(root, ".darkroom") } } });
const folder = resolve(values.folder);
const say = (line = ""): void => console.log(line);
const here = (path: string): string => relative(process.cwd(), path);

function describe(record: JobRecord): string {
  const { status, progress, attempt, error, execution_time_ms } = record;
  if (status === "running" && progress) {
    const node = progress.node_class ? ` ${progress.node_class}` : "";
    return `running   ${Math.round(progress.value * 100)} %${node}`;
  }
  if (status === "completed") return `completed in the engine ${execution_time_ms?.toFixed(0)} ms`;
  if (status === "failed") return `failed    ${error?.code}: ${error?.message}`;
  return attempt !== undefined && attempt > 1 ? `${status}   attempt ${attempt}` : status;
}

async function savePictures(record: JobRecord, name: string): Promise<string[]> {
  const target = join(folder, "outputs", name);
  await mkdir(target, { recursive: true });
  const saved: string[] = [];
  for (const file of record.outputs?.files ?? []) {
    const response = await fetch(file.url);
    if (!response.ok) throw new Error(`The output ${file.filename} was answered with ${response.status}.`);
    const path = join(target, basename(file.filename));
    await writeFile(path, Buffer.from(await response.arrayBuffer()));
    saved.push(path);
  }
  return saved;
}

async function runExample(local: LocalFile, receiver: Receiver, file: string): Promise<string[]> {
  const name = basename(file, ".json");
  const prompt = await readFile(join(root, "examples", file), "utf8");
  const started = performance.now();
  const tell = (line: string): void =>
    say(`  ${((performance.now() - started) / 1000).toFixed(2).padStart(6)} s  ${line}`);
  say(`\n${name}`);
  const job = await submitJob(
    local,
    `{"prompt":${prompt},"webhook_url":${JSON.stringify(receiver.url)},"metadata":{"example":"${name}"}}`,
  );
  tell(`submitted ${job.job_id}`);
  const record = await watchJob(local, job, {
    every_ms: POLL_MS,
    timeout_ms: JOB_TIMEOUT_MS,
    onChange: (now) => tell(describe(now)),
  });
  const { event } = await receiver.next(record.job_id, WEBHOOK_TIMEOUT_MS);
  tell(`webhook   ${event}, signature verified`);
  if (record.status !== "completed") throw new Error(`${name} ended as ${record.status}: ${record.error?.message}`);
  const saved = await savePictures(record, name);
  for (const path of saved) tell(`picture   ${here(path)}`);
  return saved;
}

let finish: () => Promise<void> = async () => {};
onStopSignal(() => finish());

try {
  let local: LocalFile | undefined;
  if (await isOwned(folder)) {
    local = await readLocal(folder);
    if (!local) throw new Error("Darkroom is just starting in this folder; try again in a moment.");
    say(`Darkroom is running already at ${local.base_url}; the demo uses that.`);
  } else {
    say("Starting the service, a runner and a webhook receiver on this machine ...");
    const stack = await startStack({ root, folder, strict: false, say: (line) => say(`  ${line}`) });
    finish = stack.stop;
    local = stack.local;
    say(`  service ${local.base_url}, runner ${local.runner_url}`);
  }
  const receiver = await startReceiver(local.webhook_secret);
  const stopRest = finish;
  finish = async () => {
    await receiver.close();
    await stopRest();
  };
  const files = (await readdir(join(root, "examples"))).filter((file) => file.endsWith(".json")).sort();
  const saved: string[] = [];
  for (const file of files) saved.push(...(await runExample(local, receiver, file)));
  await finish();
  say(
    `\nDone: ${files.length} workflows, ${saved.length} pictures in ${here(join(folder, "outputs"))}/. Run "npm start" to keep the service.`,
  );
  process.exit(0);
} catch (error) {
  console.error(`\nThe demo failed: ${error instanceof Error ? error.message : error}`);
  console.error(`What happened is in ${here(join(folder, "log.txt"))}.`);
  await finish();
  process.exit(1);
}
