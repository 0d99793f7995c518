import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "vitest";
import type {
  Engine,
  EngineDescription,
  EngineOutput,
  EngineResult,
  EngineWatch,
  RunOptions,
} from "../../gpu-runner/engine.ts";
import { createLog } from "../../gpu-runner/log.ts";
import { type Runner, type RunnerOptions, startRunner } from "../../gpu-runner/runner.ts";
import type { Timings } from "../../gpu-runner/timings.ts";
import { type FakeEdge, startFakeEdge } from "../fakes/edge.ts";

/** Waits of the runner, shortened: nothing here decides an outcome, only how soon it is seen. */
const QUICK: Partial<Timings> = {
  progress_first_ms: 20,
  progress_retry_ms: [10, 20],
  end_retry_ms: [5, 20],
  upload_retry_ms: [5, 5, 5, 5],
  beat_retry_ms: 10,
  hand_back_ms: 2_000,
};

export interface ScriptedEngine extends Engine {
  /** The prompts that were run, in order. */
  readonly prompts: string[];
  closed: boolean;
  /** What it says of itself, or why it can't. */
  description: EngineDescription | Error;
  /** Whom it tells what changes; set where the test makes it an engine that does. */
  watcher?: EngineWatch;
}

type Script = (options: RunOptions, prompt: string) => Promise<EngineResult>;

/** An engine whose runs do what the test says. With `seats` it has so many at first, and tells what changes. */
export function scriptedEngine(script: Script, seats?: number): ScriptedEngine {
  const engine: ScriptedEngine = {
    prompts: [],
    closed: false,
    description: { name: "scripted", version: "1", classes: ["KSampler"], models: [] },
    async describe() {
      if (engine.description instanceof Error) throw engine.description;
      return engine.description;
    },
    ...(seats === undefined
      ? {}
      : {
          watch(watcher: EngineWatch) {
            engine.watcher = watcher;
            watcher.seats(seats);
          },
        }),
    run(prompt, options) {
      engine.prompts.push(prompt);
      return script(options, prompt);
    },
    async close() {
      engine.closed = true;
    },
  };
  return engine;
}

/** A run that goes on until it is interrupted. */
export const untilInterrupted: Script = ({ signal }) =>
  new Promise((resolve) =>
    signal.addEventListener("abort", () => resolve({ ok: false, reason: "interrupted", execution_ms: 1 })),
  );

export const anOutput = (bytes: Uint8Array | string, changes: Partial<EngineOutput> = {}): EngineOutput => ({
  node_id: "9",
  index: 0,
  filename: "a_00001_.png",
  kind: "image",
  content_type: "image/png",
  async *open() {
    yield Buffer.from(bytes);
  },
  ...changes,
});

export const completed = (...outputs: EngineOutput[]): EngineResult => ({
  ok: true,
  outputs,
  execution_ms: 12,
  download_ms: 3,
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface Setup {
  readonly edge: FakeEdge;
  readonly runner: Runner;
  readonly engine: ScriptedEngine;
  readonly url: string;
  readonly data: string;
  readonly log: string[];
}

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean();
});

export async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-runner-"));
  cleanups.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function anEdge(): Promise<FakeEdge> {
  const edge = await startFakeEdge();
  cleanups.push(() => edge.close());
  return edge;
}

export interface SetupOptions {
  readonly seats?: number;
  /** Of the engine at first, which then tells what changes. */
  readonly engine_seats?: number;
  readonly grace_ms?: number;
  readonly edge?: FakeEdge;
  readonly data?: string;
  readonly port?: number;
  /** The edge's own unless said otherwise; empty: none. */
  readonly token?: string;
  readonly timings?: Partial<Timings>;
  readonly limits?: NonNullable<RunnerOptions["limits"]>;
  /** Done with the engine before the runner starts. */
  readonly prepare?: (engine: ScriptedEngine) => void;
}

/** A whole runner over real HTTP, enrolled with a fake edge, with a scripted engine; all closed after the test. */
export async function aRunner(script: Script, options: SetupOptions = {}): Promise<Setup> {
  const edge = options.edge ?? (await anEdge());
  const data = options.data ?? (await aFolder());
  const port = options.port ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const engine = scriptedEngine(script, options.engine_seats);
  options.prepare?.(engine);
  const log: string[] = [];
  const runner = await startRunner({
    config: {
      edge: edge.url,
      url,
      listen: { host: "127.0.0.1", port },
      ...(options.token === "" ? {} : { token: options.token ?? edge.token }),
      name: "test",
      seats: options.seats ?? 1,
      data,
      inputs: data,
      grace_ms: options.grace_ms ?? 0,
    },
    engine,
    log: createLog((line) => log.push(line)),
    version: "0.0.0",
    timings: { ...QUICK, ...options.timings },
    ...(options.limits ? { limits: options.limits } : {}),
  });
  cleanups.push(() => runner.close());
  return { edge, runner, engine, url, data, log };
}
