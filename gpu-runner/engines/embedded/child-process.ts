import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { EngineProgress } from "../../engine.ts";
import { watchMemory } from "./memory-watch.ts";
import type { ChildMessage, RunReport, RunRequest } from "./messages.ts";

const ENTRY = fileURLToPath(new URL("./child.ts", import.meta.url));
/** For the graph itself and its bookkeeping; pixels are outside of V8's heap. */
const HEAP_MIB = 256;
/** How much of what a dying child wrote is kept. */
const LAST_WORDS = 4096;

/** How a child went away. */
export interface ChildEnd {
  readonly reason: "killed" | "over_memory" | "crashed";
  /** Exit status or signal, and what the process wrote last; for the operator. */
  readonly description: string;
  /** The last progress of the run that it had. */
  readonly progress?: EngineProgress;
}

export type ChildRun =
  | { readonly ended: false; readonly report: RunReport }
  | { readonly ended: true; readonly end: ChildEnd };

/** One process that executes graphs, one after the other. Its environment is empty and it has no file but its channel. */
export class EmbeddedChild {
  readonly #process: ChildProcess;
  readonly #maxMemory: number;
  /** Settles when the process can take a graph, or is gone. */
  readonly ready: Promise<ChildEnd | undefined>;
  readonly #gone: Promise<ChildEnd>;
  #reason: ChildEnd["reason"] = "crashed";
  #lastWords = "";
  #alive = true;
  #runs = 0;
  #rss = 0;

  constructor(maxMemory: number) {
    this.#maxMemory = maxMemory;
    this.#process = fork(ENTRY, {
      env: {},
      execArgv: [`--max-old-space-size=${HEAP_MIB}`, "--disable-warning=ExperimentalWarning"],
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    this.#process.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-LAST_WORDS);
    });
    this.#gone = new Promise((resolve) => {
      const settle = (description: string): void => {
        this.#alive = false;
        const starved = /heap out of memory|allocation failed/i.test(this.#lastWords);
        if (starved && this.#reason === "crashed") this.#reason = "over_memory";
        resolve({ reason: this.#reason, description: `${description} ${this.#lastWords}`.trim() });
      };
      this.#process.once("close", (code, signal) => settle(`exit ${signal ?? code}`));
      this.#process.once("error", (error) => settle(error.message));
    });
    const toldReady = new Promise<undefined>((resolve) => {
      this.#process.once("message", () => resolve(undefined));
    });
    this.ready = Promise.race([toldReady, this.#gone]);
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Graphs given to this process so far. */
  get runs(): number {
    return this.#runs;
  }

  /** Resident bytes after the last run. */
  get rss(): number {
    return this.#rss;
  }

  /** Ends the process at once; settles when it is gone. A run that it has ends as `killed`. */
  async kill(): Promise<void> {
    if (this.#alive) {
      this.#reason = "killed";
      this.#process.kill("SIGKILL");
    }
    await this.#gone;
  }

  /** Executes one graph. The process must be ready and idle. */
  async run(request: RunRequest, onProgress: (progress: EngineProgress) => void): Promise<ChildRun> {
    this.#runs++;
    let last: EngineProgress | undefined;
    const watch = watchMemory(this.#process.pid, this.#maxMemory, () => {
      this.#reason = "over_memory";
      this.#process.kill("SIGKILL");
    });
    const done = new Promise<ChildRun>((resolve) => {
      this.#process.on("message", (message: ChildMessage) => {
        if (message.kind === "ready") return;
        this.#rss = message.rss;
        if (message.kind === "done") resolve({ ended: false, report: message.report });
        else {
          last = message.progress;
          watch.observe(message.rss);
          onProgress(message.progress);
        }
      });
    });
    // A failed send means that the process is going away, which settles the run.
    this.#process.send(request, () => {});
    const gone = this.#gone.then((end): ChildRun => ({ ended: true, end: last ? { ...end, progress: last } : end }));
    try {
      return await Promise.race([done, gone]);
    } finally {
      watch.stop();
      this.#process.removeAllListeners("message");
    }
  }
}
