import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { JobErrorCode } from "../schemas/job.ts";
import { type Accepted, MAX_DETAILS_LENGTH, type Order } from "../schemas/runner-protocol.ts";
import type { Edge } from "./edge.ts";
import { type Acknowledgement, type Outcome, reportEnd } from "./end-report.ts";
import { type Engine, type EngineFailure, type EngineResult, OutputLost } from "./engine.ts";
import type { Log } from "./log.ts";
import { uploadOutputs } from "./outputs.ts";
import { LONGEST_TIMER_MS } from "./pause.ts";
import { startProgress } from "./progress.ts";
import { SPOOL_LIMITS, type Spooled, type SpoolLimits, spoolOutputs } from "./spool.ts";
import type { Timings } from "./timings.ts";

/** Why an execution is ended from outside: the edge asked, it lost its fence, the runner is about to stop. */
export type StopReason = "stopped" | "fenced" | "handed_back";

/** One execution, from its order until the edge has its end. */
export interface Run {
  /** Interrupts exactly this execution; the first reason counts. Without effect once it has ended. */
  stop(reason: StopReason): void;
  /** Ends the repeating of the end report: the process is about to exit. */
  abandon(): void;
  /** Resolves when nothing more will be said about it. Never rejects. */
  readonly settled: Promise<RunEnd>;
}

export interface RunEnd {
  readonly outcome: Outcome["outcome"] | "fenced";
  readonly acknowledgement: Acknowledgement;
}

export interface RunHost {
  readonly engine: Pick<Engine, "run">;
  readonly edge: Pick<Edge, "progress" | "upload" | "end">;
  readonly log: Log;
  readonly timings: Timings;
  /** The folder of all executions; each makes one of its own in it and removes it. */
  readonly scratch: string;
  readonly limits?: SpoolLimits;
  /** What the table says of this execution, as of now. */
  accepted(): Accepted | undefined;
  /** The engine is idle again. Called once, before the end is reported. */
  engineIdle(): void;
}

type Made = Pick<Extract<EngineResult, { ok: true }>, "outputs" | "discard">;
type Times = Extract<Outcome, { outcome: "completed" }>["times"];
type Failure = Pick<EngineFailure, "message" | "node_id" | "details"> & { readonly code: JobErrorCode };

const MAX_MESSAGE = 2048;
const MAX_NODE_ID = 200;
const NO_TIMES: Times = { download_ms: 0, execution_ms: 0, upload_ms: 0 };

/** Details are an engine's own: what can't be sent, or would outgrow a job's record, is left out. */
function sendable(details: Failure["details"]): Failure["details"] {
  try {
    return JSON.stringify(details).length <= MAX_DETAILS_LENGTH ? details : undefined;
  } catch {
    return undefined;
  }
}

function failed({ code, message, node_id, details }: Failure, times: Times): Outcome {
  const sent = sendable(details);
  return {
    outcome: "failed",
    error: {
      code,
      message: message.slice(0, MAX_MESSAGE),
      ...(node_id === undefined ? {} : { node_id: node_id.slice(0, MAX_NODE_ID) }),
      ...(sent === undefined ? {} : { details: sent }),
    },
    times,
  };
}

const ownFault = (times: Times): Outcome =>
  failed({ code: "internal_error", message: "The runner had a fault of its own." }, times);

/** What is tried again is what another engine may do better. */
const lost = ({ missing }: OutputLost): Failure =>
  missing
    ? { code: "internal_error", message: "A node of the workflow named an output that it did not write." }
    : { code: "engine_crashed", message: "The engine went away before its outputs could be read." };

