import { describe, expect, test } from "vitest";
import {
  type AttemptResult,
  begin,
  CLAIM_MS,
  call,
  type Delivery,
  expireClaim,
  finishAttempt,
  MAX_IN_FLIGHT,
  openDelivery,
  reopen,
  sweep,
  sweepAt,
} from "../../worker/account/deliveries.ts";
import { jobId, NOW } from "./fixture.ts";

const FAILED: AttemptResult = { ok: false, status: 500, failure: "http_5xx" };
const ALONE = { taken: 0 };
const fresh = () => openDelivery(jobId(1), 1, NOW);

function granted(delivery: Delivery, now: number): Delivery {
  const answer = begin(delivery, delivery.round, ALONE, now);
  if (answer.kind !== "granted") throw new Error(`The attempt was answered "${answer.kind}".`);
  return answer.delivery;
}

function finished(delivery: Delivery, result: AttemptResult, now: number): Delivery {
  const next = finishAttempt(delivery, delivery.round, delivery.n, result, now);
  if (!next) throw new Error("No such attempt is in flight.");
  return next;
}

function expired(delivery: Delivery, now: number): Delivery {
  const next = expireClaim(delivery, now);
  if (!next) throw new Error("No claim has run out.");
  return next;
}

describe("begin", () => {
  test("is granted once, for 15 s", () => {
    const first = granted(fresh(), NOW);
    expect(first).toMatchObject({ n: 1, claimed_until: NOW + 15_000 });
    expect(begin(first, 1, ALONE, NOW + 14_999)).toEqual({ kind: "done" });
  });

  test("is early before it is due, and says when to come back", () => {
    const failedOnce = finished(granted(fresh(), NOW), FAILED, NOW + 100);
    expect(begin(failedOnce, 1, ALONE, NOW + 200)).toMatchObject({ kind: "early", retry_in_s: 1 });
    const twice = finished(granted(failedOnce, NOW + 1_100), FAILED, NOW + 1_200);
    expect(begin(twice, 1, ALONE, NOW + 1_200)).toMatchObject({ kind: "early", retry_in_s: 5 });
    expect(begin(twice, 1, ALONE, NOW + 6_200).kind).toBe("granted");
  });

  test("does nothing for another round, or when the round is over", () => {
    expect(begin({ ...fresh(), round: 2 }, 1, ALONE, NOW).kind).toBe("done");
    expect(begin(finished(granted(fresh(), NOW), { ok: true, status: 200 }, NOW), 1, ALONE, NOW + 60_000).kind).toBe(
      "done",
    );
  });

  test("is on time when the queue's clock is a little fast, and never earlier", () => {
    const failedOnce = finished(granted(fresh(), NOW), FAILED, NOW);
    expect(begin(failedOnce, 1, ALONE, NOW + 979)).toEqual({ kind: "early", retry_in_s: 1 });
    expect(begin(failedOnce, 1, ALONE, NOW + 980).kind).toBe("granted");
  });

  test("waits while 50 of the account are in flight, which is no attempt", () => {
    expect(begin(fresh(), 1, { taken: MAX_IN_FLIGHT - 1 }, NOW).kind).toBe("granted");
    const full = begin(fresh(), 1, { taken: MAX_IN_FLIGHT }, NOW);
    expect(full).toEqual({ kind: "deferred", delivery: { ...fresh(), deferred: true } });
  });

  test("does not overtake what waits longer, also where there is room", () => {
    expect(begin(fresh(), 1, { taken: 3, waiting_since: NOW - 1 }, NOW).kind).toBe("deferred");
    expect(begin(fresh(), 1, { taken: 3, waiting_since: NOW + 1 }, NOW).kind).toBe("granted");
  });

  test("has its place once it is called, until that is over", () => {
    const called = call({ ...fresh(), deferred: true }, NOW);
    expect(called).toEqual({ ...fresh(), called_until: NOW + 20_000 });
    const crowd = { taken: MAX_IN_FLIGHT, waiting_since: NOW - 1 };
    expect(begin(called, 1, crowd, NOW + 19_999)).toMatchObject({ kind: "granted" });
    expect(begin(called, 1, crowd, NOW + 20_000)).toEqual({
      kind: "deferred",
      delivery: { ...fresh(), deferred: true },
    });
    expect(granted(called, NOW)).not.toHaveProperty("called_until");
  });
});

describe("expireClaim", () => {
  test("leaves alone what is not in flight, or still may be", () => {
    expect(expireClaim(fresh(), NOW + 99_000)).toBeUndefined();
    expect(expireClaim(granted(fresh(), NOW), NOW + CLAIM_MS - 1)).toBeUndefined();
  });

  test("uses up the attempt, and puts the next one 1, 5 and 30 s after the claim's end", () => {
    let delivery = fresh();
    let now = NOW;
    for (const [n, wait] of [
      [1, 1_000],
      [2, 5_000],
      [3, 30_000],
    ] as const) {
      delivery = expired(granted(delivery, now), now + CLAIM_MS + 4_000);
      expect(delivery).toMatchObject({ status: "pending", n, last_failure: "claim_expired" });
      expect(delivery.due_at).toBe(now + CLAIM_MS + wait);
      now = delivery.due_at;
    }
    expect(expired(granted(delivery, now), now + CLAIM_MS)).toMatchObject({ status: "failed", n: 4 });
  });
});

