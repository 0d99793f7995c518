import * as v from "valibot";
import { Progress } from "../schemas/job.ts";
import type { Accepted } from "../schemas/runner-protocol.ts";
import type { Edge } from "./edge.ts";
import type { EngineProgress } from "./engine.ts";
import { aborted, pause, within } from "./pause.ts";
import type { Timings } from "./timings.ts";

/** Bounds on what an answer may ask for. */
const SHORTEST_MS = 100;
const LONGEST_MS = 60_000;

export interface ProgressReporter {
  /** Keeps the latest word of the engine; it is sent when the edge next welcomes one. Never throws. */
  report(progress: EngineProgress): void;
}

/**
 * Reports an execution's progress until the signal is aborted: once after the first pause in any case (which proves the
 * acceptance and asks whether the fence still holds), later whenever there is news and the edge's last answer allows it, and now
 * and then without news, because the fence may have been lost.
 * `accepted` is read afresh for each report. `fenced` is called once, and nothing is sent after it.
 */
export function startProgress({
  edge,
  lease,
  accepted,
  fenced,
  timings,
  signal,
}: {
  edge: Pick<Edge, "progress">;
  lease: string;
  accepted: () => Accepted | undefined;
  fenced: () => void;
  timings: Pick<Timings, "progress_first_ms" | "progress_idle_ms" | "progress_retry_ms">;
  signal: AbortSignal;
}): ProgressReporter {
  let latest: Progress | undefined;
  let news = Promise.withResolvers<void>();
  news.resolve();
  const gone = aborted(signal);

  const loop = async () => {
    const [first, most] = timings.progress_retry_ms;
    let wait = timings.progress_first_ms;
    let retry = first;
    while (true) {
      await pause(wait, signal);
      await within(timings.progress_idle_ms, Promise.race([news.promise, gone]));
      const acceptance = accepted();
      if (signal.aborted || !acceptance) return;
      news = Promise.withResolvers<void>();
      const answer = await edge.progress(latest ? { ...acceptance, progress: latest } : acceptance, lease, signal);
      if (signal.aborted) return;
      if (answer.ok && answer.answer.fenced) return fenced();
      if (answer.ok) {
        wait = Math.min(Math.max(answer.answer.next_in_ms, SHORTEST_MS), LONGEST_MS);
        retry = first;
      } else {
        news.resolve();
        wait = retry;
        retry = Math.min(retry * 2, most);
      }
    }
  };
  void loop();

  return {
    report(progress) {
      const parsed = v.safeParse(Progress, progress);
      if (!parsed.success) return;
      latest = parsed.output;
      news.resolve();
    },
  };
}