/** Starts an execution that the table has just accepted. `prompt` is JSON text as the client wrote it. */
export function startRun(order: Omit<Order, "prompt">, prompt: string, host: RunHost): Run {
  const { log, lease, edge, timings } = { ...host, lease: order.lease };
  const stop = new AbortController();
  const abandon = new AbortController();
  const name = `${order.job}.${order.fence}`;
  const folder = join(host.scratch, name);
  /** Until the engine has it: what ended may be reported for long, and must not hold its prompt. */
  let unread = prompt;
  /** The engine removes what it made while the upload and the report go on. */
  let discarded: Promise<void> | undefined;

  /** The engine's part: its deadline is this runner's own clock, and covers nothing else. */
  async function runEngine(onProgress: Parameters<Engine["run"]>[1]["onProgress"]): Promise<EngineResult | "timeout"> {
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), Math.min(order.timeout_ms, LONGEST_TIMER_MS));
    try {
      const scratch = join(folder, "engine");
      await mkdir(scratch, { recursive: true, mode: 0o700 });
      if (stop.signal.aborted) return { ok: false, reason: "interrupted", execution_ms: 0 };
      const signal = AbortSignal.any([stop.signal, deadline.signal]);
      const text = unread;
      unread = "";
      const result = await host.engine.run(text, { signal, onProgress, scratch });
      return !result.ok && deadline.signal.aborted ? "timeout" : result;
    } finally {
      clearTimeout(timer);
      host.engineIdle();
    }
  }

  /** Reads what the engine made; then the engine need not keep it. */
  async function spool({ outputs, discard }: Made): Promise<Spooled> {
    try {
      return await spoolOutputs(outputs, join(folder, "spool"), stop.signal, host.limits ?? SPOOL_LIMITS);
    } finally {
      discarded = discard?.();
    }
  }

  async function store(made: Made, times: Times): Promise<Outcome> {
    const spooled = await spool(made);
    if (!spooled.ok) return failed({ code: spooled.reason, message: spooled.message }, times);
    const started = performance.now();
    const { files } = spooled;
    const uploaded = await uploadOutputs(files, {
      edge,
      lease,
      retry_ms: timings.upload_retry_ms,
      signal: stop.signal,
    });
    const stored: Times = { ...times, upload_ms: performance.now() - started };
    if (uploaded.ok) return { outcome: "completed", outputs: files.map((file) => file.description), times: stored };
    if (uploaded.reason === "fenced") {
      stop.abort("fenced" satisfies StopReason);
      return ownFault(stored);
    }
    log.warn(`execution ${name}: upload failed: ${uploaded.cause}`);
    return failed({ code: "output_upload_failed", message: uploaded.message }, stored);
  }

  async function conclude(result: EngineResult | "timeout"): Promise<Outcome> {
    if (result === "timeout") {
      const message = `The execution took longer than its ${order.timeout_ms / 1000} s.`;
      return failed({ code: "timeout", message }, { ...NO_TIMES, execution_ms: order.timeout_ms });
    }
    const times: Times = { ...NO_TIMES, execution_ms: result.execution_ms };
    if (result.ok) {
      if (result.outputs.length > 0) return store(result, { ...times, download_ms: result.download_ms });
      return failed({ code: "no_outputs", message: "The workflow ended without an output." }, times);
    }
    if (result.reason === "failed") return failed(result.error, times);
    log.error(`execution ${name}: the engine stopped without having been asked to`);
    return ownFault(times);
  }

  /** Nobody waits for the result any more; the engine need not keep what it made. */
  function unwanted(result: EngineResult | "timeout"): Outcome {
    if (result !== "timeout" && result.ok) discarded = result.discard?.();
    return ownFault(NO_TIMES);
  }

  async function perform(): Promise<Outcome | "fenced"> {
    const ending = new AbortController();
    const progress = startProgress({
      edge,
      lease,
      accepted: host.accepted,
      fenced: () => stop.abort("fenced" satisfies StopReason),
      timings,
      signal: AbortSignal.any([ending.signal, stop.signal]),
    });
    let outcome: Outcome;
    try {
      const result = await runEngine((known) => progress.report(known));
      outcome = stop.signal.aborted ? unwanted(result) : await conclude(result);
    } catch (error) {
      if (!stop.signal.aborted) log.error(`execution ${name}: fault`, error);
      outcome = error instanceof OutputLost ? failed(lost(error), NO_TIMES) : ownFault(NO_TIMES);
    } finally {
      ending.abort();
      await rm(folder, { recursive: true, force: true }).catch((error: unknown) =>
        log.error(`execution ${name}: its folder can't be removed`, error),
      );
    }
    if (!stop.signal.aborted) return outcome;
    const reason = stop.signal.reason as StopReason;
    return reason === "fenced" ? reason : { outcome: reason };
  }

  async function settle(): Promise<RunEnd> {
    const outcome = await perform();
    if (outcome === "fenced") return { outcome, acknowledgement: "unwanted" };
    const acknowledgement = await reportEnd(outcome, {
      edge,
      lease,
      accepted: host.accepted,
      timings,
      signal: abandon.signal,
    });
    return { outcome: outcome.outcome, acknowledgement };
  }

  async function settleAll(): Promise<RunEnd> {
    try {
      return await settle();
    } finally {
      await discarded;
    }
  }

  return {
    stop: (reason) => stop.abort(reason),
    abandon: () => abandon.abort(),
    settled: settleAll().catch((error: unknown): RunEnd => {
      log.error(`execution ${name}: fault of its report`, error);
      return { outcome: "failed", acknowledgement: "given_up" };
    }),
  };
}
