import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import type { EnginePreview } from "../../../gpu-runner/engine.ts";
import { createClient } from "../../../gpu-runner/engines/comfyui/client.ts";
import { type FakeComfyui, type FakeComfyuiOptions, startFakeComfyui } from "../../fakes/comfyui/server.ts";
import {
  freshImage,
  pictureOf,
  saveImage,
  serveFiles,
  type Subject,
  type SubjectOptions,
  startSubject,
  until,
} from "./subject.ts";

/** What a ComfyUI server does to those who drive it, row by row: its races, its damages, its ends. */

const ALLOW = "core,recorder_nodes,videohelper";

let fake: FakeComfyui;
let subject: Subject;

async function start(options: FakeComfyuiOptions = {}, settings: Partial<SubjectOptions> = {}): Promise<void> {
  fake = await startFakeComfyui(options);
  const { url, folder } = fake;
  subject = await startSubject({ allow: ALLOW, servers: [{ url, folder }], ...settings });
  onTestFinished(async () => {
    await subject.close();
    await fake.close();
  });
  await subject.engine.describe();
}

const test = (class_type: string, inputs: object = {}) => ({ class_type, inputs: { image: ["1", 0], ...inputs } });
const steps = (count: number, step_ms: number, preview = false) => test("TestSlow", { steps: count, step_ms, preview });
const through = (node: object) => ({ 1: freshImage(), 2: node, 3: saveImage("2") });
const quick = () => ({ 1: freshImage(), 2: saveImage("1") });
const brief = () => through(steps(4, 20));
const endless = () => through(steps(900, 20));
const isCancel = (path: string): boolean => /interrupt|cancel|queue/.test(path);

/** Starts a graph, waits until the server executes it, and lets the row act. */
async function inMidRun(graph: object, act: (abort: () => void) => Promise<void> | void) {
  const controller = new AbortController();
  const running = subject.run(graph, { signal: controller.signal });
  await until(() => fake.running() !== undefined, "the prompt runs");
  await act(() => controller.abort());
  return running;
}

async function works(): Promise<void> {
  expect((await subject.run(quick())).outputs).toHaveLength(1);
}

afterEach(async () => {
  // Whatever happened, nothing is left in the end, of runs or of the gate's trials, where the server still is there.
  const left = () => [...fake.files().filter((file) => !file.startsWith("temp/")), ...fake.history()];
  await until(() => left().length === 0, "nothing is left").catch(() => expect(left()).toEqual([]));
});

