import { describe, expect, test } from "vitest";
import { RETENTION_MS } from "../../schemas/limits.ts";
import { end } from "../../worker/account/job-end.ts";
import { attemptOf, type Job } from "../../worker/account/jobs.ts";
import { NOW } from "./fixture.ts";
import { after, ends, lost, placed, ready, refused, report, reporter, running, SEAT, stepOf } from "./job-states.ts";

const handedBackTimes = (times: number, from = ready()): Job => {
  let job = from;
  for (let n = 0; n < times; n++) job = after(running(job), report("handed_back"));
  return job;
};

describe("a completed report", () => {
  test("ends the job, with the time in the engine and the time in the queue", () => {
    const { job, consequences, outputs } = stepOf(
      ends(running(ready(), "rnr_a", NOW + 700), report("completed"), NOW + 2_000),
    );
    expect(job.end).toMatchObject({ status: "completed", fence: 1, at: NOW + 2_000, execution_ms: 200 });
    expect(job.end?.timing).toEqual({ queue_ms: 700, download_ms: 10, execution_ms: 200, upload_ms: 30 });
    expect(consequences).toEqual([{ kind: "freed", fence: 1, ...reporter(), outcome: "ended" }]);
    expect(outputs).toEqual([]);
  });

  test("proves acceptance where it overtook the 202", () => {
    const job = after(placed(), { ...report("completed"), running_ms: 300 }, NOW + 1_000);
    expect(job).toMatchObject({ phase: "ended", started_at: NOW + 700 });
    expect(attemptOf(job)).toBe(1);
  });

  test("keeps the record and its outputs as long as the winning lease's class says", () => {
    const job = after(running(), report("completed"), NOW + 50);
    expect(job.end).toMatchObject({ retention: "d7", expires_at: NOW + 50 + RETENTION_MS.d7 });
  });

  test("makes outputs of every execution but its own stale", () => {
    const job = after(running(lost(running()), "rnr_b"), report("completed"));
    expect(job.stale.map(({ fence }) => fence)).toEqual([1]);
  });
});

describe("a repeated or late report", () => {
  test("gets the same answer after the end and changes nothing", () => {
    const job = after(running(), report("completed"));
    expect(end(job, 1, reporter(), report("completed"), NOW)).toEqual({ answer: "ok" });
    expect(end(job, 1, reporter(), report("failed"), NOW)).toEqual({ answer: "ok" });
  });

  test("gets the same answer after a retry and does not retry again", () => {
    const back = after(running(), report("failed", "engine_crashed"));
    expect(ends(back, report("failed", "engine_crashed"))).toEqual({ answer: "ok" });
    expect(ends(back, report("completed"))).toEqual({ answer: "ok" });
  });

  test("is fenced once a successor is placed", () => {
    expect(end(placed(lost(running())), 1, reporter(), report("completed"), NOW)).toEqual({ answer: "fenced" });
    expect(end(running(), 2, reporter(), report("completed"), NOW)).toEqual({ answer: "fenced" });
  });

  test("is gone where the job ended without it", () => {
    const job = after(running(lost(running()), "rnr_b"), report("completed"));
    expect(end(job, 1, reporter(), report("completed"), NOW)).toEqual({ answer: "gone" });
  });
});

describe("the result of an execution that was thought lost", () => {
  const late = { ...report("completed"), running_ms: 4_000 };

  test("ends the job that is back in ready, with the time when that execution started", () => {
    const job = after(lost(running(), NOW + 1_000), late, NOW + 9_000);
    expect(job).toMatchObject({ phase: "ended", started_at: NOW + 5_000, end: { status: "completed", fence: 1 } });
    expect(job.stale).toEqual([]);
    expect(job.end?.retention).toBe("d7");
  });

  test("ends a job whose dispatch nobody could decide", () => {
    const job = after(refused(placed(), "undecided"), late, NOW + 9_000);
    expect(job).toMatchObject({ phase: "ended", started_at: NOW + 5_000, ever_started: true });
    expect(attemptOf(job)).toBe(1);
  });

  test("fails the job by a code that is not tried again", () => {
    expect(after(lost(running()), report("failed"))).toMatchObject({
      phase: "ended",
      end: { status: "failed", error: { code: "execution_failed" } },
    });
  });

  test("changes nothing by a code that is tried again, nor by a hand-back", () => {
    expect(ends(lost(running()), report("failed", "stalled"))).toEqual({ answer: "ok" });
    expect(ends(lost(running()), report("handed_back"))).toEqual({ answer: "ok" });
  });
});

