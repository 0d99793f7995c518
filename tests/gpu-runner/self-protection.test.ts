import { afterEach, describe, expect, test, vi } from "vitest";
import { RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { anExecution, type FakeEdge } from "../fakes/edge.ts";
import { aRunner, untilInterrupted } from "./harness.ts";

/** What a runner holds against any number of requests, whoever signs them. */

afterEach(() => {
  vi.useRealTimers();
});

/** Time for whatever was started to show. */
async function twoBeats(edge: FakeEdge): Promise<void> {
  const beats = edge.beats.length;
  await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 1));
}

describe("seats", () => {
  test("take as many executions at once as there are, out of any number that come together", async () => {
    const { edge, url, engine } = await aRunner(untilInterrupted, { seats: 2 });
    const answers = await Promise.all(Array.from({ length: 12 }, () => edge.dispatch(url, anExecution())));
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([202, 202, ...Array.from({ length: 10 }, () => 429)]);
    await twoBeats(edge);
    expect(engine.prompts).toHaveLength(2);
  });

  test("are no more than the enrolment allows, whatever the operator of the machine asks for", async () => {
    const { edge, url, runner } = await aRunner(untilInterrupted, { seats: 8 });
    expect(runner.seats).toBe(4);
    await vi.waitFor(() => expect(edge.beats.at(-1)?.seats).toBe(4));
    const answers = await Promise.all(Array.from({ length: 8 }, () => edge.dispatch(url, anExecution())));
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(4);
  });

  test("are taken by one run of a fence, however many dispatches of it come together", async () => {
    const { edge, url, engine } = await aRunner(untilInterrupted, { seats: 4 });
    const execution = anExecution();
    const answers = await Promise.all(Array.from({ length: 8 }, () => edge.dispatch(url, execution)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const beats = (await Promise.all(answers.map((answer) => answer.json()))) as { beat: unknown }[];
    for (const { beat } of beats) expect(beat).toEqual(beats[0]?.beat);
    await twoBeats(edge);
    expect(engine.prompts).toHaveLength(1);
    expect((await edge.dispatch(url, { ...execution, fence: 2 })).status).toBe(202);
    await vi.waitFor(() => expect(engine.prompts).toHaveLength(2));
  });

  test("are not taken by a fence that has ended, also when its dispatches and its stop come together", async () => {
    const { edge, url, engine } = await aRunner(untilInterrupted, { seats: 4 });
    const execution = anExecution();
    const stop = () => edge.post(url, RUNNER_PATHS.stops, JSON.stringify(execution));
    await Promise.all([edge.dispatch(url, execution), stop(), edge.dispatch(url, execution), stop()]);
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]));
    expect((await edge.dispatch(url, execution)).status).toBe(410);
    expect(engine.prompts.length).toBeLessThan(2);
  });
});

describe("the deadline of an execution", () => {
  test("is kept by a clock that nobody sets: not brought near by a wall clock that jumps ahead", async () => {
    const { edge, url } = await aRunner(untilInterrupted);
    await edge.dispatch(url, anExecution(), { timeout_ms: 60_000 });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 86_400_000 });
    const beats = edge.beats.length;
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 3));
    expect(edge.ends).toEqual([]);
    expect(edge.beats.at(-1)?.held[0]?.running_ms).toBeLessThan(30_000);
  });

  test("and not put off by one that is set back", async () => {
    const { edge, url } = await aRunner(untilInterrupted);
    await edge.dispatch(url, anExecution(), { timeout_ms: 300 });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 86_400_000 });
    await vi.waitFor(() => expect(edge.ends).toMatchObject([{ outcome: "failed", error: { code: "timeout" } }]), {
      timeout: 3_000,
    });
  });

  test("is each execution's own", async () => {
    const { edge, url } = await aRunner(untilInterrupted, { seats: 2 });
    await edge.dispatch(url, anExecution(), { timeout_ms: 60_000 });
    const [short, long] = [anExecution(), anExecution()];
    await edge.dispatch(url, short, { timeout_ms: 50 });
    await vi.waitFor(() => expect(edge.ends).toHaveLength(1), { timeout: 3_000 });
    expect((await edge.dispatch(url, long)).status).toBe(202);
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toHaveLength(2));
  });
});
