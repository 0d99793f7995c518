import { describe, expect, test } from "vitest";
import { type Beat, type Execution, laterBeat } from "../../schemas/runner-protocol.ts";
import * as rules from "../../gpu-runner/table.ts";

const BOOT = 7;
const execution = (fence: number): Execution => ({
  account: "acc_00000000000000000000",
  job: "01890a5d-ac96-774b-bcce-b302099a8057",
  fence,
});
const order = (fence: number, boot = BOOT) => ({ ...execution(fence), boot });
const table = (seats = 2) => rules.beatAnswered(rules.emptyTable(seats, "a-process"), BOOT);

/** Takes one execution and gives the table that holds it. */
const holding = (fence: number, from = table(), now = 0) => rules.offer(from, order(fence), now).table;
const outcome = (from: rules.Table, fence: number, now = 0, boot = BOOT) =>
  rules.offer(from, order(fence, boot), now).offer.outcome;

describe("offer", () => {
  test("refuses every boot until the edge has given one", () => {
    expect(outcome(rules.emptyTable(1, "a-process"), 1, 0, 0)).toBe("another_boot");
    expect(outcome(rules.emptyTable(1, "a-process"), 1, 0, BOOT)).toBe("another_boot");
  });

  test("refuses an order for another boot", () => {
    expect(outcome(table(), 1, 0, BOOT - 1)).toBe("another_boot");
    expect(outcome(table(), 1, 0, BOOT + 1)).toBe("another_boot");
  });

  test("answers a held fence with the same beat and the time it has run, also when full and draining", () => {
    const first = rules.offer(table(1), order(1), 100);
    const later = rules.drain(rules.beat(first.table, 150).table);
    expect(rules.offer(later, order(1), 350).offer).toEqual({
      outcome: "accepted",
      accepted: { beat: { boot: BOOT, n: 0 }, running_ms: 250 },
      repeated: true,
    });
  });

  test("is full when every seat's engine works, and has room again when one is idle", () => {
    const full = holding(2, holding(1));
    expect(outcome(full, 3)).toBe("full");
    expect(outcome(rules.ended(full, execution(1)), 3)).toBe("accepted");
  });

  test("takes nothing new while draining", () => {
    expect(outcome(rules.drain(table()), 1)).toBe("draining");
  });

  test("still has an execution that ended and was not acknowledged", () => {
    expect(outcome(rules.ended(holding(1), execution(1)), 1)).toBe("accepted");
  });

  test("refuses an acknowledged end for five minutes", () => {
    const over = rules.acknowledged(rules.ended(holding(1), execution(1)), execution(1), 1000);
    expect(outcome(over, 1, 1000 + rules.REMEMBER_MS - 1)).toBe("gone");
  });

  test("refuses a dispatch that its stop overtook", () => {
    expect(outcome(rules.stop(table(), execution(1), 0), 1, 60_000)).toBe("gone");
    expect(outcome(rules.stop(table(), execution(1), 0), 2, 60_000)).toBe("accepted");
  });

  test("refuses a repeat of what is being stopped", () => {
    expect(outcome(rules.stop(holding(1), execution(1), 0), 1)).toBe("gone");
  });
});

describe("beat", () => {
  test("has no number before the boot is known, and rising ones after", () => {
    const first = rules.beat(rules.emptyTable(3, "a-process"), 0);
    expect(first.heartbeat).toEqual({ process: "a-process", seats: 3, draining: false, held: [] });
    const second = rules.beat(rules.beatAnswered(first.table, 9), 0);
    const third = rules.beat(second.table, 0);
    expect([second, third].map(({ heartbeat }) => heartbeat.beat)).toEqual([
      { boot: 9, n: 1 },
      { boot: 9, n: 2 },
    ]);
  });

  test("lists an execution until its end is acknowledged", () => {
    const listed = (from: rules.Table) => rules.beat(from, 500).heartbeat.held;
    const ended = rules.ended(rules.stop(holding(1), execution(1), 0), execution(1));
    expect(listed(ended)).toEqual([{ ...execution(1), running_ms: 500 }]);
    expect(listed(rules.acknowledged(ended, execution(1), 0))).toEqual([]);
  });

  test("takes up a higher boot and never a lower one", () => {
    expect(rules.beatAnswered(table(), BOOT + 2).boot).toBe(BOOT + 2);
    expect(rules.beatAnswered(table(), BOOT - 2).boot).toBe(BOOT);
  });
});

