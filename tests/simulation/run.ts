import type { Accepted, EndReport } from "../../schemas/runner-protocol.ts";
import type { Order } from "./edge.ts";
import type { RunnerNode } from "./runner-node.ts";

export type StopReason = "stopped" | "fenced" | "handed_back";

type WithoutAcceptance<T> = T extends unknown ? Omit<T, keyof Accepted> : never;
type Outcome = WithoutAcceptance<EndReport>;

export interface RunHost {
  accepted(): Accepted | undefined;
  engineIdle(): void;
  /** Nothing more will be said of it. @param nudge it left no result: the edge should hear of the free seat at once */
  settled(nudge: boolean): void;
}

/** An engine that nobody stops ends after this long. */
const HANG_MS = 100_000;
/** An engine without news is asked for all the same: the answer says whether its fence still holds. */
const SILENT_MS = 30_000;
const TIMES = { download_ms: 0, execution_ms: 1, upload_ms: 0 };
/** As gpu-runner/timings.ts has them. */
const PROGRESS_FIRST_MS = 1_000;
const END_RETRY_MS = [200, 10_000] as const;
const UPLOAD_RETRY_MS = [1_000, 3_000, 8_000, 16_000];

/** One execution, from its order until the edge has its end; gpu-runner/run.ts with an engine that only takes time. */
export class Run {
  engineWorks = true;
  readonly #order: Order;
  readonly #runner: RunnerNode;
  readonly #host: RunHost;
  #stopped: StopReason | undefined;
  /** The engine, the uploads or a pause between them: what a stop cuts short. */
  #interrupt: (() => void) | undefined;
  /** Whether the engine says anything while it works; else there is one report only. */
  readonly #hasNews: boolean;
  #abandoned = false;
  #over = false;

  constructor(order: Order, runner: RunnerNode, host: RunHost) {
    this.#order = order;
    this.#runner = runner;
    this.#host = host;
    const { world } = runner;
    const ends = runner.mine(() => this.#engineEnds());
    const hangs = world.fault(0.02, "engine hangs");
    world.after(hangs ? HANG_MS : world.between(20, world.chance(0.5) ? 20_000 : 4_000), ends);
    this.#hasNews = !hangs && world.chance(0.7);
    this.#interrupt = () => {
      // Most engines stop at once; some must finish a step.
      world.after(world.chance(0.1) ? world.between(2_000, 20_000) : world.between(5, 500), ends);
    };
    this.#progresses(PROGRESS_FIRST_MS);
  }

  stop(reason: StopReason): void {
    if (this.#stopped || this.#over) return;
    this.#stopped = reason;
    this.#interrupt?.();
    this.#interrupt = undefined;
  }

  abandon(): void {
    if (this.#abandoned) return;
    this.#abandoned = true;
    if (!this.engineWorks) this.#settles(true);
  }

  #settles(nudge: boolean): void {
    if (this.#over) return;
    this.#over = true;
    this.#host.settled(nudge);
  }

  #progresses(wait_ms: number): void {
    const { world, edge } = this.#runner;
    this.#runner.later(wait_ms, () => {
      const accepted = this.#host.accepted();
      if (this.#over || this.#stopped || !this.#interrupt || !accepted) return;
      const answered = this.#runner.mine((fenced: boolean | undefined) => {
        if (fenced) this.stop("fenced");
        else this.#progresses(fenced === undefined || this.#hasNews ? world.between(1_000, 6_000) : SILENT_MS);
      });
      edge.progress(this.#order, this.#runner, { ...accepted, progress: { value: 0.5 } }, answered);
    });
  }

  #engineEnds(): void {
    if (!this.engineWorks) return;
    this.engineWorks = false;
    this.#host.engineIdle();
    if (this.#stopped) {
      this.#concludes();
      return;
    }
    const { world } = this.#runner;
    if (world.chance(0.1) && world.faulty) {
      const codes = ["execution_failed", "engine_crashed", "out_of_memory", "stalled", "missing_node"] as const;
      const code = codes[world.between(0, 4)] ?? "stalled";
      world.count(`engine: ${code}`);
      this.#interrupt = undefined;
      this.#reports({ outcome: "failed", error: { code, message: "" }, times: TIMES });
      return;
    }
    this.#interrupt = () => this.#concludes();
    this.#uploads(0, world.between(1, 2), 0);
  }

  /** A stop has the last word, whatever was under way. */
  #concludes(): void {
    this.#interrupt = undefined;
    if (this.#stopped === "fenced") this.#settles(true);
    else this.#reports({ outcome: this.#stopped === "handed_back" ? "handed_back" : "stopped" });
  }

  #uploads(n: number, files: number, tries: number): void {
    if (n === files) {
      this.#interrupt = undefined;
      this.#reports({ outcome: "completed", outputs: [], times: TIMES });
      return;
    }
    const { world, edge } = this.#runner;
    const answered = this.#runner.mine((answer: "stored" | "fenced" | undefined) => {
      if (this.#stopped) return;
      if (answer === "stored") this.#uploads(n + 1, files, 0);
      else if (answer === "fenced") {
        this.#stopped = "fenced";
        this.#concludes();
      } else {
        const wait = UPLOAD_RETRY_MS[tries];
        if (wait !== undefined) {
          this.#runner.later(wait, () => {
            if (!this.#stopped) this.#uploads(n, files, tries + 1);
          });
          return;
        }
        this.#interrupt = undefined;
        world.count("upload failed for good");
        this.#reports({ outcome: "failed", error: { code: "output_upload_failed", message: "" }, times: TIMES });
      }
    });
    edge.upload(this.#order, this.#runner, n, answered);
  }

  /** Repeated until it is answered for good. */
  #reports(outcome: Outcome, wait_ms: number = END_RETRY_MS[0]): void {
    const accepted = this.#host.accepted();
    if (this.#over || !accepted) return;
    if (this.#abandoned) {
      this.#settles(true);
      return;
    }
    const answered = this.#runner.mine((final: boolean | undefined) => {
      if (final) this.#settles(outcome.outcome !== "completed" && outcome.outcome !== "failed");
      else this.#runner.later(wait_ms, () => this.#reports(outcome, Math.min(wait_ms * 2, END_RETRY_MS[1])));
    });
    this.#runner.edge.end(this.#order, this.#runner, { ...accepted, ...outcome } as EndReport, answered);
  }
}
