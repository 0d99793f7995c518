import { describe, expect, test, vi } from "vitest";
import { anExecution } from "../fakes/edge.ts";
import { anOutput, aRunner, completed, type Setup, untilInterrupted } from "./harness.ts";

/** What an engine says of itself while it runs, and what the fleet hears of it. */

/** Beats are told at once: nothing here waits for the next regular one. */
const rarely = (setup: Setup) => {
  setup.edge.answers.heartbeat = () => ({ next_in_ms: 12_000 });
};
const seatsHeard = ({ edge }: Setup) => edge.beats.at(-1)?.seats;
const KSAMPLER = { name: "scripted", version: "1", classes: ["KSampler"], models: [] };

async function settled(options: Parameters<typeof aRunner>[1]): Promise<Setup> {
  const setup = await aRunner(untilInterrupted, options);
  rarely(setup);
  const before = setup.edge.beats.length;
  await vi.waitFor(() => expect(setup.edge.beats.length).toBeGreaterThan(before));
  return setup;
}

describe("seats", () => {
  test("are what the engine says from the first beat on, none included; the most stays what it was", async () => {
    const { edge, runner } = await aRunner(untilInterrupted, { seats: 3, engine_seats: 0 });
    expect(edge.beats[0]?.seats).toBe(0);
    expect(runner.seats).toBe(3);
  });

  test("are as configured where the engine says nothing of them", async () => {
    const { edge } = await aRunner(untilInterrupted, { seats: 3 });
    expect(edge.beats[0]?.seats).toBe(3);
  });

  test("that change are told at once, within what configuration and enrolment allow", async () => {
    // The fake edge enrols for four.
    const setup = await settled({ seats: 6, engine_seats: 1 });
    const beats = setup.edge.beats.length;
    setup.engine.watcher?.seats(0);
    await vi.waitFor(() => expect(seatsHeard(setup)).toBe(0));
    setup.engine.watcher?.seats(6);
    await vi.waitFor(() => expect(seatsHeard(setup)).toBe(4));
    setup.engine.watcher?.seats(4);
    setup.engine.watcher?.seats(5);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(setup.edge.beats.length).toBe(beats + 2);
    expect(setup.edge.refused).toEqual([]);
  });

  test("that are gone refuse new work and leave alone what runs", async () => {
    const finish = Promise.withResolvers<void>();
    const { edge, engine, url } = await aRunner(
      async () => {
        await finish.promise;
        return completed(anOutput("x"));
      },
      { seats: 2, engine_seats: 2 },
    );
    const execution = anExecution();
    expect((await edge.dispatch(url, execution)).status).toBe(202);
    engine.watcher?.seats(0);
    expect((await edge.dispatch(url, anExecution())).status).toBe(429);
    await vi.waitFor(() => expect(edge.beats.at(-1)).toMatchObject({ seats: 0, held: [execution] }));
    finish.resolve();
    await vi.waitFor(() => expect(edge.ends).toMatchObject([{ outcome: "completed" }]));
    engine.watcher?.seats(1);
    expect((await edge.dispatch(url, anExecution())).status).toBe(202);
  });
});

describe("a description that changes", () => {
  test("goes with the next beat, at once and once", async () => {
    const setup = await settled({ engine_seats: 1 });
    const { edge, engine } = setup;
    const closed = [
      { group: "a-pack", classes: ["Closed"], reason: "Nobody has opened it.", opened_by: "OPEN=a-pack" },
    ];
    engine.description = { ...KSAMPLER, classes: ["KSampler", "Later"], closed };
    engine.watcher?.described();
    await vi.waitFor(() =>
      expect(edge.beats.at(-1)?.describe).toMatchObject({ classes: ["KSampler", "Later"], closed }),
    );
    engine.watcher?.seats(0);
    await vi.waitFor(() => expect(seatsHeard(setup)).toBe(0));
    expect(edge.beats.at(-1)?.describe).toBeUndefined();
  });

  test("is told again until the edge has taken it, and the latest of several counts", async () => {
    const { edge, engine } = await settled({ engine_seats: 1 });
    const before = edge.beats.length;
    edge.answers.heartbeat = () => (edge.beats.length < before + 3 ? "lost" : { next_in_ms: 12_000 });
    for (const name of ["One", "Two", "Three"]) {
      engine.description = { ...KSAMPLER, classes: [name] };
      engine.watcher?.described();
    }
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThanOrEqual(before + 3));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const told = edge.beats.slice(before).map(({ describe }) => describe?.classes[0]);
    expect(told.slice(0, 3).every((name) => name !== undefined)).toBe(true);
    expect(told.findLast((name) => name !== undefined)).toBe("Three");
  });

  test("is not told where it says the same", async () => {
    const { edge, engine } = await settled({ engine_seats: 1 });
    const before = edge.beats.length;
    engine.description = { ...KSAMPLER };
    engine.watcher?.described();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(edge.beats).toHaveLength(before);
  });

  test("stays the last one where the engine can't say it", async () => {
    const { edge, engine, log } = await settled({ engine_seats: 1 });
    engine.description = new Error("the server does not answer");
    engine.watcher?.described();
    await vi.waitFor(() => expect(log.join("")).toContain("its last description stands: the server does not answer"));
    edge.answers.heartbeat = () => ({ describe: true });
    engine.watcher?.seats(0);
    await vi.waitFor(() => expect(edge.beats.at(-1)?.describe).toMatchObject({ classes: ["KSampler"] }));
  });

  test("before the first answer waits for it: a repeated first beat says what the first one did", async () => {
    const starting = await aRunner(untilInterrupted, { engine_seats: 1 });
    await starting.runner.close();
    const { edge } = starting;
    const before = edge.beats.length;
    edge.answers.heartbeat = () => (edge.beats.length < before + 3 ? "lost" : { next_in_ms: 12_000 });
    const port = Number(new URL(starting.url).port);
    const again = aRunner(untilInterrupted, {
      edge,
      data: starting.data,
      port,
      engine_seats: 1,
      prepare(engine) {
        void vi
          .waitFor(() => expect(edge.beats.length).toBeGreaterThan(before))
          .then(() => {
            engine.description = { ...KSAMPLER, classes: ["Later"] };
            engine.watcher?.described();
          });
      },
    });
    await again;
    await vi.waitFor(() => expect(edge.beats.at(-1)).toMatchObject({ beat: {}, describe: { classes: ["Later"] } }));
    const firsts = edge.beats.slice(before).filter(({ beat }) => beat === undefined);
    expect(firsts.length).toBeGreaterThan(2);
    expect(new Set(firsts.map(({ describe }) => describe?.classes.join()))).toEqual(new Set(["KSampler"]));
  });
});