describe("reopen", () => {
  test("begins a round of its own, whatever became of the last one", () => {
    const delivered = finished(granted(fresh(), NOW), { ok: true, status: 200 }, NOW);
    expect(reopen(delivered, "request", NOW + 9)).toEqual({
      ...openDelivery(jobId(1), 2, NOW + 9),
      request: "request",
    });
    expect(reopen({ ...delivered, status: "failed", round: 7 }, "request", NOW)?.round).toBe(8);
  });

  test("begins none while one is under way", () => {
    expect(reopen(fresh(), "request", NOW)).toBeUndefined();
    expect(reopen(granted(fresh(), NOW), "request", NOW)).toBeUndefined();
  });
});

describe("finishAttempt", () => {
  test("puts the next attempt 1, 5 and 30 s after each failure, and ends the round at the fourth", () => {
    let delivery = fresh();
    let now = NOW;
    const waits: number[] = [];
    for (let n = 1; n <= 4; n++) {
      delivery = finished(granted(delivery, now), FAILED, now + 700);
      waits.push(delivery.due_at - (now + 700));
      if (n < 4) {
        expect(delivery).toMatchObject({ status: "pending", n, last_status: 500, last_failure: "http_5xx" });
        now = delivery.due_at;
      }
    }
    expect(waits.slice(0, 3)).toEqual([1_000, 5_000, 30_000]);
    expect(delivery).toMatchObject({ status: "failed", n: 4 });
    expect(begin(delivery, 1, ALONE, now + 3_600_000).kind).toBe("done");
    expect(sweepAt(delivery, NOW)).toBeUndefined();
  });

  test("ends the round at the first success, and drops what failed before", () => {
    const second = granted(finished(granted(fresh(), NOW), FAILED, NOW), NOW + 1_000);
    const delivered = finished(second, { ok: true, status: 204 }, NOW + 1_500);
    expect(delivered).toMatchObject({ status: "delivered", n: 2, last_status: 204 });
    expect(delivered.last_failure).toBeUndefined();
    expect(sweepAt(delivered, NOW)).toBeUndefined();
  });

  test("hears nothing of another attempt, another round, or one that is over", () => {
    const first = granted(fresh(), NOW);
    expect(finishAttempt(first, 1, 2, FAILED, NOW)).toBeUndefined();
    expect(finishAttempt(first, 2, 1, FAILED, NOW)).toBeUndefined();
    expect(finishAttempt(fresh(), 1, 0, FAILED, NOW)).toBeUndefined();
    const over = finished(first, { ok: true, status: 200 }, NOW);
    expect(finishAttempt(over, 1, 1, FAILED, NOW)).toBeUndefined();
  });

  describe("after its claim was seen to run out", () => {
    const swept = expired(granted(fresh(), NOW), NOW + CLAIM_MS + 5_000);

    test("still ends the round with a success", () => {
      const late = finished(swept, { ok: true, status: 200 }, NOW + 60_000);
      expect(late).toMatchObject({ status: "delivered", n: 1, last_status: 200 });
      expect(late.last_failure).toBeUndefined();
    });

    test("tells what failed, and does not put the next attempt off", () => {
      const late = finished(swept, FAILED, NOW + 60_000);
      expect(late).toMatchObject({ status: "pending", n: 1, due_at: swept.due_at, last_failure: "http_5xx" });
    });

    test("is not heard once the next attempt was granted", () => {
      const second = granted(swept, NOW + 60_000);
      expect(finishAttempt(second, 1, 1, { ok: true, status: 200 }, NOW + 60_001)).toBeUndefined();
    });
  });
});

describe("sweep", () => {
  test("stands 20 s after the delivery is due, and 5 s after the end of a claim", () => {
    expect(sweepAt(fresh(), NOW)).toBe(NOW + 20_000);
    expect(sweepAt(granted(fresh(), NOW + 2_000), NOW)).toBe(NOW + 2_000 + 15_000 + 5_000);
    expect(sweepAt(call(fresh(), NOW + 30_000), NOW + 30_000)).toBe(NOW + 50_000);
  });

  test("looks seldom at what waits for a place: it is called", () => {
    expect(sweepAt({ ...fresh(), deferred: true }, NOW)).toBe(NOW + 300_000);
    expect(sweep({ ...fresh(), deferred: true })).toEqual({ send: false });
  });

  test("sends a fresh message for one that did not come", () => {
    expect(sweep(fresh())).toEqual({ send: true });
    expect(sweep(call(fresh(), NOW))).toEqual({ send: true });
  });

  test("leaves an attempt in flight alone, and is over with the round", () => {
    expect(sweep(granted(fresh(), NOW))).toEqual({ send: false });
    const delivered = finished(granted(fresh(), NOW), { ok: true, status: 200 }, NOW);
    expect(sweep(delivered)).toEqual({ send: false });
    expect(sweepAt(delivered, NOW)).toBeUndefined();
  });
});

test("no delay is longer than the longest pause, whatever the clock does", () => {
  const failedOnce = finished(granted(fresh(), NOW), FAILED, NOW);
  expect(begin(failedOnce, 1, ALONE, NOW - 86_400_000)).toEqual({ kind: "early", retry_in_s: 30 });
});
