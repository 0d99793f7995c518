import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { laterBeat, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { anExecution, type FakeEdge } from "../fakes/edge.ts";
import { anEdge, anOutput, aRunner, completed, untilInterrupted } from "./harness.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** The one end report, as soon as there is one and its execution has left the list of the beats. */
async function theEnd(edge: FakeEdge) {
  await vi.waitFor(() => expect(edge.ends.length).toBeGreaterThan(0), { timeout: 3000 });
  await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]), { timeout: 3000 });
  return edge.ends.at(-1);
}

describe("a run that succeeds", () => {
  test("uploads each output with its length and digest, reports them in order, and leaves nothing behind", async () => {
    const files = [randomBytes(300_000), randomBytes(0), randomBytes(17)];
    const outputs = files.map((bytes, index) => anOutput(bytes, { index, filename: `${index}.png` }));
    const { edge, url, data } = await aRunner(async () => completed(...outputs));
    const execution = anExecution();
    await edge.dispatch(url, execution);
    const end = await theEnd(edge);
    expect(end).toMatchObject({ outcome: "completed", times: { download_ms: 3, execution_ms: 12 } });
    if (end?.outcome !== "completed") throw new Error("not completed");
    expect(end.outputs.map((file) => file.sha256)).toEqual(files.map(sha256));
    for (const [n, bytes] of files.entries()) {
      const upload = edge.uploads.find((one) => one.n === n);
      expect(upload?.bytes.equals(bytes)).toBe(true);
      expect(upload?.content_length).toBe(String(bytes.length));
      expect(upload?.description).toEqual(end.outputs[n]);
    }
    expect(await readdir(join(data, "scratch"))).toEqual([]);
    expect(edge.refused).toEqual([]);
  });

  test("states in every message a beat that each later list contains", async () => {
    const finish = Promise.withResolvers<void>();
    const { edge, url } = await aRunner(async () => {
      await finish.promise;
      return completed(anOutput("x"));
    });
    const execution = anExecution();
    const response = await edge.dispatch(url, execution);
    const { beat } = (await response.json()) as { beat: { boot: number; n: number } };
    const listing = () => edge.beats.filter((one) => one.beat && laterBeat(one.beat, beat));
    await vi.waitFor(() => expect(listing().length).toBeGreaterThan(1));
    for (const { held } of listing()) expect(held).toMatchObject([execution]);
    finish.resolve();
    expect((await theEnd(edge))?.beat).toEqual(beat);
    expect(edge.progress[0]?.beat).toEqual(beat);
  });
});

describe("uploads", () => {
  test("that fail for a while are repeated", async () => {
    const { edge, url } = await aRunner(async () => completed(anOutput("x")));
    edge.answers.upload = () => (edge.uploads.length < 3 ? { status: 503 } : { status: 201 });
    await edge.dispatch(url, anExecution());
    expect(await theEnd(edge)).toMatchObject({ outcome: "completed" });
    expect(edge.uploads).toHaveLength(3);
  });

  test("that never succeed fail the job after five tries", async () => {
    const { edge, url } = await aRunner(async () => completed(anOutput("x")));
    edge.answers.upload = () => "lost";
    await edge.dispatch(url, anExecution());
    expect(await theEnd(edge)).toMatchObject({ outcome: "failed", error: { code: "output_upload_failed" } });
    expect(edge.uploads).toHaveLength(5);
  });

  test.each([404, 409, 410])("that are answered %i end the run without a report", async (status) => {
    const { edge, url, log } = await aRunner(async () => completed(anOutput("x")));
    edge.answers.upload = () => ({ status });
    await edge.dispatch(url, anExecution());
    await vi.waitFor(() => expect(log.join("")).toContain("ended: fenced"));
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]));
    expect([edge.uploads.length, edge.ends.length]).toEqual([1, 0]);
  });

  test("of more files or bytes than a job may have are not begun", async () => {
    const limits = { files: 2, bytes: 10 };
    for (const outputs of [
      ["a", "b", "c"],
      ["123456", "12345"],
    ]) {
      const { edge, url } = await aRunner(async () => completed(...outputs.map((text) => anOutput(text))), { limits });
      await edge.dispatch(url, anExecution());
      expect(await theEnd(edge)).toMatchObject({ outcome: "failed", error: { code: "outputs_too_large" } });
      expect(edge.uploads).toEqual([]);
    }
  });

  test("of a file beyond one request fail with the limit in the message", async () => {
    const block = new Uint8Array(1024 * 1024);
    const open = async function* () {
      for (let n = 0; n < 65; n++) yield block;
    };
    const { edge, url } = await aRunner(async () => completed(anOutput("", { open })));
    await edge.dispatch(url, anExecution());
    const end = await theEnd(edge);
    expect(end).toMatchObject({ outcome: "failed", error: { code: "output_upload_failed" } });
    expect(JSON.stringify(end)).toContain(String(64 * 1024 * 1024));
    expect(edge.uploads).toEqual([]);
  });
});

