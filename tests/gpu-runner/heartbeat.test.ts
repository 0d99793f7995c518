import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { aRunner, untilInterrupted } from "./harness.ts";

describe("heartbeats", () => {
  test("begin without a number and with a description, and are numbered in the boot they were given", async () => {
    const { edge } = await aRunner(untilInterrupted);
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(3));
    const [first, ...others] = edge.beats;
    expect(first?.beat).toBeUndefined();
    expect(first?.describe).toMatchObject({ engine: { name: "scripted", version: "1" }, classes: ["KSampler"] });
    expect(others.map((beat) => beat.beat)).toEqual(others.map((_, i) => ({ boot: edge.boot(), n: i + 1 })));
    expect(others.every((beat) => beat.describe === undefined)).toBe(true);
  });

  test("name their process, the same in all of them and another in another process", async () => {
    const names = await Promise.all(
      [0, 1].map(async () => {
        const { edge } = await aRunner(untilInterrupted);
        await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(2));
        return new Set(edge.beats.map(({ process }) => process));
      }),
    );
    expect(names.map((set) => set.size)).toEqual([1, 1]);
    expect(names[0]).not.toEqual(names[1]);
  });

  test("pass on an operator's order to drain, and the last one says goodbye", async () => {
    const { edge, runner } = await aRunner(untilInterrupted);
    edge.answers.heartbeat = () => ({ drain: true });
    await runner.drainOrdered;
    expect(edge.beats.some(({ leaving }) => leaving)).toBe(false);
    await runner.drain();
    expect(edge.beats.at(-1)).toMatchObject({ draining: true, leaving: true, held: [] });
  });

  test("describe again when asked to", async () => {
    const { edge } = await aRunner(untilInterrupted);
    const asked = edge.beats.length;
    edge.answers.heartbeat = () => ({ describe: edge.beats.length === asked + 1 });
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(asked + 2));
    expect(edge.beats[asked]?.describe).toBeUndefined();
    expect(edge.beats[asked + 1]?.describe).toBeDefined();
    expect(edge.beats[asked + 2]?.describe).toBeUndefined();
  });

  test("go on through an outage, with one line in the log for it and one for its end", async () => {
    const { edge, log } = await aRunner(untilInterrupted);
    edge.answers.heartbeat = () => "lost";
    const before = edge.beats.length;
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(before + 5));
    edge.answers.heartbeat = () => ({});
    await vi.waitFor(() => expect(log.join("")).toContain("answers again"));
    expect(log.filter((line) => line.includes("does not take the heartbeat"))).toHaveLength(1);
  });

  test("store a fresh credential and use it from then on", async () => {
    const { edge, data } = await aRunner(untilInterrupted);
    const stored = async () => JSON.parse(await readFile(join(data, "identity.json"), "utf8")).enrolment.credential;
    const old = await stored();
    edge.answers.heartbeat = () => ({ credential: "not.a.credential" });
    await vi.waitFor(async () => expect(await stored()).toBe("not.a.credential"));
    expect(old).not.toBe("not.a.credential");
    // The fake knows no such credential: it refuses what is sent with it.
    await vi.waitFor(() => expect(edge.refused.length).toBeGreaterThan(0));
  });

  test("that are answered as revoked end, and nothing new is taken", async () => {
    const { edge, runner, url, log } = await aRunner(untilInterrupted);
    edge.answers.heartbeat = () => ({ status: 403, body: { error: { code: "revoked", message: "by an operator" } } });
    expect(await runner.revoked).toBe("by an operator");
    const beats = edge.beats.length;
    expect(log.join("")).toContain("revoked this runner: by an operator");
    expect((await edge.dispatch(url, { account: "acc_00000000000000000000", job: jobId, fence: 1 })).status).toBe(503);
    await runner.drain();
    expect(edge.beats).toHaveLength(beats);
  });
});

describe("a runner that was revoked while it was away", () => {
  const gone = { status: 403, body: { error: { code: "revoked", message: "by an operator" } } };

  test("enrols anew where its operator gave it a token", async () => {
    const first = await aRunner(untilInterrupted);
    await first.runner.close();
    let refused = 0;
    first.edge.answers.heartbeat = () => (refused++ === 0 ? gone : {});
    const again = await aRunner(untilInterrupted, { edge: first.edge, data: first.data, port: portOf(first.url) });
    expect(again.log.join("")).toContain("enrolling anew");
    expect(first.edge.enrolments).toHaveLength(2);
  });

  test("does not start otherwise", async () => {
    const first = await aRunner(untilInterrupted);
    await first.runner.close();
    first.edge.answers.heartbeat = () => gone;
    const again = aRunner(untilInterrupted, { edge: first.edge, data: first.data, port: portOf(first.url), token: "" });
    await expect(again).rejects.toThrow("the edge has revoked this runner");
  });
});

const portOf = (url: string): number => Number(new URL(url).port);
const jobId = "01890a5d-ac96-774b-bcce-b302099a8057";
