import type { JobErrorCode } from "../../schemas/job.ts";
import type { EndReport } from "../../schemas/runner-protocol.ts";
import { type EndVerdict, end } from "../../worker/account/job-end.ts";
import { lose, place } from "../../worker/account/job-placement.ts";
import { accept, type Job, type Reporter, refuse, type Step } from "../../worker/account/jobs.ts";
import { NOW, TIMES, WORD } from "./fixture.ts";

/** Jobs in every phase, as the transitions themselves make them. */

export const SEAT = {
  pool: "home",
  runner: "rnr_a",
  boot: 3,
  url: "https://a.example",
  jkt: "thumbprint",
  retention: "d7" as const,
};

export const ready = (part: Partial<Job> = {}): Job => ({
  job_id: "01890a5d-ac96-774b-8000-000000000001",
  key_hash: "key",
  phase: "ready",
  created_at: NOW,
  priority: 0,
  timeout_s: 600,
  queue_timeout_s: 3600,
  queue_until: NOW + 3_600_000,
  needs: { classes: [], models: [] },
  prompt_in: "row",
  fence: 0,
  ever_started: false,
  losses: 0,
  handbacks: 0,
  retries: {},
  avoid: [],
  exclude: [],
  stale: [],
  ...part,
});

/** What a transition gave, or a failed test where it refused. */
export function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("The transition was refused.");
  return value;
}

/** The next fence of a ready job, on a runner of that name. */
export const placed = (job: Job = ready(), runner = "rnr_a", now = NOW): Job =>
  must(place(job, job.fence + 1, { ...SEAT, runner }, now));

export const running = (job: Job = ready(), runner = "rnr_a", now = NOW): Job => {
  const next = placed(job, runner, now);
  return must(accept(next, next.fence, WORD, now));
};

export const lost = (job: Job, now = NOW): Job => must(lose(job, job.fence, now)).job;
export const refused = (job: Job, now: "refused_full" | "refused_boot" | "undecided" = "refused_full"): Job =>
  must(refuse(job, job.fence, now)).job;

export const report = (outcome: EndReport["outcome"], code: JobErrorCode = "execution_failed"): EndReport => {
  if (outcome === "completed") return { ...WORD, outcome, outputs: [], times: TIMES };
  if (outcome === "failed") return { ...WORD, outcome, error: { code, message: "It failed." }, times: TIMES };
  return { ...WORD, outcome };
};

/** That runner, as the one who reports. */
export const reporter = (runner = "rnr_a"): Reporter => ({ pool: SEAT.pool, runner });

/** Reports the end of the current fence; the runner is the one that has it. */
export const ends = (job: Job, word: EndReport, now = NOW): EndVerdict =>
  end(job, job.fence, reporter(job.placement?.runner), word, now);

export function stepOf(verdict: EndVerdict): Step {
  if (verdict.answer !== "ok") throw new Error(`The report was answered "${verdict.answer}".`);
  return must(verdict.step);
}

export const after = (job: Job, word: EndReport, now = NOW): Job => stepOf(ends(job, word, now)).job;