describe("a failed report", () => {
  test.each([
    "execution_failed",
    "invalid_prompt",
    "input_download_failed",
    "no_outputs",
    "output_upload_failed",
    "outputs_too_large",
    "internal_error",
  ] as const)("of %s ends the job at once", (code) => {
    const job = after(running(), report("failed", code));
    expect(job).toMatchObject({ phase: "ended", end: { status: "failed", fence: 1, error: { code } } });
    expect(job.end?.execution_ms).toBeUndefined();
    expect(job.stale).toEqual([{ fence: 1, retention: SEAT.retention }]);
  });

  test.each([
    ["missing_node", 1, true],
    ["missing_model", 1, true],
    ["out_of_memory", 1, true],
    ["stalled", 1, false],
    ["engine_crashed", 2, false],
  ] as const)("of %s is tried again %i times, on another runner only: %s", (code, times, elsewhere) => {
    let job = ready();
    const runners: string[] = [];
    for (let n = 1; n <= times; n++) {
      runners.push(`rnr_${n}`);
      job = after(running(job, `rnr_${n}`), report("failed", code), NOW + n);
      expect(job).toMatchObject({ phase: "ready", losses: n, avoid: runners, exclude: elsewhere ? runners : [] });
      expect(job.queue_until).toBe(NOW + n + 3_600_000);
      expect(job.started_at).toBeUndefined();
    }
    const last = after(running(job, "rnr_9"), report("failed", code));
    expect(last).toMatchObject({ phase: "ended", end: { error: { code } } });
    expect(attemptOf(last)).toBe(times + 1);
  });

  test("is not tried again in the third attempt", () => {
    const third = running(lost(running(lost(running()))));
    expect(after(third, report("failed", "stalled"))).toMatchObject({
      phase: "ended",
      end: { error: { code: "stalled" } },
    });
  });

  test("counts each code's retries apart", () => {
    const crashed = after(running(), report("failed", "engine_crashed"));
    expect(after(running(crashed), report("failed", "stalled")).phase).toBe("ready");
  });
});

describe("a hand-back", () => {
  test("sends the job back to ready and counts no attempt, five times", () => {
    const job = handedBackTimes(5);
    expect(job).toMatchObject({ phase: "ready", handbacks: 5, losses: 0, avoid: ["rnr_a"] });
    expect(attemptOf(job)).toBe(1);
  });

  test("counts from the sixth time on, and fails the job when its attempts are used up", () => {
    expect(handedBackTimes(6)).toMatchObject({ phase: "ready", losses: 1 });
    expect(handedBackTimes(7)).toMatchObject({ phase: "ready", losses: 2 });
    expect(handedBackTimes(8)).toMatchObject({ phase: "ended", end: { error: { code: "runner_lost" } } });
  });

  test("frees the seat, starts the queue time afresh and forgets the last attempt's error", () => {
    const crashed = after(running(), report("failed", "engine_crashed"));
    const { job, consequences } = stepOf(ends(running(crashed), report("handed_back"), NOW + 60_000));
    expect(job.queue_until).toBe(NOW + 60_000 + 3_600_000);
    expect(job.last_error).toBeUndefined();
    expect(consequences).toEqual([{ kind: "freed", fence: 2, ...reporter(), outcome: "handed_back" }]);
  });

  test("is what a report of being stopped means for a job that goes on", () => {
    expect(after(running(), report("stopped"))).toMatchObject({ phase: "ready", handbacks: 1, losses: 0 });
  });
});
