import { mkdir } from "node:fs/promises";
import manifest from "../package.json" with { type: "json" };
import { parseConfig, type RunnerConfig, USAGE } from "./config.ts";
import type { ComfyuiConfig } from "./config-comfyui.ts";
import type { Engine } from "./engine.ts";
import { checkServers } from "./engines/comfyui/check.ts";
import { createLog, reasonOf } from "./log.ts";
import { makeEngine } from "./make-engine.ts";
import { type Runner, startRunner } from "./runner.ts";
import { StartError } from "./start-error.ts";

/** A terminal and a process manager may both pass on one Ctrl-C. */
const SAME_INTERRUPT_MS = 500;

const log = createLog((line) => process.stderr.write(line));
const starting = new AbortController();
let engine: Engine | undefined;
let runner: Runner | undefined;
let drainingSince: number | undefined;

async function drain(reason: string): Promise<void> {
  if (drainingSince !== undefined) {
    if (reason === "SIGINT" && performance.now() - drainingSince > SAME_INTERRUPT_MS) process.exit(130);
    return;
  }
  drainingSince = performance.now();
  log.info(`got ${reason}`);
  starting.abort();
  if (!runner) {
    // It may be waiting for the engine, for as long as that takes.
    await engine?.close();
    return;
  }
  await runner.drain();
  log.info("stopped");
  process.exit(0);
}

async function start(config: RunnerConfig): Promise<void> {
  try {
    await mkdir(config.data, { recursive: true, mode: 0o700 });
    engine = await makeEngine(config, log);
    if (starting.signal.aborted) await engine.close();
    const started = await startRunner({ config, engine, log, version: manifest.version, signal: starting.signal });
    runner = started;
    void started.revoked.then(async () => {
      await started.close();
      process.exit(1);
    });
    void started.drainOrdered.then(() => drain("the operator's order to drain"));
    if (starting.signal.aborted) {
      await started.drain();
      process.exit(0);
    }
    process.stdout.write(`runner ${started.runner_id} ready at ${config.url}, ${started.seats} seats\n`);
  } catch (error) {
    if (starting.signal.aborted) process.exit(0);
    const known = error instanceof StartError;
    process.stderr.write(`${known ? "" : "fault at the start: "}${reasonOf(error)}\n`);
    process.exit(known ? error.exitCode : 1);
  }
}

async function check({ servers, allow, strip_metadata }: ComfyuiConfig): Promise<never> {
  const { signal } = starting;
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  const allReady = await checkServers({ servers, allow, strip_metadata, say, signal });
  process.exit(signal.aborted ? 130 : allReady ? 0 : 1);
}

process.on("unhandledRejection", (error) => log.error("a fault that nobody handled", error));
process.on("uncaughtException", (error) => {
  log.error("a fault that leaves the process in doubt; exiting", error);
  process.exit(1);
});
// SIGUSR1 is what a watcher of spot notices sends.
for (const signal of ["SIGTERM", "SIGINT", "SIGUSR1"] as const) process.on(signal, () => void drain(signal));

const parsed = parseConfig(process.argv.slice(2), process.env);
// What this process starts must not inherit it.
delete process.env.DARKROOM_ENROL_TOKEN;
switch (parsed.kind) {
  case "help":
    process.stdout.write(USAGE);
    break;
  case "version":
    process.stdout.write(`${manifest.version}\n`);
    break;
  case "wrong":
    for (const mistake of parsed.mistakes) process.stderr.write(`${mistake}\n`);
    process.exitCode = 2;
    break;
  case "check":
    await check(parsed.comfyui);
    break;
  case "run":
    await start(parsed.config);
}
