import { afterEach, describe, expect, it } from "vitest";
import { createClient } from "../../../gpu-runner/engines/comfyui/client.ts";
import { clientId } from "../../../gpu-runner/engines/comfyui/write-graph.ts";
import { type FakeComfyui, type FakeComfyuiOptions, startFakeComfyui } from "../../fakes/comfyui/server.ts";
import { freshImage, saveImage, type SubjectOptions, startSubject, until } from "./subject.ts";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function startFakes(...options: readonly FakeComfyuiOptions[]): Promise<FakeComfyui[]> {
  const fakes = await Promise.all(options.map((one) => startFakeComfyui(one)));
  closing.push(() => Promise.all(fakes.map((fake) => fake.close())));
  return fakes;
}

async function subjectFor(fakes: readonly FakeComfyui[], options: Partial<SubjectOptions> = {}) {
  const servers = fakes.map(({ url, folder }) => ({ url, folder }));
  const subject = await startSubject({ servers, allow: "core,recorder_nodes", ...options });
  closing.push(() => subject.close());
  const told = { seats: [] as number[], described: 0 };
  subject.engine.watch?.({ seats: (seats) => told.seats.push(seats), described: () => told.described++ });
  return { ...subject, told, untilSeats: (n: number) => until(() => told.seats.at(-1) === n, `${n} seats`) };
}

/** Works for as many times 20 ms. */
const block = (steps: number) => ({
  1: freshImage(),
  2: { class_type: "TestSlow", inputs: { image: ["1", 0], steps, step_ms: 20, preview: false } },
  3: saveImage("2"),
});
const LONG = 1_000;
const quick = () => ({ 1: freshImage(), 2: saveImage("1") });

const jobsOf = ({ prompts }: FakeComfyui): number =>
  prompts.filter(({ graph }) => JSON.stringify(graph).includes("TestSlow")).length;

