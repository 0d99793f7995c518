import { describe, expect, test } from "vitest";
import { freed, NOW, openPool, placedIn, request, sync, ticket, Voice } from "./fixture.ts";

const A = "acc_a";
const needs = (classes: readonly string[], models: readonly string[] = []) => ({ needs: { classes, models } });
const where = (answer: { placed: readonly { runner: string }[] }) => answer.placed.map(({ runner }) => runner);
const fleet = () => [new Voice("one"), new Voice("two")] as const;

describe("a ticket", () => {
  test("goes to a runner that has all its classes", () => {
    const { pool } = openPool([new Voice("one"), new Voice("two", { classes: ["SaveImage", "KSampler"] })]);
    expect(where(sync(pool, A, { want: [ticket("j1", needs(["KSampler", "SaveImage"]))] }, NOW))).toEqual(["two"]);
  });

  test("goes to the least loaded", () => {
    const { pool } = openPool([new Voice("one", { seats: 4 }), new Voice("two", { seats: 2 })]);
    const want = ["j1", "j2", "j3", "j4", "j5", "j6"].map((job) => ticket(job));
    const runners = where(sync(pool, A, { want }, NOW));
    expect(runners.slice(0, 3).sort()).toEqual(["one", "one", "two"]);
    expect(runners.filter((name) => name === "one")).toHaveLength(4);
  });

  test("goes where its models ran last, before the least loaded", () => {
    const [one, two] = fleet();
    const { pool } = openPool([one, two]);
    const model = needs(["SaveImage"], ["sd.safetensors"]);
    sync(pool, A, { want: [ticket("j1", { ...model, avoid: ["one"] })] }, NOW);
    expect(where(sync(pool, A, { want: [ticket("j2", model)] }, NOW))).toEqual(["two"]);
    sync(pool, A, { freed: [freed("j1", "two"), freed("j2", "two")] }, NOW);
    expect(where(sync(pool, A, { want: [ticket("j3", model)] }, NOW))).toEqual(["two"]);
  });

  test("avoids a runner while another one is open, and only then", () => {
    const { pool } = openPool(fleet());
    const avoid = { avoid: ["one"] };
    const want = ["j1", "j2", "j3"].map((job) => ticket(job, avoid));
    expect(where(sync(pool, A, { want }, NOW))).toEqual(["two", "two", "one"]);
  });

  test("never goes to a runner that it excludes", () => {
    const { pool } = openPool([new Voice("one")]);
    expect(sync(pool, A, { want: [ticket("j1", { exclude: ["one"] })] }, NOW).placed).toEqual([]);
  });

  test("of the higher priority goes first, then the oldest", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    sync(pool, A, { want: [ticket("j0")] }, NOW);
    const want = [
      ticket("young", { created_at: NOW + 2 }),
      ticket("old", { created_at: NOW + 1 }),
      ticket("high", { created_at: NOW + 3, priority: 1 }),
    ];
    sync(pool, A, { want }, NOW);
    const order: string[] = [];
    for (let job = "j0"; order.length < 3; job = order.at(-1) ?? "") {
      order.push(...placedIn(sync(pool, A, { freed: [freed(job, "one")] }, NOW)));
    }
    expect(order).toEqual(["high", "old", "young"]);
  });

  test("that no open runner can serve does not hold up those behind it", () => {
    const { pool } = openPool([new Voice("one")]);
    const want = [ticket("alien", { priority: 5, ...needs(["Unheard"]) }), ticket("j1")];
    expect(placedIn(sync(pool, A, { want }, NOW))).toEqual(["j1"]);
  });
});

describe("an impossible ticket", () => {
  test("is one whose classes no active runner has, be they free or not", () => {
    const one = new Voice("one", { seats: 1 });
    const { pool } = openPool([one]);
    const want = [ticket("j1"), ticket("j2"), ticket("alien", needs(["Unheard"]))];
    const answer = sync(pool, A, { want }, NOW);
    expect(placedIn(answer)).toEqual(["j1"]);
    expect(answer.impossible).toEqual([{ job: "alien", fence: 1, hopeless: true }]);
  });

  test("is hopeless where no enrolled runner is left that it does not exclude", () => {
    const { pool } = openPool([new Voice("one"), new Voice("two", { classes: ["KSampler"] })]);
    const want = [ticket("j1", { exclude: ["one"] }), ticket("j2", { exclude: ["one", "two"], ...needs(["Unheard"]) })];
    expect(sync(pool, A, { want }, NOW).impossible).toEqual([
      { job: "j1", fence: 1, hopeless: true },
      { job: "j2", fence: 1, hopeless: true },
    ]);
  });

  test("is not hopeless while another runner is only lost", () => {
    const voices = [new Voice("one"), new Voice("two"), new Voice("three")];
    const { pool } = openPool(voices);
    for (const voice of voices.slice(0, 2)) voice.beat(pool, NOW + 14_000);
    pool.tick(NOW + 15_000);
    const want = [ticket("j1", { exclude: ["one", "two"] })];
    expect(sync(pool, A, { want }, NOW + 15_000).impossible).toEqual([{ job: "j1", fence: 1, hopeless: false }]);
    pool.revoke("three", NOW + 15_000);
    expect(sync(pool, A, { want }, NOW + 15_000).impossible).toEqual([{ job: "j1", fence: 1, hopeless: true }]);
  });

  test("stays, and is placed when a runner comes that can serve it", () => {
    const { pool } = openPool([new Voice("one")]);
    sync(pool, A, { want: [ticket("alien", needs(["KSampler"]))] }, NOW);
    const two = new Voice("two", { classes: ["KSampler"] });
    pool.enrol({ ...(pool.runners.get("one")?.entry ?? missing()), runner_id: "two", jkt: "jkt-two", boot: 0 });
    two.beat(pool, NOW + 1_000);
    expect(placedIn(pool.takeNews().get(A))).toEqual(["alien"]);
  });
});

function missing(): never {
  throw new Error("The runner is not enrolled.");
}

test("an answer names no ticket of an earlier request as impossible", () => {
  const { pool } = openPool([new Voice("one")]);
  sync(pool, A, { want: [ticket("alien", needs(["Unheard"]))] }, NOW);
  expect(pool.sync(request(A), NOW).impossible).toEqual([]);
});
