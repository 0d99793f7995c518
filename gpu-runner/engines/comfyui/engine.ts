import { randomUUID } from "node:crypto";
import type { Engine, EngineDescription, EngineResult, EngineWatch, RunOptions } from "../../engine.ts";
import type { Inputs } from "../../inputs/inputs.ts";
import { LONGEST_TIMER_MS, unlessAborted, within } from "../../pause.ts";
import type { Allow } from "./allowed-classes.ts";
import { describeServers, judgeServer, openClasses } from "./describe-servers.ts";
import type { ObjectInfo } from "./object-info.ts";
import { runOn } from "./run.ts";
import { type Restarter, Server } from "./server.ts";
import { TIMINGS, type Timings } from "./timings.ts";

/** One ComfyUI server, which gives its runner one seat. */
export interface ComfyuiServer {
  /** Base URL without a slash at its end. */
  readonly url: string;
  /** The folder that holds its `input`, `output` and `temp`, where the runner may write. Default: its files are emptied over HTTP. */
  readonly folder?: string;
  /** Starts it again when it is stuck. Default: it is waited for. */
  readonly restarter?: Restarter & { close(): Promise<void> };
}

export interface ComfyuiEngineOptions {
  /** At least one. */
  readonly servers: readonly ComfyuiServer[];
  readonly allow: Allow;
  /** Names the runner to its servers, over its restarts: prompts of a process that was killed are stopped. Default: random. */
  readonly owner?: string;
  readonly inputs: Inputs;
  /** Leave out what ComfyUI writes about workflows into pictures. Default: it stays. */
  readonly strip_metadata?: boolean;
  /** A workflow that each server executes after its start, as JSON text. Default: none. */
  readonly warmUp?: string;
  readonly timings?: Partial<Timings>;
  readonly log: { info(text: string): void; warn(text: string): void };
}

/** For the runs to end when the engine is closed: a server that does not hear of it must not keep the process. */
const CLOSE_MS = 10_000;

const interrupted: EngineResult = { ok: false, reason: "interrupted", execution_ms: 0 };

/** The classes that may run on a server, judged once for each list that it tells. */
class OpenClasses {
  readonly #allow: Allow;
  readonly #byList = new WeakMap<ObjectInfo, ReadonlySet<string>>();

  constructor(allow: Allow) {
    this.#allow = allow;
  }

  of(info: ObjectInfo): ReadonlySet<string> {
    const known = this.#byList.get(info);
    if (known) return known;
    const open = openClasses(judgeServer(info, this.#allow));
    this.#byList.set(info, open);
    return open;
  }
}

/**
 * The engine that does the GPU work: it drives ComfyUI servers, one run at a time each. It takes as many runs as servers are fit,
 * and tells so; a run beyond that waits for a server. `describe` resolves when the first server is fit, however long that takes,
 * and rejects when the engine is closed before.
 */
export function createComfyuiEngine(options: ComfyuiEngineOptions): Engine {
  const { allow, owner = randomUUID(), inputs, log, strip_metadata: strip = false, warmUp } = options;
  const timings: Timings = { ...TIMINGS, ...options.timings };
  const open = new OpenClasses(allow);
  const closing = new AbortController();
  const running = new Set<Promise<EngineResult>>();
  let watch: EngineWatch | undefined;
  let seats = 0;
  let described: string | undefined;
  let changes = Promise.withResolvers<void>();

  const servers: readonly Server[] = options.servers.map(
    ({ url, folder, restarter }) =>
      new Server({
        url,
        owner,
        strip,
        timings,
        log: (line) => log.info(line),
        warn: (line) => log.warn(line),
        changed,
        ...(folder === undefined ? {} : { folder }),
        ...(warmUp === undefined ? {} : { warmUp }),
        ...(restarter === undefined ? {} : { restarter }),
      }),
  );

  const known = () => servers.flatMap((server) => server.known ?? []);
  const describe = (): EngineDescription => describeServers(known(), allow);

  function changed(): void {
    changes.resolve();
    changes = Promise.withResolvers();
    const fit = servers.filter((server) => server.ready).length;
    if (fit !== seats) watch?.seats(fit);
    seats = fit;
    if (described === undefined || fit === 0) return;
    const now = JSON.stringify(describe());
    if (now === described) return;
    described = now;
    watch?.described();
  }

  /** An idle server, taken; undefined when the run is not to be, or none becomes fit in time. */
  async function takeServer(signal: AbortSignal) {
    let down: number | undefined;
    while (!signal.aborted) {
      const server = servers.find(({ isIdle }) => isIdle);
      if (server) return { server, ready: server.take() };
      // A run of this engine ends some time; servers that are all down may not come back.
      down = seats === 0 ? (down ?? performance.now()) : undefined;
      const left = down === undefined ? LONGEST_TIMER_MS : down + timings.ready_ms - performance.now();
      if (left <= 0) return undefined;
      await unlessAborted(within(left, changes.promise), signal);
    }
    return undefined;
  }

  async function execute(prompt: string, run: RunOptions): Promise<EngineResult> {
    const signal = AbortSignal.any([run.signal, closing.signal]);
    const taken = await takeServer(signal);
    if (signal.aborted && !taken) return interrupted;
    if (!taken) {
      const message = "No engine was ready to execute the workflow.";
      return { ok: false, reason: "failed", error: { code: "engine_crashed", message }, execution_ms: 0 };
    }
    const { server, ready } = taken;
    const { client, folder } = server;
    const site = { client, ready, owner, folder, open: open.of(ready.info), inputs, strip, timings };
    try {
      const end = await runOn({ ...site, warn: (line) => log.warn(line) }, prompt, { ...run, signal });
      await server.giveBack(end);
      return end.result;
    } catch (error) {
      await server.giveBack({ verdict: "doubtful", reason: "a fault of the runner" });
      throw error;
    }
  }

  return {
    async describe() {
      while (known().length === 0) {
        if (closing.signal.aborted) throw new Error("the engine was closed before a ComfyUI server was ready");
        await unlessAborted(changes.promise, closing.signal);
      }
      const description = describe();
      described = JSON.stringify(description);
      return description;
    },

    watch(told) {
      watch = told;
      told.seats(seats);
    },

    async run(prompt, run) {
      if (run.signal.aborted || closing.signal.aborted) return interrupted;
      const result = execute(prompt, run);
      running.add(result);
      try {
        return await result;
      } finally {
        running.delete(result);
      }
    },

    async close() {
      closing.abort();
      await within(CLOSE_MS, Promise.allSettled(running));
      await Promise.all(servers.map((server) => server.close()));
      await Promise.all(options.servers.map(({ restarter }) => restarter?.close()));
    },
  };
}
