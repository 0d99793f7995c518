import type { JsonObject } from "../schemas/json.ts";

/**
 * The contract between the runner and whatever executes a workflow. Every engine passes the same contract suite
 * (tests/gpu-runner/engine-contract.ts). An engine knows nothing of accounts, leases or the edge.
 */

/** What an engine is able to run, told to the fleet at the start of a boot and whenever it changes. */
export interface EngineDescription {
  /** Stable name of the implementation, such as `embedded` or `comfyui`. */
  readonly name: string;
  readonly version: string;
  /** Every `class_type` that this engine can execute. */
  readonly classes: readonly string[];
  /** Model file names as a loader node's input spells them; empty where the engine uses no models. */
  readonly models: readonly string[];
  /** The device that does the work, as an operator would name it; absent on a CPU. */
  readonly gpu?: { readonly name: string; readonly memory_bytes: number };
  /** What the engine has and its operator keeps closed; absent where there is nothing of the kind. Shown to operators only. */
  readonly closed?: readonly ClosedClasses[];
}

/** Node classes that are installed and may not run, for one reason. */
export interface ClosedClasses {
  /** Where they come from: a custom node pack's name, or a group of core classes such as `core: writes models`. */
  readonly group: string;
  readonly classes: readonly string[];
  /** Why they are closed, a sentence. */
  readonly reason: string;
  /** The setting that opens them, as an operator would write it; absent where nothing short of opening everything does. */
  readonly opened_by?: string;
}

/** How far a run is. `value` never falls within one run. */
export interface EngineProgress {
  /** 0..1 over the whole graph. */
  readonly value: number;
  readonly node_id?: string;
  readonly node_class?: string;
  readonly step?: number;
  readonly steps?: number;
  readonly nodes_done?: number;
  readonly nodes_total?: number;
}

export type OutputKind = "image" | "video" | "audio" | "text" | "file";

/** One file that the graph produced. Its bytes stay readable until the run's `scratch` folder is removed. */
export interface EngineOutput {
  /** The node of the submitted graph that produced it. */
  readonly node_id: string;
  /** Position among the outputs of that node, from 0. */
  readonly index: number;
  /** Base name only: no path, no control character. */
  readonly filename: string;
  readonly kind: OutputKind;
  readonly content_type: string;
  /** Opens the bytes from the start; may be called more than once. Reading rejects with OutputLost where the engine has gone. */
  open(signal?: AbortSignal): AsyncIterable<Uint8Array>;
}

/** An output can't be read (any more). */
export class OutputLost extends Error {
  override readonly name = "OutputLost";
  /** The engine is there and has no such file: a node named one that it did not write. Else the engine went away. */
  readonly missing: boolean;

  constructor(message: string, { missing = false, ...options }: ErrorOptions & { readonly missing?: boolean } = {}) {
    super(message, options);
    this.missing = missing;
  }
}

/** Codes an engine may end a run with; contract section 4, "Job error codes". */
export type EngineFailureCode =
  | "execution_failed"
  | "invalid_prompt"
  | "missing_node"
  | "missing_model"
  | "input_download_failed"
  | "out_of_memory"
  | "stalled"
  | "engine_crashed"
  | "no_outputs"
  | "outputs_too_large"
  | "internal_error";

export interface EngineFailure {
  readonly code: EngineFailureCode;
  /** Written for the customer: no path, address or secret of the host; at most 2 KiB. */
  readonly message: string;
  readonly node_id?: string;
  readonly details?: JsonObject;
}

/** How a run ended. `execution_ms` is time in the engine, measured by a monotonic clock; downloads are not part of it. */
export type EngineResult =
  | {
      readonly ok: true;
      /** Ordered by node id (numeric where numeric), then index. Never empty: that is `no_outputs`. */
      readonly outputs: readonly EngineOutput[];
      readonly execution_ms: number;
      readonly download_ms: number;
      /**
       * Removes what the outputs occupy in the engine; they can't be opened any more. The caller calls it once it has read them.
       * Absent where nothing is kept outside `scratch`. Never rejects.
       */
      discard?(): Promise<void>;
    }
  | { readonly ok: false; readonly reason: "failed"; readonly error: EngineFailure; readonly execution_ms: number }
  /** The signal was aborted and the engine has stopped working on this run. */
  | { readonly ok: false; readonly reason: "interrupted"; readonly execution_ms: number };

/** A picture of the work in progress. */
export interface EnginePreview {
  readonly node_id?: string;
  readonly content_type: "image/jpeg" | "image/png";
  readonly bytes: Uint8Array;
}

export interface RunOptions {
  /** Aborting it interrupts exactly this run. The result then follows as soon as the engine is idle again. */
  readonly signal: AbortSignal;
  /** Called as often as the engine knows something new; never after `run` has settled. */
  onProgress(progress: EngineProgress): void;
  /** Called with previews where the engine makes them, at most two a second; never after `run` has settled. */
  onPreview?(preview: EnginePreview): void;
  /** An empty folder of this run alone. The caller removes it when it has read the outputs. */
  readonly scratch: string;
}

/** What the engine says of itself between its `describe` and its `close`. */
export interface EngineWatch {
  /** As many runs as it can take now; 0 while it can take none. Called at once, and whenever that changes. */
  seats(seats: number): void;
  /** `describe` says something else than before. */
  described(): void;
}

export interface Engine {
  /** Rejects when the engine can't work at all; the runner then takes no seat into service. */
  describe(): Promise<EngineDescription>;
  /**
   * Executes one graph (ComfyUI API format, as JSON text: numbers beyond 2^53 must survive). Expected endings are values of
   * EngineResult; it rejects for faults of the host only. Runs of one engine may overlap, one for each seat. When it settles,
   * nothing of this run executes any more. An abort that comes after the work is done may still end with its result; a run that
   * is asked for after `close` is interrupted.
   */
  run(prompt: string, options: RunOptions): Promise<EngineResult>;
  /** Tells what changes; asked for at most once. An engine without it takes as many runs as the runner is configured for. */
  watch?(watch: EngineWatch): void;
  /** Ends all runs (they settle as interrupted) and every process that the engine started. Idempotent. */
  close(): Promise<void>;
}
