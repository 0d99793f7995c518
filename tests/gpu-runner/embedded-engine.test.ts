import { open, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import type { EngineFailure, EngineProgress } from "../../gpu-runner/engine.ts";
import { createEmbeddedEngine, type EmbeddedEngineOptions } from "../../gpu-runner/engines/embedded/engine.ts";
import { empty, type Graph, node, save, slowGraph } from "./embedded-graphs.ts";
import { engineContract, scratchFolder } from "./engine-contract.ts";

engineContract("embedded", async () => ({
  engine: createEmbeddedEngine({ spares: 2 }),
  prompts: {
    outputs: JSON.stringify({ "1": empty({ batch_size: 2 }), "10": save("1", "b"), "2": empty(), "9": save("2", "a") }),
    slow: JSON.stringify(slowGraph()),
    failing: {
      prompt: JSON.stringify({
        "1": empty(),
        "2": node("ImageBlur", { image: ["1", 0], blur_radius: 8, sigma: 1 }),
        "3": save("2"),
      }),
      code: "execution_failed",
      node_id: "2",
    },
    missingClass: JSON.stringify({ "1": node("KSampler", {}), "2": empty(), "3": save("2") }),
  },
}));

const shared = createEmbeddedEngine();
afterAll(() => shared.close());

async function run(graph: Graph | string, engine = shared, onProgress: (progress: EngineProgress) => void = () => {}) {
  const prompt = typeof graph === "string" ? graph : JSON.stringify(graph);
  return engine.run(prompt, { signal: new AbortController().signal, onProgress, scratch: await scratchFolder() });
}

async function failureOf(graph: Graph | string, engine = shared): Promise<EngineFailure> {
  const result = await run(graph, engine);
  if (result.ok || result.reason !== "failed") throw new Error(`The run did not fail: ${JSON.stringify(result)}`);
  return result.error;
}

function engineOf(options: EmbeddedEngineOptions) {
  const engine = createEmbeddedEngine(options);
  onTestFinished(() => engine.close());
  return engine;
}

/** The process ids of this process's children; Linux only. */
async function childPids(): Promise<number[]> {
  const pids: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, "latin1").catch(() => "");
    const [state, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (Number(parent) === process.pid && state !== "Z") pids.push(Number(name));
  }
  return pids;
}

/** Starts a run and resolves when it is at work, with the process that it got. */
async function startedRun(engine: ReturnType<typeof engineOf>) {
  const before = new Set(await childPids());
  const working = Promise.withResolvers<void>();
  const result = run(slowGraph(320), engine, () => working.resolve());
  await working.promise;
  const [pid] = (await childPids()).filter((child) => !before.has(child));
  if (pid === undefined) throw new Error("The run has no process of its own.");
  return { result, pid };
}

