import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createClient } from "../../../gpu-runner/engines/comfyui/client.ts";
import { passGate } from "../../../gpu-runner/engines/comfyui/gate.ts";
import type { GateOptions } from "../../../gpu-runner/engines/comfyui/ready-server.ts";
import { TIMINGS } from "../../../gpu-runner/engines/comfyui/timings.ts";
import { type FakeComfyui, type FakeComfyuiOptions, startFakeComfyui } from "../../fakes/comfyui/server.ts";
import { freshImage, pictureOf, QUICK, saveImage, type SubjectOptions, startSubject, until } from "./subject.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function startFake(options: FakeComfyuiOptions = {}): Promise<FakeComfyui> {
  const fake = await startFakeComfyui(options);
  closing.push(() => fake.close());
  return fake;
}

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-gate-"));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** One pass of the gate. */
async function pass(fake: { readonly url: string }, options: Partial<GateOptions> = {}, first = false) {
  const log: string[] = [];
  const signal = new AbortController().signal;
  const standard = {
    client: createClient(fake.url),
    owner: "somebody",
    strip: false,
    timings: { ...TIMINGS, ...QUICK },
    signal,
  };
  const passed = await passGate({ ...standard, log: (line) => log.push(line), ...options }, first);
  return { passed, log };
}

async function subjectFor(options: SubjectOptions) {
  const subject = await startSubject(options);
  closing.push(() => subject.close());
  const seats: number[] = [];
  subject.engine.watch?.({ seats: (now) => seats.push(now), described() {} });
  return { ...subject, seats };
}

const slow = (ms: number) => ({
  1: freshImage(),
  2: { class_type: "TestBlock", inputs: { image: ["1", 0], ms } },
  3: saveImage("2", "stranger"),
});

async function submit({ url }: FakeComfyui, graph: object): Promise<string> {
  const response = await fetch(`${url}/prompt`, { method: "POST", body: JSON.stringify({ prompt: graph }) });
  const { prompt_id } = (await response.json()) as { prompt_id: string };
  return prompt_id;
}