describe("the end report", () => {
  test("is repeated through lost answers and faults, and the execution is listed until then", async () => {
    const { edge, url } = await aRunner(async () => completed(anOutput("x")));
    let fault = true;
    edge.answers.end = () => (edge.ends.length === 1 ? "lost" : { status: fault ? 500 : 200 });
    const execution = anExecution();
    await edge.dispatch(url, execution);
    await vi.waitFor(() => expect(edge.ends.length).toBeGreaterThan(2));
    const beats = edge.beats.length;
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 1));
    expect(edge.beats.at(-1)?.held).toMatchObject([execution]);
    fault = false;
    await theEnd(edge);
    expect((await edge.dispatch(url, execution)).status).toBe(410);
  });

  test.each([404, 409, 410])("is not repeated after %i", async (status) => {
    const { edge, url } = await aRunner(async () => completed(anOutput("x")));
    edge.answers.end = () => ({ status });
    await edge.dispatch(url, anExecution());
    await theEnd(edge);
    expect(edge.ends).toHaveLength(1);
  });

  test("is repeated after another refusal until the lease has expired", async () => {
    const { edge, url } = await aRunner(async () => completed(anOutput("x")));
    edge.answers.end = () => ({ status: 403 });
    const valid = anExecution();
    await edge.dispatch(url, valid);
    await vi.waitFor(() => expect(edge.ends.length).toBeGreaterThan(3));
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toMatchObject([valid]));

    edge.answers.end = () => ({ status: 200 });
    await theEnd(edge);
    const expired = anExecution();
    await edge.dispatch(url, expired, { lease_s: -10 });
    await vi.waitFor(() => expect(edge.refused.some((line) => line.startsWith("/runners/end"))).toBe(true));
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]));
  });

  test("of an engine's failure carries its words", async () => {
    const error = {
      code: "execution_failed",
      message: "the node raised",
      node_id: "3",
      details: { type: "ValueError" },
    };
    const failure = { ok: false, reason: "failed", error, execution_ms: 5 } as const;
    const { edge, url } = await aRunner(async () => ({ ...failure, error: { ...error, code: "execution_failed" } }));
    await edge.dispatch(url, anExecution());
    expect(await theEnd(edge)).toMatchObject({ outcome: "failed", error, times: { execution_ms: 5 } });
  });

  test("of a fault of the host says nothing of it, and the next job runs", async () => {
    const { edge, url, log, engine } = await aRunner(async () => {
      if (engine.prompts.length === 1) throw new Error("ENOSPC: /secret/path");
      return completed(anOutput("x"));
    });
    await edge.dispatch(url, anExecution());
    const end = await theEnd(edge);
    expect(end).toMatchObject({ outcome: "failed", error: { code: "internal_error" } });
    expect(JSON.stringify(end)).not.toContain("ENOSPC");
    expect(log.join("")).toContain("ENOSPC");
    await edge.dispatch(url, anExecution());
    await vi.waitFor(() => expect(edge.ends.at(-1)).toMatchObject({ outcome: "completed" }));
  });

  test("of a run without outputs is no_outputs", async () => {
    const { edge, url } = await aRunner(async () => completed());
    await edge.dispatch(url, anExecution());
    expect(await theEnd(edge)).toMatchObject({ outcome: "failed", error: { code: "no_outputs" } });
  });
});

describe("progress", () => {
  test("is reported without news too, so that an execution that lost its fence is stopped however silent its engine", async () => {
    const { edge, url, engine } = await aRunner(untilInterrupted, { timings: { progress_idle_ms: 50 } });
    await edge.dispatch(url, anExecution());
    await vi.waitFor(() => expect(edge.progress.length).toBeGreaterThan(2), { timeout: 3000 });
    edge.answers.progress = () => ({ fenced: true, next_in_ms: 100 });
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]), { timeout: 3000 });
    expect(engine.prompts).toHaveLength(1);
    expect(edge.ends).toEqual([]);
  });

  test("is sent at the pace that the edge's answers set, with the engine's latest word", async () => {
    const { edge, url } = await aRunner((options) => {
      options.onProgress({ value: 0.25, node_id: "3" });
      options.onProgress({ value: 0.5, node_id: "3", step: 10, steps: 20 });
      return untilInterrupted(options, "");
    });
    await edge.dispatch(url, anExecution());
    await vi.waitFor(() => expect(edge.progress).toHaveLength(1));
    expect(edge.progress[0]?.progress).toEqual({ value: 0.5, node_id: "3", step: 10, steps: 20 });
    const beats = edge.beats.length;
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 2));
    expect(edge.progress).toHaveLength(1);
  });

  test("that is answered as fenced stops the engine, and no end is reported", async () => {
    const { edge, url, log } = await aRunner(untilInterrupted);
    edge.answers.progress = () => ({ fenced: true, next_in_ms: 100 });
    await edge.dispatch(url, anExecution());
    await vi.waitFor(() => expect(log.join("")).toContain("ended: fenced"));
    await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toEqual([]));
    expect([edge.progress.length, edge.ends.length]).toEqual([1, 0]);
    expect((await edge.dispatch(url, anExecution())).status).toBe(202);
  });
});