describe("What is said, and when", () => {
  it("events that overtake the answer to the prompt lose nothing", async () => {
    await start();
    fake.knobs.replyDelay_ms = 150;
    await works();
  });

  it("a history that comes after the event of success is waited for", async () => {
    await start();
    fake.knobs.historyDelay_ms = 150;
    await works();
  });

  it.each([
    ["every message", () => true],
    ["the messages of the end", (type: string) => /^execution_success|^executing/.test(type)],
    ["messages of nodes", (type: string) => /^executed|^progress/.test(type)],
  ])("a run whose socket loses %s ends by polling", async (_, losesMessages) => {
    await start();
    fake.knobs.losesMessages = losesMessages;
    expect((await subject.run(brief())).outputs).toHaveLength(1);
  });

  it("messages that come late, after the run, are nobody's", async () => {
    await start();
    fake.knobs.delaysMessages_ms = 200;
    const told: number[] = [];
    await subject.run(quick(), { onProgress: ({ value }) => told.push(value) });
    const count = told.length;
    await works();
    expect(told).toHaveLength(count);
  });

  it("a socket that breaks in mid-run is opened again, with progress to the end", async () => {
    await start();
    const told: number[] = [];
    const controller = new AbortController();
    const running = subject.run(through(steps(30, 20)), {
      signal: controller.signal,
      onProgress: ({ step = 0 }) => told.push(step),
    });
    await until(() => told.some((step) => step > 1), "some steps were told");
    fake.dropSockets();
    expect((await running).outputs).toHaveLength(1);
    expect(told).toContain(30);
  });

  it("a server that takes no socket executes all the same", async () => {
    await start();
    fake.knobs.faults = (_, path) => (path === "/ws" ? { status: 403 } : undefined);
    await works();
  });

  it("each run has a client id of its own", async () => {
    await start();
    for (let n = 0; n < 3; n++) await works();
    const ids = fake.prompts.map(({ client_id }) => client_id);
    expect(ids).not.toContain(undefined);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it("numbers that JSON does not have are no fault", async () => {
    await start();
    const { outputs } = await subject.run({ ...quick(), 3: test("TestNaN") });
    expect(outputs).toHaveLength(1);
  });

  it("previews are offered with their node, at most two a second", async () => {
    await start();
    const previews: EnginePreview[] = [];
    const started = performance.now();
    await subject.run(through(steps(20, 20, true)), { onPreview: (preview) => previews.push(preview) });
    expect(previews.length).toBeGreaterThan(0);
    expect(previews.length).toBeLessThanOrEqual(1 + Math.ceil((performance.now() - started) / 500));
    expect(previews[0]).toMatchObject({ node_id: "2", content_type: "image/jpeg" });
    expect(Buffer.from(previews[0]?.bytes ?? []).subarray(0, 2)).toEqual(Buffer.from([0xff, 0xd8]));
  });
});

describe("A prompt's answer", () => {
  it("that is lost is looked for in the queue: the run goes on, once", async () => {
    await start();
    const before = fake.prompts.length;
    fake.knobs.faults = (method, path) => (method === "POST" && path === "/prompt" ? "reply lost" : undefined);
    expect((await subject.run(brief())).outputs).toHaveLength(1);
    expect(fake.prompts.length - before).toBe(1);
  });

  it("that never came, because the server did not act, is a crash and no second prompt", async () => {
    await start();
    const before = fake.prompts.length;
    fake.knobs.faults = (method, path) => (method === "POST" && path === "/prompt" ? "breaks" : undefined);
    expect((await subject.run(quick())).error).toMatchObject({ code: "engine_crashed" });
    expect(fake.prompts.length).toBe(before);
    fake.knobs.faults = () => undefined;
    await works();
  });

  it("of a proxy, that the server is away, is looked behind: the prompt runs", async () => {
    await start();
    let passed = false;
    fake.knobs.faults = (method, path) => {
      if (method !== "POST" || path !== "/prompt" || passed) return undefined;
      passed = true;
      return { status: 504, body: "Gateway Timeout" };
    };
    expect((await subject.run(quick())).error).toMatchObject({ code: "engine_crashed" });
    await works();
  });

  it("that never comes does not keep a stop waiting", async () => {
    await start();
    const controller = new AbortController();
    let sent = false;
    fake.knobs.faults = (method, path) => {
      if (method !== "POST" || path !== "/prompt") return undefined;
      sent = true;
      return "silence";
    };
    const running = subject.run(quick(), { signal: controller.signal });
    await until(() => sent, "the prompt was sent");
    controller.abort();
    expect((await running).result).toMatchObject({ ok: false, reason: "interrupted" });
    fake.knobs.faults = () => undefined;
    await works();
  });

  it("that refuses one output takes the other one back, also while that one works", async () => {
    await start();
    const { error } = await subject.run({ ...endless(), 9: { class_type: "SaveImage", inputs: { images: ["1", 0] } } });
    expect(error).toMatchObject({ code: "invalid_prompt", node_id: "9" });
    expect([fake.running(), fake.queued()]).toEqual([undefined, []]);
  });

  it("of 413 is a workflow that is too large", async () => {
    await start({ maxUploadSize_bytes: 4_000 });
    const text = { class_type: "PreviewAny", inputs: { source: "x".repeat(5_000) } };
    expect((await subject.run({ 1: text })).error).toMatchObject({ code: "invalid_prompt" });
    await works();
  });
});

describe("A server that goes away", () => {
  it("in mid-run, for good: the engine has crashed", async () => {
    await start();
    const { error } = await inMidRun(endless(), () => fake.die());
    expect(error).toMatchObject({ code: "engine_crashed" });
    expect(error.message).not.toContain("127.0.0.1");
  });

  it("in mid-run, and is back at once without its memory: the engine has crashed, and works again", async () => {
    await start();
    const { error } = await inMidRun(endless(), () => fake.restart());
    expect(error).toMatchObject({ code: "engine_crashed" });
    await works();
  });

  it("after the run and before its outputs were read: they are lost, and it says so", async () => {
    await start();
    const result = await subject.engine.run(JSON.stringify(quick()), {
      signal: new AbortController().signal,
      onProgress() {},
      scratch: "",
    });
    if (!result.ok) throw new Error(JSON.stringify(result));
    await fake.die();
    const read = async () => {
      for (const output of result.outputs) for await (const _ of output.open());
    };
    await expect(read()).rejects.toMatchObject({ name: "OutputLost" });
    await fake.restart();
    await result.discard?.();
  });

  it("and takes a prompt's queue with it, or has it cleared: the prompt is not waited for", async () => {
    await start();
    const { error } = await inMidRun(endless(), () => fake.knobs.losesPrompt());
    expect(error).toMatchObject({ code: "engine_crashed" });
    await works();
  });

  it("while a prompt still waits that somebody takes from the queue", async () => {
    await start();
    const client = createClient(fake.url);
    const strangers = await client.submit(JSON.stringify(through(steps(40, 20))), ids());
    const running = subject.run(quick());
    await until(() => fake.queued().length === 1, "the prompt waits");
    const [own] = fake.queued();
    await client.deleteQueued(own ?? "");
    expect((await running).error).toMatchObject({ code: "engine_crashed" });
    await until(() => fake.running() === undefined, "the stranger's prompt has ended");
    if (strangers.ok) await client.forget(strangers.prompt_id);
    for (const file of fake.files()) await removeStrangers(file);
  });

  it("because somebody interrupts its prompt: that is no result", async () => {
    await start();
    const { error } = await inMidRun(endless(), async () => {
      await fetch(`${fake.url}/interrupt`, { method: "POST", body: "{}" });
    });
    expect(error).toMatchObject({ code: "engine_crashed" });
  });
});

describe("A server that hangs", () => {
  it("is stalled after the silence, and serves again when it answers", async () => {
    await start({}, { timings: { stall_ms: 300 } });
    const { error } = await inMidRun(endless(), () => fake.hang());
    expect(error).toMatchObject({ code: "stalled" });
    fake.resume();
    await until(() => fake.running() === undefined, "the prompt was stopped").catch(() => fake.restart());
    await works();
  });

  it("in its worker alone is stalled too, and is restarted where it can be", async () => {
    let restarts = 0;
    fake = await startFakeComfyui();
    const { url, folder } = fake;
    const restarter = {
      async restart() {
        restarts++;
        await fake.restart();
      },
      close: async () => {},
    };
    subject = await startSubject({
      allow: ALLOW,
      servers: [{ url, folder, restarter }],
      timings: { stall_ms: 300 },
    });
    onTestFinished(async () => {
      await subject.close();
      await fake.close();
    });
    await subject.engine.describe();
    const { error } = await inMidRun(endless(), () => fake.knobs.killsWorker());
    expect(error).toMatchObject({ code: "stalled" });
    expect(restarts).toBe(1);
    await works();
  });

  it("with a prompt that was cancelled is given up, and not given work until it is well", async () => {
    await start({}, { timings: { stall_ms: 300 } });
    const seats: number[] = [];
    subject.engine.watch?.({ seats: (now) => seats.push(now), described() {} });
    const { result } = await inMidRun(endless(), (abort) => {
      fake.hang();
      abort();
    });
    expect(result).toMatchObject({ ok: false, reason: "interrupted" });
    expect(seats).toEqual([1, 0]);
    await fake.restart();
    await works();
    expect(seats).toEqual([1, 0, 1]);
  });

  it("does not hang while its GPU's memory moves", async () => {
    await start({}, { timings: { stall_ms: 400, gpu_sample_ms: 50 } });
    fake.knobs.vramStep = -8 * 1024 * 1024;
    expect((await subject.run(through(test("TestBlock", { ms: 1_500 })))).outputs).toHaveLength(1);
  });

  it("is not told by the memory of a processor, which moves for many reasons", async () => {
    await start({ gpu: false }, { timings: { stall_ms: 300, gpu_sample_ms: 50 } });
    fake.knobs.vramStep = -8 * 1024 * 1024;
    const { error } = await subject.run(through(test("TestBlock", { ms: 1_500 })));
    expect(error).toMatchObject({ code: "stalled" });
    await until(() => fake.running() === undefined, "the node has ended");
    await works();
  });
});

describe("A stop", () => {
  it("that is lost is repeated", async () => {
    await start();
    const { result } = await inMidRun(endless(), (abort) => {
      fake.knobs.losesInterrupts = 3;
      abort();
    });
    expect(result).toMatchObject({ ok: false, reason: "interrupted" });
    expect(fake.running()).toBeUndefined();
  });

  it("is waited for where a node does not look at it", async () => {
    await start();
    const { result } = await inMidRun(through(test("TestBlock", { ms: 400 })), (abort) => abort());
    expect(result).toMatchObject({ ok: false, reason: "interrupted" });
    expect(fake.running()).toBeUndefined();
  });

  it("that comes when the last node works leaves the result, or an interruption, and no file", async () => {
    await start();
    const controller = new AbortController();
    const { result } = await subject.run(quick(), {
      signal: controller.signal,
      onProgress: ({ node_class }) => node_class === "SaveImage" && controller.abort(),
    });
    expect(result.ok || result.reason).not.toBe("failed");
  });

  it.each(["0.3.40", "0.3.64", "0.20.0", "0.33.0"])(
    "on ComfyUI %s never names another prompt, nor none",
    async (version) => {
      await start({ version });
      const client = createClient(fake.url);
      const before = fake.requests.length;
      const strangers = await client.submit(JSON.stringify(brief()), ids());
      const controller = new AbortController();
      const running = subject.run(endless(), { signal: controller.signal });
      await until(() => fake.queued().length === 1, "the own prompt waits");
      controller.abort();
      expect((await running).result).toMatchObject({ ok: false, reason: "interrupted" });
      if (!strangers.ok) throw new Error("the stranger's prompt was refused");
      await until(async () => (await client.history(strangers.prompt_id)) !== undefined, "the stranger's has ended");
      expect(await client.history(strangers.prompt_id)).toMatchObject({ succeeded: true });
      const stops = fake.requests.slice(before).filter(({ method, path }) => method === "POST" && isCancel(path));
      expect(stops.length).toBeGreaterThan(0);
      expect(JSON.stringify(stops)).not.toContain(strangers.prompt_id);
      for (const { path, body } of stops)
        if (path.endsWith("/interrupt")) expect(body).toMatchObject({ prompt_id: expect.any(String) });
      await client.forget(strangers.prompt_id);
      for (const file of fake.files()) await removeStrangers(file);
    },
  );
});

describe("Outputs", () => {
  it("of every kind come with their type, in order of the nodes", async () => {
    await start();
    const { outputs } = await subject.run({
      1: freshImage(16, 16, 2),
      11: { class_type: "SaveAnimatedWEBP", inputs: webp() },
      4: { class_type: "TestText", inputs: { text: "words" } },
      30: saveImage("1", "last"),
    });
    expect(outputs.map(({ node_id, kind, content_type }) => [node_id, kind, content_type])).toEqual([
      ["4", "text", "text/plain;charset=utf-8"],
      ["11", "image", "image/webp"],
      ["30", "image", "image/png"],
      ["30", "image", "image/png"],
    ]);
  });

  it("of a sub-graph belong to the node of the workflow", async () => {
    await start();
    const graph = { 1: freshImage(), 2: test("TestExpand", { fail: false }), 3: saveImage("2") };
    expect((await subject.run(graph)).outputs.map(({ node_id }) => node_id)).toEqual(["3"]);
  });

  it("whose file is gone are lost, and not empty", async () => {
    await start();
    fake.knobs.viewFails = 404;
    await expect(subject.run(quick())).rejects.toMatchObject({ name: "OutputLost" });
    fake.knobs.viewFails = undefined;
    await fetch(`${fake.url}/history`, { method: "POST", body: '{"clear":true}' });
    for (const file of fake.files()) await removeStrangers(file);
  });

  it("that a node only claims are a fault of the workflow, not of the engine", async () => {
    await start();
    const graph = { 1: freshImage(), 2: test("TestMissingFile", { filename: "nowhere.png" }) };
    await expect(subject.run(graph)).rejects.toMatchObject({ name: "OutputLost", missing: true });
    await fetch(`${fake.url}/history`, { method: "POST", body: '{"clear":true}' });
  });

  it("of more text than an answer may have are too large, and the server is fit", async () => {
    await start();
    const text = "x".repeat(9 * 1024 * 1024);
    const show = (id: number) => [id, { class_type: "TestText", inputs: { text } }] as const;
    const { error } = await subject.run(Object.fromEntries([1, 2].map(show)));
    expect(error).toMatchObject({ code: "outputs_too_large" });
    await works();
  });

  it("are none where everything was blocked", async () => {
    await start();
    const { error } = await subject.run(through(test("TestBlocker", { message: "not today" })));
    expect(error).toMatchObject({ code: "no_outputs" });
  });

  it("are those that are left where a part was blocked, although the server tells an error on the way", async () => {
    await start();
    const graph = { ...through(test("TestBlocker", { message: "not today" })), 4: saveImage("1") };
    expect((await subject.run(graph)).outputs.map(({ node_id }) => node_id)).toEqual(["4"]);
  });

  it("for the socket alone are made as files", async () => {
    await start();
    const { outputs } = await subject.run({
      1: freshImage(),
      2: { class_type: "SaveImageWebsocket", inputs: { images: ["1", 0] } },
    });
    expect(outputs.map(({ kind }) => kind)).toEqual(["image"]);
  });
});

describe("Errors", () => {
  it.each(["oom", "oom of a newer torch"])(
    "%s: the memory is freed and the server goes through the gate",
    async (kind) => {
      await start();
      const { error } = await subject.run(through(test("TestFail", { kind, message: "no room" })));
      expect(error).toMatchObject({ code: "out_of_memory", node_id: "2" });
      expect(fake.requests).toContainEqual(expect.objectContaining({ method: "POST", path: "/free" }));
      await works();
    },
  );

  it("an exception without words has its type", async () => {
    await start();
    const { error } = await subject.run(through(test("TestFail", { kind: "empty", message: "" })));
    expect(error).toMatchObject({ code: "execution_failed", message: "Node 2 (TestFail) failed: RuntimeError" });
  });

  it("one inside a sub-graph names the node of the workflow", async () => {
    await start();
    const { error } = await subject.run(through(test("TestExpand", { fail: true })));
    expect(error).toMatchObject({ code: "execution_failed", node_id: "2" });
  });

  it("what a node had saved before another one failed is not left behind", async () => {
    await start();
    const graph = { ...through(test("TestFail", { kind: "value", message: "late" })), 4: saveImage("1") };
    fake.knobs.ordersOutputs = (outputs) => outputs.toSorted().reverse();
    expect((await subject.run(graph)).error).toMatchObject({ code: "execution_failed" });
  });

  it("a node without inputs, which would kill the worker, never reaches the server", async () => {
    await start();
    const before = fake.prompts.length;
    const { error } = await subject.run({ ...quick(), 9: { class_type: "ImageInvert" } });
    expect(error).toMatchObject({ code: "invalid_prompt" });
    expect(fake.prompts.length).toBe(before);
  });

  it("an upload that the server refuses leaves no run behind", async () => {
    await start();
    const files = await serveFiles(new Map([["a.png", await pictureOf(8, 8, "red")]]));
    onTestFinished(() => files.close());
    fake.knobs.refusesUploads = 500;
    const load = { class_type: "LoadImage", inputs: { image: files.urlOf("a.png") } };
    const { error } = await subject.run({ 1: load, 2: saveImage("1") });
    expect(error).toMatchObject({ code: "engine_crashed" });
    fake.knobs.refusesUploads = undefined;
    await works();
  });
});

const webp = () => ({
  images: ["1", 0],
  filename_prefix: "moving",
  fps: 6,
  lossless: true,
  quality: 80,
  method: "default",
});

const ids = () => ({ prompt_id: crypto.randomUUID(), client_id: crypto.randomUUID() });

/** What a test's stranger has left. */
async function removeStrangers(file: string): Promise<void> {
  const { rm } = await import("node:fs/promises");
  const { join } = await import("node:path");
  await rm(join(fake.folder, file), { force: true });
}