describe("seats", () => {
  const seatsIn = (from: rules.Table) => rules.beat(from, 0).heartbeat.seats;

  test("are as many as the engine has, from none to what is allowed", () => {
    const from = table(3);
    expect([0, 2, 3, 4, -1].map((seats) => seatsIn(rules.setSeats(from, seats)))).toEqual([0, 2, 3, 3, 0]);
    expect(outcome(rules.setSeats(from, 0), 1)).toBe("full");
    expect(outcome(rules.setSeats(rules.setSeats(from, 0), 1), 1)).toBe("accepted");
  });

  test("are never more than the enrolment allows, whichever is known first", () => {
    expect(seatsIn(rules.setSeats(rules.limitSeats(table(4), 2), 4))).toBe(2);
    expect(seatsIn(rules.limitSeats(rules.setSeats(table(4), 3), 2))).toBe(2);
    expect(seatsIn(rules.limitSeats(rules.setSeats(table(4), 0), 2))).toBe(0);
  });

  test("may be fewer than what runs: that goes on, is answered, and new offers are refused", () => {
    const fewer = rules.setSeats(holding(2, holding(1)), 1);
    expect(rules.beat(fewer, 0).heartbeat).toMatchObject({ seats: 1, held: [{ fence: 1 }, { fence: 2 }] });
    expect(outcome(fewer, 2)).toBe("accepted");
    expect(outcome(rules.ended(fewer, execution(1)), 3)).toBe("full");
    expect(outcome(rules.ended(rules.ended(fewer, execution(1)), execution(2)), 3)).toBe("accepted");
  });
});

/** Mulberry32. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

test("in any order of messages no fence starts twice, no seat is taken twice, and every later beat lists what is held", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const next = random(seed);
    const pick = (n: number) => Math.floor(next() * n);
    const most = 1 + pick(3);
    let seats = most;
    let state = table(most);
    let now = 0;
    let latest: Beat = { boot: BOOT, n: 0 };
    const starts = new Map<number, Beat>();
    const over = new Set<number>();
    const stopped = new Set<number>();
    const working = new Set<number>();
    for (let step = 0; step < 60; step++) {
      const fence = 1 + pick(8);
      now += pick(500);
      switch (pick(6)) {
        case 0: {
          const answered = rules.offer(state, order(fence), now);
          state = answered.table;
          if (answered.offer.outcome !== "accepted") break;
          expect(over.has(fence) || stopped.has(fence)).toBe(false);
          expect(answered.offer.repeated).toBe(starts.has(fence));
          if (starts.has(fence)) expect(answered.offer.accepted.beat).toEqual(starts.get(fence));
          else {
            expect(working.size).toBeLessThan(seats);
            working.add(fence);
          }
          starts.set(fence, answered.offer.accepted.beat);
          break;
        }
        case 1:
          state = rules.stop(state, execution(fence), now);
          stopped.add(fence);
          break;
        case 2:
          state = rules.ended(state, execution(fence));
          working.delete(fence);
          break;
        case 3:
          if (working.has(fence) || !starts.has(fence)) break;
          state = rules.acknowledged(state, execution(fence), now);
          over.add(fence);
          break;
        case 4:
          seats = pick(most + 1);
          state = rules.setSeats(state, seats);
          break;
        default: {
          const taken = rules.beat(state, now);
          state = taken.table;
          const { beat, held } = taken.heartbeat;
          expect(taken.heartbeat.seats).toBe(seats);
          expect(beat && laterBeat(beat, latest)).toBe(true);
          latest = beat ?? latest;
          const listed = held.map((row) => row.fence);
          const expected = [...starts.keys()].filter((started) => !over.has(started));
          expect(new Set(listed)).toEqual(new Set(expected));
        }
      }
      expect(working.size).toBeLessThanOrEqual(most);
    }
  }
});
