import { describe, expect, test } from "vitest";
import { giveUp, lose, place } from "../../worker/account/job-placement.ts";
import { abandon, accept, attemptOf, refuse } from "../../worker/account/jobs.ts";
import { NOW, WORD } from "./fixture.ts";
import { after, lost, must, placed, ready, refused, report, reporter, running, SEAT } from "./job-states.ts";

describe("place", () => {
  test("gives a ready job its next fence, its runner, and a lease of timeout_s and 15 minutes", () => {
    const job = must(place(ready({ timeout_s: 60 }), 1, SEAT, NOW + 5));
    expect(job).toMatchObject({ phase: "placed", fence: 1, placement: { ...SEAT, at: NOW + 5 } });
    expect(job.lease_until).toBe(NOW + 5 + 60_000 + 900_000);
    expect(attemptOf(job)).toBeUndefined();
  });

  test("takes no fence but the next one", () => {
    for (const fence of [0, 2, 7]) expect(place(ready(), fence, SEAT, NOW)).toBeUndefined();
    const back = refused(placed());
    expect(place(back, 1, SEAT, NOW)).toBeUndefined();
    expect(place(back, 2, SEAT, NOW)?.fence).toBe(2);
  });

  test("takes no row that is not ready", () => {
    for (const job of [ready({ phase: "waiting" }), placed(), running(), after(running(), report("completed"))]) {
      expect(place(job, job.fence + 1, SEAT, NOW)).toBeUndefined();
    }
  });

  test("makes the fence before it lose: a late result of it is fenced", () => {
    const job = placed(lost(running()));
    expect(lose(job, 1, NOW)).toBeUndefined();
    expect(refuse(job, 1, "refused_full")).toBeUndefined();
    expect(accept(job, 1, WORD, NOW)).toBeUndefined();
  });
});

describe("accept", () => {
  test("starts the job, by how long the runner says that it has been running", () => {
    const job = must(accept(placed(), 1, { ...WORD, running_ms: 400 }, NOW + 1_000));
    expect(job).toMatchObject({ phase: "running", started_at: NOW + 600, beat: WORD.beat, ever_started: true });
    expect(attemptOf(job)).toBe(1);
  });

  test("starts no job before it was placed, whatever a runner says", () => {
    expect(accept(placed(), 1, { ...WORD, running_ms: 99_999 }, NOW + 1_000)?.started_at).toBe(NOW);
  });

  test("is no news for another fence, and none for a row that runs or is back in ready", () => {
    expect(accept(placed(), 2, WORD, NOW)).toBeUndefined();
    expect(accept(running(), 1, WORD, NOW)).toBeUndefined();
    expect(accept(refused(placed()), 1, WORD, NOW)).toBeUndefined();
  });
});

describe("refuse", () => {
  test("sends the job back to ready, avoids that runner and counts no attempt", () => {
    const { job, consequences } = must(refuse(placed(), 1, "refused_full"));
    expect(job).toMatchObject({ phase: "ready", losses: 0, avoid: ["rnr_a"], queue_until: NOW + 3_600_000 });
    expect(consequences).toEqual([{ kind: "freed", fence: 1, ...reporter(), outcome: "refused_full" }]);
  });

  test("does not avoid a runner that only has another boot by now", () => {
    expect(refused(placed(), "refused_boot").avoid).toEqual([]);
  });

  test("reports a strike as one", () => {
    expect(must(refuse(placed(), 1, "strike")).consequences).toMatchObject([{ kind: "freed", outcome: "strike" }]);
  });

  test("remembers that outputs may turn up, whatever the refusal: another copy of the dispatch may have been taken", () => {
    for (const how of ["refused_full", "refused_boot", "refused", "strike"] as const) {
      expect(must(refuse(placed(), 1, how)).job.stale).toEqual([{ fence: 1, retention: "d7" }]);
    }
  });

  test("after silence drops the execution and remembers that its outputs may turn up", () => {
    const { job, consequences } = must(refuse(placed(), 1, "undecided"));
    expect(job.stale).toEqual([{ fence: 1, retention: "d7" }]);
    expect(consequences).toEqual([{ kind: "dropped", fence: 1, pool: "home" }]);
  });

  test("acts on a placed row only", () => {
    expect(refuse(running(), 1, "refused_full")).toBeUndefined();
    expect(refuse(refused(placed()), 1, "refused_full")).toBeUndefined();
  });

  test("names a runner once, however often it refuses", () => {
    expect(refused(placed(refused(placed()))).avoid).toEqual(["rnr_a"]);
  });
});

describe("lose", () => {
  test("sends a job that ran back to ready, counts an attempt and starts its queue time afresh", () => {
    const { job } = must(lose(running(), 1, NOW + 90_000));
    expect(job).toMatchObject({ phase: "ready", losses: 1, avoid: ["rnr_a"], queue_until: NOW + 90_000 + 3_600_000 });
    expect(job.started_at).toBeUndefined();
    expect(job.placement).toBeUndefined();
    expect(job.stale).toEqual([{ fence: 1, retention: "d7" }]);
    expect(attemptOf(job)).toBe(2);
  });

  test("counts nothing for a job that no runner had accepted", () => {
    expect(must(lose(placed(), 1, NOW)).job).toMatchObject({ phase: "ready", losses: 0, avoid: ["rnr_a"] });
  });

  test("takes a fence away once", () => {
    const back = lost(running());
    expect(lose(back, 1, NOW)).toBeUndefined();
  });

  test("fails the job with runner_lost at the third loss, which had started", () => {
    let job = ready();
    const attempts: unknown[] = [];
    for (let n = 1; n <= 3; n++) {
      job = running(job, `rnr_${n}`, NOW + n);
      attempts.push(attemptOf(job));
      job = lost(job, NOW + n);
    }
    expect(attempts).toEqual([1, 2, 3]);
    expect(job).toMatchObject({ phase: "ended", end: { status: "failed", error: { code: "runner_lost" } } });
    expect(job.started_at).toBe(NOW + 3);
    expect(attemptOf(job)).toBe(3);
    expect(job.stale.map(({ fence }) => fence)).toEqual([1, 2, 3]);
  });
});

describe("giveUp", () => {
  const excluded = () => after(running(), report("failed", "out_of_memory"));

  test("fails a job with its last error where that asked for another runner and there is none", () => {
    expect(must(giveUp(excluded(), 2, NOW)).job).toMatchObject({
      phase: "ended",
      end: { status: "failed", error: { code: "out_of_memory" } },
    });
  });

  test("leaves a job alone that excludes nobody, has no error, waits for another fence or is placed", () => {
    expect(giveUp(ready(), 1, NOW)).toBeUndefined();
    expect(giveUp(lost(running()), 2, NOW)).toBeUndefined();
    expect(giveUp(excluded(), 3, NOW)).toBeUndefined();
    expect(giveUp(placed(excluded(), "rnr_b"), 3, NOW)).toBeUndefined();
  });
});

describe("abandon", () => {
  test("ends a placed job and drops its execution", () => {
    const step = must(abandon(placed(), { code: "internal_error", message: "Gone." }, NOW));
    expect(step.job).toMatchObject({ phase: "ended", end: { status: "failed", error: { code: "internal_error" } } });
    expect(step.consequences).toEqual([{ kind: "dropped", fence: 1, pool: "home" }]);
  });

  test("touches no job in another phase", () => {
    for (const job of [ready(), running()]) {
      expect(abandon(job, { code: "internal_error", message: "Gone." }, NOW)).toBeUndefined();
    }
  });
});
