import type { EngineFailure, EngineProgress } from "../../engine.ts";
import type { SavedFile } from "./output-folder.ts";

/** What the engine asks of a child; one at a time. */
export interface RunRequest {
  readonly prompt: string;
  /** Absolute path of the folder that outputs are written to. */
  readonly scratch: string;
  /** Absolute path of LoadImage's folder. */
  readonly inputs?: string;
  /** Files that were fetched for this run: the URL as the graph has it, and an absolute path. */
  readonly fetched?: readonly (readonly [url: string, path: string])[];
  readonly maxPixels: number;
}

export type RunReport =
  | { readonly ok: true; readonly files: readonly SavedFile[]; readonly execution_ms: number }
  | {
      readonly ok: false;
      readonly error: EngineFailure;
      readonly execution_ms: number;
      /** What really happened, for the operator. */
      readonly reason?: string;
    };

/** What a child tells. `rss` is its resident memory in bytes: the memory bound where the system can't be asked. */
export type ChildMessage =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly progress: EngineProgress; readonly rss: number }
  | { readonly kind: "done"; readonly report: RunReport; readonly rss: number };
