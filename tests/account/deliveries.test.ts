import { describe, expect, test } from "vitest";
import {
  type AttemptResult,
  begin,
  CLAIM_MS,
  type Delivery,
  finishAttempt,
  MAX_IN_FLIGHT,
  openDelivery,
  sweep,
  sweepAt,
} from "../../worker/account/deliveries.ts";
import { jobId, NOW } from "./fixture.ts";

const FAILED: AttemptResult = { ok: false, status: 500, failure: "http_5xx" };
const fresh = () => openDelivery(jobId(1), 1, NOW);

function granted(delivery: Delivery, now: number): Delivery {
  const answer = begin(delivery, delivery.round, 0, now);
  if (answer.kind !== "granted") throw new Error(`The attempt was answered "${answer.kind}".`);
  return answer.delivery;
}

function finished(delivery: Delivery, result: AttemptResult, now: number): Delivery {
  const next = finishAttempt(delivery, delivery.round, delivery.n, result, now);
  if (!next) throw new Error("No such attempt is in flight.");
  return next;
}

describe("begin", () => {
  test("is granted once, for 15 s", () => {
    const first = begin(fresh(), 1, 0, NOW);
    expect(first).toMatchObject({ kind: "granted", n: 1, delivery: { claimed_until: NOW + 15_000 } });
    expect(begin(first.delivery, 1, 0, NOW + 14_999).kind).toBe("done");
  });

  test("is early before it is due, and says when to come back", () => {
    const failedOnce = finished(granted(fresh(), NOW), FAILED, NOW + 100);
    expect(begin(failedOnce, 1, 0, NOW + 200)).toMatchObject({ kind: "early", retry_in_s: 1 });
    const twice = finished(granted(failedOnce, NOW + 1_100), FAILED, NOW + 1_200);
    expect(begin(twice, 1, 0, NOW + 1_200)).toMatchObject({ kind: "early", retry_in_s: 5 });
    expect(begin(twice, 1, 0, NOW + 6_200).kind).toBe("granted");
  });

  test("does nothing for another round, or when the round is over", () => {
    expect(begin({ ...fresh(), round: 2 }, 1, 0, NOW).kind).toBe("done");
    expect(begin(finished(granted(fresh(), NOW), { ok: true, status: 200 }, NOW), 1, 0, NOW + 60_000).kind).toBe(
      "done",
    );
  });

  test("uses up the attempt of a claim that expired, and puts the next one off", () => {
    const answer = begin(granted(fresh(), NOW), 1, 0, NOW + CLAIM_MS);
    expect(answer).toMatchObject({ kind: "early", retry_in_s: 1, delivery: { n: 1, last_failure: "claim_expired" } });
    expect(begin(answer.delivery, 1, 0, NOW + CLAIM_MS + 1_000)).toMatchObject({ kind: "granted", n: 2 });
  });

  test("waits while 50 of the account are in flight, which is no attempt", () => {
    expect(begin(fresh(), 1, MAX_IN_FLIGHT - 1, NOW).kind).toBe("granted");
    const full = begin(fresh(), 1, MAX_IN_FLIGHT, NOW);
    expect(full).toEqual({ kind: "done", delivery: fresh() });
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
    expect(begin(delivery, 1, 0, now + 3_600_000).kind).toBe("done");
    expect(sweepAt(delivery)).toBeUndefined();
  });

  test("ends the round at the first success, and drops what failed before", () => {
    const second = granted(finished(granted(fresh(), NOW), FAILED, NOW), NOW + 1_000);
    const delivered = finished(second, { ok: true, status: 204 }, NOW + 1_500);
    expect(delivered).toMatchObject({ status: "delivered", n: 2, last_status: 204 });
    expect(delivered.last_failure).toBeUndefined();
    expect(sweepAt(delivered)).toBeUndefined();
  });

  test("hears nothing of another attempt, another round, or one that is not in flight", () => {
    const first = granted(fresh(), NOW);
    expect(finishAttempt(first, 1, 2, FAILED, NOW)).toBeUndefined();
    expect(finishAttempt(first, 2, 1, FAILED, NOW)).toBeUndefined();
    expect(finishAttempt(fresh(), 1, 0, FAILED, NOW)).toBeUndefined();
    const over = finished(first, { ok: true, status: 200 }, NOW);
    expect(finishAttempt(over, 1, 1, FAILED, NOW)).toBeUndefined();
  });

  test("hears nothing of a claim that was seen to expire", () => {
    const swept = sweep(granted(fresh(), NOW), NOW + CLAIM_MS + 5_000).delivery;
    expect(finishAttempt(swept, 1, 1, { ok: true, status: 200 }, NOW + CLAIM_MS + 5_001)).toBeUndefined();
  });
});

describe("sweep", () => {
  test("stands 20 s after the delivery is due, and 5 s after the end of a claim", () => {
    expect(sweepAt(fresh())).toBe(NOW + 20_000);
    expect(sweepAt(granted(fresh(), NOW + 2_000))).toBe(NOW + 2_000 + 15_000 + 5_000);
  });

  test("sends a fresh message for one that did not come, and looks again 20 s on", () => {
    expect(sweep(fresh(), NOW + 20_000)).toEqual({ delivery: fresh(), send: true, next_at: NOW + 40_000 });
  });

  test("leaves an attempt in flight alone", () => {
    const first = granted(fresh(), NOW);
    expect(sweep(first, NOW + 1_000)).toEqual({ delivery: first, send: false, next_at: NOW + 20_000 });
  });

  test("tries again after an expired claim", () => {
    const now = NOW + 20_000;
    const swept = sweep(granted(fresh(), NOW), now);
    expect(swept).toMatchObject({ send: true, delivery: { n: 1, due_at: now + 1_000 }, next_at: now + 21_000 });
  });

  test("ends the round with its fourth expired claim: there is never a fifth attempt", () => {
    let delivery = fresh();
    let now = NOW;
    for (let n = 1; n <= 4; n++) {
      delivery = granted(delivery, now);
      expect(delivery.n).toBe(n);
      now += 20_000;
      const swept = sweep(delivery, now);
      delivery = swept.delivery;
      expect(swept.send).toBe(n < 4);
      if (n < 4) now = delivery.due_at;
    }
    expect(delivery).toMatchObject({ status: "failed", n: 4, last_failure: "claim_expired" });
    expect(sweep(delivery, now + 99_000).next_at).toBeUndefined();
  });
});