describe("Several servers", () => {
  it("give a seat each while they are fit", async () => {
    const fakes = await startFakes({}, {});
    const [one, two] = fakes;
    await two?.die();
    const { told, untilSeats, run } = await subjectFor(fakes);
    expect(told.seats).toEqual([0]);
    await untilSeats(1);
    await two?.restart();
    await untilSeats(2);
    await one?.die();
    await untilSeats(1);
    expect((await run(quick())).outputs).toHaveLength(1);
    await one?.restart();
    await untilSeats(2);
    expect(told.seats).toEqual([0, 1, 2, 1, 2]);
  });

  it("share the runs, one at a time each; a run beyond them waits", async () => {
    const fakes = await startFakes({}, {});
    const { run, untilSeats } = await subjectFor(fakes);
    await untilSeats(2);
    const runs = [run(block(10)), run(block(10)), run(quick())];
    await until(() => fakes.every((fake) => jobsOf(fake) === 1), "both have work");
    const done = await Promise.all(runs);
    expect(done.map(({ result }) => result.ok)).toEqual([true, true, true]);
  });

  it("let a run wait for a server that is restarted, and say so where none comes", async () => {
    const fakes = await startFakes({});
    const [fake] = fakes;
    const { run, untilSeats } = await subjectFor(fakes, { timings: { ready_ms: 2_000 } });
    await untilSeats(1);
    await fake?.die();
    await untilSeats(0);
    expect((await run(quick())).error).toMatchObject({
      code: "engine_crashed",
      message: "No engine was ready to execute the workflow.",
    });
    const patient = run(quick());
    await fake?.restart();
    expect((await patient).outputs).toHaveLength(1);
  });

  it("take runs on while another one's server dies", async () => {
    const fakes = await startFakes({}, {});
    const { run, untilSeats } = await subjectFor(fakes);
    await untilSeats(2);
    const runs = [run(block(LONG)), run(block(15))];
    await until(() => fakes.every((fake) => fake.running() !== undefined), "both are at work");
    const busy = fakes.find(({ prompts }) => JSON.stringify(prompts).includes(`"steps":${LONG}`));
    await busy?.die();
    const [lost, other] = await Promise.all(runs);
    expect([lost?.error.code, other?.result.ok]).toEqual(["engine_crashed", true]);
    await untilSeats(1);
  });

  it("are described by what all of them have", async () => {
    const models = (...names: string[]) => ({ CheckpointLoaderSimple: { ckpt_name: names } });
    const fakes = await startFakes(
      { models: models("a.safetensors", "both.safetensors") },
      { models: models("both.safetensors", "c.safetensors") },
    );
    const [, two] = fakes;
    if (!two) throw new Error("no second fake");
    await two.die();
    const { engine, told, untilSeats } = await subjectFor(fakes);
    expect((await engine.describe()).models).toEqual(["a.safetensors", "both.safetensors"]);
    expect(told.described).toBe(0);
    await two.restart();
    await untilSeats(2);
    const both = await engine.describe();
    expect([both.models, told.described]).toEqual([["both.safetensors"], 1]);
    expect(both.gpu).toEqual({ name: "NVIDIA GeForce RTX 4090", memory_bytes: 24 * 1024 ** 3 });
  });

  it("tell when one comes back with other classes and models, and not when it comes back as it was", async () => {
    const fakes = await startFakes({ models: { VAELoader: { vae_name: ["old.safetensors"] } } });
    const [fake] = fakes;
    if (!fake) throw new Error("no fake");
    const { engine, told, untilSeats } = await subjectFor(fakes);
    const before = await engine.describe();
    await fake.die();
    await untilSeats(0);
    await fake.restart();
    await untilSeats(1);
    expect(told.described).toBe(0);

    const port = Number(new URL(fake.url).port);
    await fake.die();
    await untilSeats(0);
    const [other] = await startFakes({
      port,
      version: "0.8.0",
      folder: fake.folder,
      models: { VAELoader: { vae_name: ["new.safetensors"] } },
    });
    await untilSeats(1);
    expect(told.described).toBe(1);
    expect(await engine.describe()).toMatchObject({ version: "0.8.0", models: ["new.safetensors"] });
    expect(before).toMatchObject({ version: "0.33.0", models: ["old.safetensors"] });
    await other?.close();
  });

  it("tell of models that are added while they idle", async () => {
    const checkpoints = ["old.safetensors"];
    const fakes = await startFakes({ models: { CheckpointLoaderSimple: { ckpt_name: checkpoints } } });
    const { engine, told, untilSeats } = await subjectFor(fakes, { timings: { idle_check_ms: 20, list_ms: 50 } });
    await untilSeats(1);
    expect((await engine.describe()).models).toEqual(["old.safetensors"]);
    checkpoints.push("new.safetensors");
    await until(() => told.described === 1, "it is told");
    expect((await engine.describe()).models).toEqual(["new.safetensors", "old.safetensors"]);
    expect(told.seats).toEqual([0, 1]);
  });

  it("are rid of what a killed process of the same runner has left in their queues, and of nothing else", async () => {
    const fakes = await startFakes({});
    const [fake] = fakes;
    if (!fake) throw new Error("no fake");
    const client = createClient(fake.url);
    const submit = async (owner: string, graph: object) => {
      const ids = { prompt_id: crypto.randomUUID(), client_id: clientId(owner, "1") };
      const submitted = await client.submit(JSON.stringify(graph), ids);
      if (!submitted.ok) throw new Error(JSON.stringify(submitted.body));
      return submitted.prompt_id;
    };
    const left = [await submit("this-runner", block(LONG)), await submit("this-runner", block(LONG))];
    const strangers = await submit("another-runner", quick());
    const { untilSeats } = await subjectFor(fakes, { owner: "this-runner" });
    await untilSeats(1);
    expect(await client.history(strangers)).toMatchObject({ succeeded: true });
    for (const id of left) expect((await client.history(id))?.succeeded ?? false).toBe(false);
    expect(await client.queue()).toMatchObject({ running: [], pending: [] });
  });

  it("are closed soon, also while one of them hangs, in a run or before", async () => {
    const fakes = await startFakes({}, {});
    const [one, two] = fakes;
    one?.hang();
    const { engine, run, untilSeats } = await subjectFor(fakes);
    await untilSeats(1);
    const running = run(block(LONG));
    await until(() => two?.running() !== undefined, "it is at work");
    await engine.close();
    expect((await running).result).toMatchObject({ ok: false, reason: "interrupted" });
    expect([two?.running(), two?.files()]).toEqual([undefined, []]);
    await engine.close();
    expect((await run(quick())).result).toMatchObject({ ok: false, reason: "interrupted" });
    one?.resume();
  });

  it("that never were there do not keep an engine from closing", async () => {
    const fakes = await startFakes({});
    await fakes[0]?.die();
    const { engine } = await subjectFor(fakes);
    const described = engine.describe();
    described.catch(() => {});
    await engine.close();
    await expect(described).rejects.toThrow("closed before");
  });
});
