import { expect, test } from "vitest";
import { RETENTION_MS } from "../../schemas/limits.ts";
import { end } from "../../worker/account/job-end.ts";
import { cancel } from "../../worker/account/jobs.ts";
import { NOW } from "./fixture.ts";
import { after, lost, must, placed, ready, report, reporter, running } from "./job-states.ts";

test.each(["waiting", "ready"] as const)(
  "a %s job is cancelled at once, never started, and its ticket dropped",
  (phase) => {
    const { job, consequences } = must(cancel(ready({ phase }), "d1", NOW + 9));
    expect(job).toMatchObject({
      phase: "ended",
      end: { status: "cancelled", at: NOW + 9, expires_at: NOW + 9 + RETENTION_MS.d1 },
    });
    expect(job.started_at).toBeUndefined();
    expect(consequences).toEqual([{ kind: "ticket_dropped", fence: 1 }]);
  },
);

test("a job on a runner is cancelled at once, its runner told to stop, its outputs to go", () => {
  const job = running();
  const step = must(cancel(job, "d1", NOW + 9));
  expect(step.job).toMatchObject({ phase: "ended", started_at: NOW, end: { status: "cancelled", retention: "d7" } });
  expect(step.job.stale).toEqual([{ fence: 1, retention: "d7" }]);
  expect(step.consequences).toEqual([
    { kind: "stop", fence: 1, placement: job.placement },
    { kind: "dropped", fence: 1, pool: "home" },
  ]);
});

test("a late result of a cancelled job is gone", () => {
  for (const job of [running(), placed(), lost(running())]) {
    expect(end(must(cancel(job, "d1", NOW)).job, 1, reporter(), report("completed"), NOW)).toEqual({ answer: "gone" });
  }
});

test("a job that has ended stays as it is", () => {
  expect(cancel(after(running(), report("completed")), "d1", NOW)).toBeUndefined();
});