describe("what ends a run early", () => {
  test("is its time-out, by the runner's own clock", async () => {
    const { edge, url } = await aRunner(untilInterrupted);
    await edge.dispatch(url, anExecution(), { timeout_ms: 30 });
    expect(await theEnd(edge)).toMatchObject({
      outcome: "failed",
      error: { code: "timeout" },
      times: { execution_ms: 30 },
    });
  });

  test("is a posted stop, which is reported when the engine is idle", async () => {
    const idle = Promise.withResolvers<void>();
    const { edge, url } = await aRunner(async (options, prompt) => {
      const result = await untilInterrupted(options, prompt);
      await idle.promise;
      return result;
    });
    const execution = anExecution();
    await edge.dispatch(url, execution);
    await edge.post(url, RUNNER_PATHS.stops, JSON.stringify(execution));
    const beats = edge.beats.length;
    await vi.waitFor(() => expect(edge.beats.length).toBeGreaterThan(beats + 1));
    expect(edge.beats.at(-1)?.held).toMatchObject([execution]);
    expect(edge.ends).toEqual([]);
    expect((await edge.dispatch(url, execution)).status).toBe(410);
    idle.resolve();
    expect(await theEnd(edge)).toMatchObject({ outcome: "stopped" });
  });

  test("is the stop list in a beat's answer", async () => {
    const { edge, url } = await aRunner(untilInterrupted);
    const execution = anExecution();
    edge.answers.heartbeat = ({ held }) => (held.length > 0 ? { stop: [execution] } : {});
    await edge.dispatch(url, execution);
    expect(await theEnd(edge)).toMatchObject({ outcome: "stopped" });
  });
});

describe("a drain", () => {
  test("lets a running job finish within the grace period and takes nothing new", async () => {
    const finish = Promise.withResolvers<void>();
    const { edge, url, runner, engine } = await aRunner(
      async () => {
        await finish.promise;
        return completed(anOutput("x"));
      },
      { seats: 2, grace_ms: 5000 },
    );
    await edge.dispatch(url, anExecution());
    const drained = runner.drain();
    await vi.waitFor(() => expect(edge.beats.at(-1)?.draining).toBe(true));
    expect((await edge.dispatch(url, anExecution())).status).toBe(503);
    finish.resolve();
    await drained;
    expect(edge.ends).toMatchObject([{ outcome: "completed" }]);
    expect(edge.beats.at(-1)).toMatchObject({ draining: true, held: [] });
    expect(engine.closed).toBe(true);
  });

  test("gives back what does not finish in time", async () => {
    const { edge, url, runner } = await aRunner(untilInterrupted, { grace_ms: 20 });
    await edge.dispatch(url, anExecution());
    await runner.drain();
    expect(edge.ends).toMatchObject([{ outcome: "handed_back" }]);
    expect(edge.beats.at(-1)).toMatchObject({ draining: true, held: [] });
  });
});

test("a process that follows a killed one gets a new boot, holds nothing, and removes what was left on disk", async () => {
  const edge = await anEdge();
  const first = await aRunner(untilInterrupted, { edge });
  await edge.dispatch(first.url, anExecution());
  await first.runner.close();
  await mkdir(join(first.data, "scratch", "left.1"), { recursive: true });
  await writeFile(join(first.data, "scratch", "left.1", "0"), "x");
  const boot = edge.boot();
  const second = await aRunner(untilInterrupted, { edge, data: first.data, port: Number(new URL(first.url).port) });
  expect(edge.boot()).toBe(boot + 1);
  expect(edge.enrolments).toHaveLength(1);
  expect(await readdir(join(second.data, "scratch"))).toEqual([]);
  expect(edge.beats.at(-1)?.held).toEqual([]);
  expect((await edge.dispatch(second.url, anExecution(), { boot })).status).toBe(409);
});
