import { describe, expect, test } from "vitest";
import { JobErrorCode } from "../../schemas/job.ts";
import { outcomeOf } from "../../worker/account/job-end.ts";
import { ended, failed, HOME, jobId, RUNNER, said, withRunning } from "./fixture.ts";
import { report } from "./job-states.ts";

/** What an end report says of the seat that it frees: the fleet judges runners and graphs by it. */

describe("the outcome of a seat", () => {
  test("of a completed job is that it ended, of one that was given back or stopped that it was handed back", () => {
    expect(outcomeOf(report("completed"))).toBe("ended");
    expect(outcomeOf(report("handed_back"))).toBe("handed_back");
    expect(outcomeOf(report("stopped"))).toBe("handed_back");
  });

  const EXPECTED: Record<JobErrorCode, ReturnType<typeof outcomeOf>> = {
    queue_timeout: "ended",
    timeout: "ended",
    runner_lost: "ended",
    missing_node: "ended",
    missing_model: "ended",
    invalid_prompt: "ended",
    input_download_failed: "ended",
    execution_failed: "ended",
    no_outputs: "ended",
    outputs_too_large: "ended",
    output_upload_failed: "ended",
    out_of_memory: "engine_fault",
    stalled: "engine_fault",
    internal_error: "engine_fault",
    engine_crashed: "engine_killed",
  };

  test.each(JobErrorCode.options)("of a job that failed by %s", (code) => {
    expect(outcomeOf(report("failed", code))).toBe(EXPECTED[code]);
  });

  test.each([
    ["engine_crashed", "engine_killed"],
    ["out_of_memory", "engine_fault"],
    ["execution_failed", "ended"],
  ] as const)("by %s reaches the fleet as %s, whether the job is tried again or not", (code, outcome) => {
    const { account } = withRunning();
    ended(account, 1, 1, failed(code));
    expect(said(account)?.freed).toEqual([{ job: jobId(1), fence: 1, runner: RUNNER, outcome }]);
    expect(account.links.of(HOME).unsaid).toBe(false);
  });

  test("of a report that nobody wants any more reaches the fleet all the same", () => {
    const { account } = withRunning();
    ended(account, 1);
    said(account);
    expect(ended(account, 1, 7, failed("engine_crashed"))).toBe("gone");
    expect(said(account)?.freed).toEqual([{ job: jobId(1), fence: 7, runner: RUNNER, outcome: "engine_killed" }]);
  });
});
