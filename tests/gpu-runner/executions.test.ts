import { expect, test } from "vitest";
import { createExecutions } from "../../gpu-runner/executions.ts";
import { createLog } from "../../gpu-runner/log.ts";
import type { Run } from "../../gpu-runner/run.ts";

function executions(seats: number) {
  let told = 0;
  const log: string[] = [];
  const forever: Run = { settled: new Promise(() => {}), stop() {}, abandon() {} };
  const made = createExecutions({
    seats,
    start: () => forever,
    seatsChanged: () => told++,
    log: createLog((line) => log.push(line)),
    now: () => 0,
  });
  made.beatAnswered(1);
  const order = (fence: number) => ({
    account: "acc_00000000000000000000",
    job: "01890a5d-ac96-774b-bcce-b302099a8057",
    fence,
    boot: 1,
    timeout_ms: 1_000,
    lease: "",
  });
  return { made, log, told: () => told, offer: (fence: number) => made.offer(order(fence), "{}").outcome };
}

test("another number of seats is told at once, the same number is not", () => {
  const { made, log, told } = executions(3);
  made.setSeats(3);
  expect(told()).toBe(0);
  made.setSeats(1);
  made.setSeats(1);
  made.setSeats(0);
  expect(told()).toBe(2);
  made.setSeats(9);
  made.setSeats(10);
  expect(told()).toBe(3);
  expect(made.beat().seats).toBe(3);
  expect(log.join("")).toContain("offers 1 of 3 seats");
});

test("what runs keeps its place when seats go away, and is still answered", () => {
  const { made, offer } = executions(2);
  expect([offer(1), offer(2)]).toEqual(["accepted", "accepted"]);
  made.setSeats(0);
  expect([offer(1), offer(3)]).toEqual(["accepted", "full"]);
  expect(made.beat()).toMatchObject({ seats: 0, held: [{ fence: 1 }, { fence: 2 }] });
  made.setSeats(2);
  expect(offer(3)).toBe("full");
});
