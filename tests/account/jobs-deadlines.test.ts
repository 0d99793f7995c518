import { describe, expect, test } from "vitest";
import { RETENTION_MS } from "../../schemas/limits.ts";
import { attemptOf, deadlineOf, pastDeadline } from "../../worker/account/jobs.ts";
import { NOW } from "./fixture.ts";
import { after, lost, must, placed, ready, refused, report, running } from "./job-states.ts";

const HOUR = 3_600_000;

describe("deadlineOf", () => {
  test("is queue_until while the job waits for a slot or a seat", () => {
    expect(deadlineOf(ready({ phase: "waiting" }))).toBe(NOW + HOUR);
    expect(deadlineOf(ready())).toBe(NOW + HOUR);
  });

  test("of a placed job is queue_until, but at least two minutes after its placement", () => {
    expect(deadlineOf(placed())).toBe(NOW + HOUR);
    expect(deadlineOf(placed(ready(), "rnr_a", NOW + HOUR - 1_000))).toBe(NOW + HOUR - 1_000 + 120_000);
  });

  test("of a running job is the end of its lease", () => {
    expect(deadlineOf(running())).toBe(NOW + 600_000 + 900_000);
  });

  test("of an ended job is its expiry", () => {
    expect(deadlineOf(after(running(), report("completed")))).toBe(NOW + RETENTION_MS.d7);
  });
});

describe("pastDeadline", () => {
  test("does nothing a millisecond early, in any phase", () => {
    for (const job of [ready({ phase: "waiting" }), ready(), placed(), running()]) {
      expect(pastDeadline(job, "d1", deadlineOf(job) - 1)).toBeUndefined();
      expect(pastDeadline(job, "d1", deadlineOf(job))).toBeDefined();
    }
  });

  test.each(["waiting", "ready"] as const)(
    "fails a %s job with queue_timeout, kept as the tier at its end says",
    (phase) => {
      const { job, consequences } = must(pastDeadline(ready({ phase }), "d30", NOW + HOUR));
      expect(job.end).toMatchObject({ status: "failed", error: { code: "queue_timeout" }, retention: "d30" });
      expect(job.end?.expires_at).toBe(NOW + HOUR + RETENTION_MS.d30);
      expect(job.started_at).toBeUndefined();
      expect(attemptOf(job)).toBeUndefined();
      expect(consequences).toEqual([{ kind: "ticket_dropped", fence: 1 }]);
    },
  );

  test("fails a job that ran before with the error of its last attempt", () => {
    const crashed = after(running(), report("failed", "engine_crashed"));
    expect(must(pastDeadline(crashed, "d1", deadlineOf(crashed))).job.end?.error?.code).toBe("engine_crashed");
    const gone = lost(running());
    expect(must(pastDeadline(gone, "d1", deadlineOf(gone))).job.end?.error?.code).toBe("runner_lost");
  });

  test("fails a job that was handed back with queue_timeout", () => {
    const back = after(running(after(running(), report("failed", "engine_crashed"))), report("handed_back"));
    expect(must(pastDeadline(back, "d1", deadlineOf(back))).job.end?.error?.code).toBe("queue_timeout");
  });

  test("counts a placed job that nobody decided as refused", () => {
    const job = placed();
    const { job: back, consequences } = must(pastDeadline(job, "d1", deadlineOf(job)));
    expect(back).toMatchObject({ phase: "ready", losses: 0, avoid: ["rnr_a"] });
    expect(consequences).toEqual([{ kind: "dropped", fence: 1, pool: "home" }]);
    expect(pastDeadline(back, "d1", deadlineOf(job))?.job.end?.error?.code).toBe("queue_timeout");
  });

  test("fails a running job with timeout at the end of its lease and stops it", () => {
    const job = running();
    const step = must(pastDeadline(job, "d1", deadlineOf(job)));
    expect(step.job.end).toMatchObject({ status: "failed", error: { code: "timeout" }, retention: "d7" });
    expect(step.job.started_at).toBe(NOW);
    expect(step.job.stale).toEqual([{ fence: 1, retention: "d7" }]);
    expect(step.consequences).toEqual([
      { kind: "stop", fence: 1, placement: job.placement },
      { kind: "dropped", fence: 1, pool: "home" },
    ]);
  });

  test("leaves an ended job to whoever removes it", () => {
    const job = after(running(), report("completed"));
    expect(pastDeadline(job, "d1", deadlineOf(job))).toBeUndefined();
  });

  test("is not put off by refusals: they leave queue_until where it was", () => {
    expect(deadlineOf(refused(placed(refused(placed(), "undecided"), "rnr_b")))).toBe(NOW + HOUR);
  });
});