describe("The gate", () => {
  it("lets a server through that works, and leaves nothing on it", async () => {
    const fake = await startFake();
    const { passed, log } = await pass(fake, { folder: fake.folder });
    expect(passed).toMatchObject({ ok: true, server: { version: "0.33.0", max_upload: 100 * 1024 ** 2 } });
    expect([fake.files(), fake.history(), log]).toEqual([[], [], []]);
    expect(await readdir(join(fake.folder, "output", "darkroom"))).toEqual([]);
  });

  it("leaves no picture of its own, too, where it can't reach the folder", async () => {
    const fake = await startFake();
    expect((await pass(fake)).passed.ok).toBe(true);
    expect([fake.files(), fake.history()]).toEqual([[], []]);
  });

  it("says that nothing listens, and waits for the server", async () => {
    const fake = await startFake();
    await fake.die();
    expect((await pass(fake)).passed).toEqual({
      ok: false,
      reason: "nothing listens at its address",
      gone: true,
      mendable: true,
    });
    const subject = await subjectFor({ servers: [{ url: fake.url }] });
    await until(() => subject.log.some((line) => line.includes("nothing listens")), "it is told");
    expect(subject.seats).toEqual([0]);
    await fake.restart();
    await until(() => subject.seats.at(-1) === 1, "its seat is offered");
    expect(subject.log.filter((line) => line.includes("is not ready"))).toHaveLength(1);
  });

  it.each([
    ["no classes", "{}", "it lists no node classes"],
    ["a list in place of classes", "[]", "it lists no node classes"],
    ["no JSON", "<html>", "it does not answer well (/object_info: answered 200 without JSON)"],
  ])("refuses a server that tells %s", async (_, body, reason) => {
    const fake = await startFake();
    fake.knobs.faults = (_method, path) => (path === "/object_info" ? { status: 200, body } : undefined);
    expect((await pass(fake)).passed).toMatchObject({ ok: false, reason });
  });

  it("refuses what is no ComfyUI", async () => {
    const other = createServer((_, response) => void response.end("hello"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    closing.push(() => new Promise((resolve) => other.close(resolve)));
    const { port } = other.address() as AddressInfo;
    const { passed } = await pass({ url: `http://127.0.0.1:${port}` });
    expect(passed).toMatchObject({ ok: false, reason: expect.stringContaining("/system_stats"), gone: false });
  });

  it("refuses a folder that is another one's, and does not fill the server up while it tries", async () => {
    const fake = await startFake();
    const folder = await aFolder();
    for (let n = 0; n < 3; n++) {
      const { passed } = await pass(fake, { folder });
      const reason = `${folder} was given as its folder, but its input files do not come there`;
      expect(passed).toMatchObject({ ok: false, reason });
    }
    expect(fake.files()).toHaveLength(1);
  });

  it("refuses a folder of which one part is elsewhere", async () => {
    const fake = await startFake();
    const folder = await aFolder();
    await mkdir(join(folder, "output"));
    await symlink(join(fake.folder, "input"), join(folder, "input"));
    const { passed } = await pass(fake, { folder });
    expect(passed).toMatchObject({ ok: false, reason: expect.stringContaining("its output files do not come there") });
  });

  it("refuses to keep metadata out of pictures with a server that writes them", async () => {
    const plain = await startFake();
    expect((await pass(plain, { strip: true })).passed).toMatchObject({
      ok: false,
      reason: expect.stringContaining("--disable-metadata"),
    });
    const bare = await startFake({ argv: ["main.py", "--disable-metadata"] });
    expect((await pass(bare, { strip: true })).passed.ok).toBe(true);
  });

  it("removes what runs of long ago have left, and nothing else", async () => {
    const fake = await startFake();
    const old = ["input/darkroom-old.png", "output/darkroom/old/a.png", "input/mine.png", "output/theirs/a.png"];
    const names = [...old, "input/darkroom-new.png", "output/darkroom/new/a.png"];
    for (const name of names) {
      await mkdir(join(fake.folder, name, ".."), { recursive: true });
      await writeFile(join(fake.folder, name), "x");
    }
    const longAgo = new Date(Date.now() - 25 * 3600_000);
    for (const name of [...old, "output/darkroom/old"]) await utimes(join(fake.folder, name), longAgo, longAgo);
    const { passed, log } = await pass(fake, { folder: fake.folder });
    expect([passed.ok, log]).toEqual([true, ["removed 2 files and folders of earlier runs"]]);
    expect(fake.files()).toEqual([
      "input/darkroom-new.png",
      "input/mine.png",
      "output/darkroom/new/a.png",
      "output/theirs/a.png",
    ]);
  });

  it("waits for strangers' prompts, and leaves them alone", async () => {
    const fake = await startFake();
    const strangers = [await submit(fake, slow(300)), await submit(fake, slow(300))];
    const timings = { ...TIMINGS, ...QUICK, trial_ms: 200 };
    expect((await pass(fake, { timings })).passed.ok).toBe(true);
    expect(fake.history()).toEqual(strangers);
  });

  it("gives up on a stranger's prompt that never ends, and takes its own back", async () => {
    const fake = await startFake();
    const stranger = await submit(fake, slow(60_000));
    const timings = { ...TIMINGS, ...QUICK, trial_ms: 50, warm_up_ms: 200 };
    const { passed } = await pass(fake, { timings });
    expect(passed).toMatchObject({ ok: false, reason: "a trial picture did not end in 0.05 s" });
    expect([fake.running(), fake.queued()]).toEqual([stranger, []]);
  });

  it("keeps a server out whose worker is dead, and has it restarted after a while", async () => {
    const fake = await startFake();
    fake.knobs.killsWorker();
    const reasons: string[] = [];
    const restarter = {
      async restart(reason: string) {
        reasons.push(reason);
        await fake.restart();
      },
      async close() {},
    };
    const subject = await subjectFor({
      servers: [{ url: fake.url, folder: fake.folder, restarter }],
      timings: { trial_ms: 100, restart_after_ms: 200 },
    });
    await until(() => subject.seats.at(-1) === 1, "it is offered after its restart");
    expect(reasons).toEqual(["it did not become ready in 0.2 s: a trial picture did not end in 0.1 s"]);
    expect(subject.seats).toEqual([0, 1]);
    expect((await subject.run({ 1: freshImage(), 2: saveImage("1") })).outputs).toHaveLength(1);
  });

  it("does not restart a server that is still on its way up", async () => {
    const fake = await startFake();
    await fake.die();
    let restarts = 0;
    const restarter = { restart: async () => void restarts++, async close() {} };
    const subject = await subjectFor({
      servers: [{ url: fake.url, restarter }],
      timings: { restart_after_ms: 10, gate_retry_ms: [5, 10] },
    });
    const tried = performance.now();
    await until(() => performance.now() - tried > 100, "it was tried several times");
    expect(restarts).toBe(0);
    await fake.restart();
    await until(() => subject.seats.at(-1) === 1, "it is offered");
    expect(restarts).toBe(0);
  });

  it("tells an exception of the trial by its words", async () => {
    const fake = await startFake();
    const broken = { class_type: "TestFail", inputs: { image: ["1", 0], kind: "device lost", message: "" } };
    const warmUp = JSON.stringify({ 1: freshImage(), 2: broken, 3: saveImage("2") });
    const { passed } = await pass(fake, { warmUp }, true);
    expect(passed).toMatchObject({
      ok: false,
      reason: expect.stringMatching(/^the warm-up workflow failed: CUDA error: unspecified launch failure/),
    });
    expect(fake.history()).toEqual([]);
  });
});

describe("A warm-up workflow", () => {
  const warm = () => ({
    1: freshImage(8),
    2: { class_type: "ImageInvert", inputs: { image: ["1", 0] } },
    3: saveImage("2"),
  });
  const warmUps = ({ prompts }: FakeComfyui): number =>
    prompts.filter(({ graph }) => JSON.stringify(graph).includes("ImageInvert")).length;

  it("runs once for each start of the server, and not after every fault", async () => {
    const fake = await startFake();
    const { url, folder } = fake;
    const subject = await subjectFor({ servers: [{ url, folder }], warmUp: JSON.stringify(warm()), allow: "*" });
    await until(() => subject.seats.at(-1) === 1, "it is ready");
    expect([warmUps(fake), fake.files(), fake.history()]).toEqual([1, [], []]);

    const oom = { class_type: "TestFail", inputs: { image: ["1", 0], kind: "oom", message: "out of memory" } };
    const { error } = await subject.run({ 1: freshImage(), 2: oom, 3: saveImage("2") });
    expect(error.code).toBe("out_of_memory");
    await until(() => subject.seats.at(-1) === 1, "it is ready again");
    expect(warmUps(fake)).toBe(1);

    await fake.die();
    await until(() => subject.seats.at(-1) === 0, "its end is seen");
    await until(() => subject.log.at(-1)?.includes("nothing listens") ?? false, "the gate has seen it");
    await fake.restart();
    await until(() => subject.seats.at(-1) === 1, "it is back");
    expect(warmUps(fake)).toBe(2);
  });

  it("may use the server's own files and closed classes", async () => {
    const fake = await startFake();
    await writeFile(join(fake.folder, "input", "example.png"), await pictureOf(8, 8, "red"));
    const load = { class_type: "LoadImage", inputs: { image: "example.png" } };
    const { passed } = await pass(fake, { warmUp: JSON.stringify({ 1: load, 2: saveImage("1") }) }, true);
    expect(passed).toMatchObject({ ok: true });
    expect(fake.files()).toContain("input/example.png");
  });

  it.each([
    [{ nodes: [], links: [] }, /^the warm-up workflow can't run: /],
    [{ 1: { class_type: "NoSuchClass", inputs: {} } }, /^the warm-up workflow can't run: .*NoSuchClass/],
    [
      { 1: { class_type: "SaveImage", inputs: {} } },
      /^it does not accept the warm-up workflow \(status 400: node 1: Required input is missing: images\)/,
    ],
  ])("that can't run keeps its server out and says why: %j", async (graph, words) => {
    const fake = await startFake();
    const subject = await subjectFor({ servers: [{ url: fake.url }], warmUp: JSON.stringify(graph) });
    const prefix = `${fake.url} is not ready: `;
    await until(() => subject.log.some((line) => line.startsWith(prefix)), "its reason is told");
    expect(subject.log.find((line) => line.startsWith(prefix))?.slice(prefix.length)).toMatch(words);
    expect(subject.seats).toEqual([0]);
  });
});