describe("A hostile graph", () => {
  it("may use __proto__ and constructor as node ids and input names", async () => {
    const prompt = `{"__proto__":${JSON.stringify(empty())},"constructor":{"class_type":"SaveImage","inputs":{"images":["__proto__",0],"filename_prefix":"p","__proto__":1,"constructor":2}}}`;
    const result = await run(prompt);
    expect(result).toMatchObject({
      ok: true,
      outputs: [{ node_id: "constructor", index: 0, filename: "p_00001_.png" }],
    });
  });

  it("gets its errors listed under its own strange ids", async () => {
    const error = await failureOf(`{"__proto__":{"class_type":"SaveImage","inputs":{}}}`);
    expect(error).toMatchObject({ code: "invalid_prompt", node_id: "__proto__" });
    expect(JSON.stringify(error.details)).toContain('"__proto__":[{"field":"images","reason":"required_input_missing"');
  });

  it("can't name a class that every object has", async () => {
    for (const name of ["constructor", "__proto__", "toString"]) {
      expect(await failureOf({ "1": node(name, {}), "2": empty(), "3": save("2") })).toMatchObject({
        code: "missing_node",
      });
    }
  });

  it("that asks for a terabyte of pixels ends as out_of_memory at once, naming the node", async () => {
    const start = performance.now();
    const error = await failureOf({ "7": empty({ width: 16384, height: 16384, batch_size: 4096 }), "8": save("7") });
    expect(error).toMatchObject({ code: "out_of_memory", node_id: "7" });
    expect(performance.now() - start).toBeLessThan(2000);
  });

  it("is held to the pixels alive at once, not to the sum over all nodes", async () => {
    const engine = engineOf({ max_pixels: 2 * 100 * 100 });
    const inverts = Array.from({ length: 6 }, (_, i) => [
      String(i + 2),
      node("ImageInvert", { image: [String(i + 1), 0] }),
    ]);
    const chain = { "1": empty({ width: 100, height: 100 }), ...Object.fromEntries(inverts), "9": save("7") };
    expect((await run(chain, engine)).ok).toBe(true);
    const both = {
      ...chain,
      "10": node("ImageBlend", { image1: ["1", 0], image2: ["7", 0], blend_factor: 1, blend_mode: "normal" }),
      "11": save("10"),
    };
    expect(await failureOf(both, engine)).toMatchObject({ code: "out_of_memory" });
  });

  it("that outgrows the memory bound loses its process and ends as out_of_memory", async () => {
    const engine = engineOf({ max_memory_bytes: 256 * 1024 * 1024 });
    expect(await failureOf(slowGraph(4096), engine)).toMatchObject({ code: "out_of_memory" });
    expect((await run({ "1": empty(), "2": save("1") }, engine)).ok).toBe(true);
  });

  it("that is nested too deeply or a chain of thousands of nodes does no harm", async () => {
    expect(await failureOf(`{"1":${"[".repeat(200_000)}${"]".repeat(200_000)}}`)).toMatchObject({
      code: "invalid_prompt",
    });
    const inverts = Array.from({ length: 4000 }, (_, i) => [`n${i + 1}`, node("ImageInvert", { image: [`n${i}`, 0] })]);
    const chain = { n0: empty({ width: 1, height: 1 }), ...Object.fromEntries(inverts), end: save("n4000") };
    expect((await run(chain)).ok).toBe(true);
  });
});

describe.skipIf(process.platform !== "linux")("The process of a run", () => {
  it("can be killed: its run ends as engine_crashed, another run goes on, and the engine works again", async () => {
    const engine = engineOf({ spares: 0 });
    const first = await startedRun(engine);
    const second = await startedRun(engine);
    process.kill(first.pid, "SIGKILL");
    const crashed = await first.result;
    expect(crashed).toMatchObject({
      ok: false,
      reason: "failed",
      error: { code: "engine_crashed", node_id: expect.any(String) },
    });
    expect((await second.result).ok).toBe(true);
    expect((await run({ "1": empty(), "2": save("1") }, engine)).ok).toBe(true);
  });

  it("has nothing of the runner's environment and none of its open files", async () => {
    process.env.DARKROOM_TEST_SECRET = "sk_secret";
    const file = await open(new URL(import.meta.url));
    onTestFinished(async () => {
      delete process.env.DARKROOM_TEST_SECRET;
      await file.close();
    });
    const { pid, result } = await startedRun(engineOf({ spares: 0 }));
    const environment = (await readFile(`/proc/${pid}/environ`, "utf8")).split("\0").filter(Boolean);
    expect(environment.map((line) => line.split("=")[0]).filter((key) => !key?.startsWith("NODE_CHANNEL_"))).toEqual(
      [],
    );
    const fds = await readdir(`/proc/${pid}/fd`);
    const targets = await Promise.all(fds.map((fd) => readlink(join(`/proc/${pid}/fd`, fd)).catch(() => "")));
    expect(targets.filter((target) => target.endsWith(".test.ts"))).toEqual([]);
    process.kill(pid, "SIGKILL");
    await result;
  });

  it("is gone when the engine is closed", async () => {
    const engine = createEmbeddedEngine({ spares: 2 });
    const before = new Set(await childPids());
    await engine.describe();
    const own = (await childPids()).filter((pid) => !before.has(pid));
    expect(own).toHaveLength(2);
    await engine.close();
    expect((await childPids()).filter((pid) => own.includes(pid))).toEqual([]);
  });
});
