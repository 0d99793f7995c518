import { existsSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type FakeComfyui, startFakeComfyui } from "../fakes/comfyui/server.ts";
import type { JsonObject } from "../fakes/comfyui/python-json.ts";
import { ask, listen, saving, slow } from "./comfyui-fake-client.ts";

let fake: FakeComfyui;
beforeEach(async () => {
  fake = await startFakeComfyui({ models: { CheckpointLoaderSimple: { ckpt_name: ["base.safetensors"] } } });
});
afterEach(() => fake.close());

const submit = async (prompt: Record<string, JsonObject>, more: JsonObject = {}) =>
  String((await ask(fake, "POST", "/prompt", { client_id: "a", prompt, ...more })).body.prompt_id);

test("With a reply held back, the messages of a prompt come before the reply to its POST.", async () => {
  const client = await listen(fake, "a");
  fake.knobs.replyDelay_ms = 200;
  const submitted = submit(saving());
  await expect.poll(client.types).toContain("execution_success");
  expect(await Promise.race([submitted, "not yet"])).toBe("not yet");
  expect(fake.history()).toEqual([await submitted]);
});

test("With a late history, execution_success is told while the entry is not there yet.", async () => {
  const client = await listen(fake, "a");
  fake.knobs.historyDelay_ms = 150;
  const id = await submit(saving());
  await expect.poll(client.types, { interval: 5 }).toContain("execution_success");
  expect((await ask(fake, "GET", `/history/${id}`)).body).toEqual({});
  expect((await ask(fake, "GET", `/api/jobs/${id}`)).body.status).toBe("in_progress");
  await expect.poll(() => fake.history()).toEqual([id]);
  await expect.poll(() => client.types().slice(-2)).toEqual(["status", "executing"]);
});

test("Lost messages never come, delayed ones come later and in order.", async () => {
  const client = await listen(fake, "a");
  fake.knobs.losesMessages = (type) => type === "executed" || type === "progress_state";
  fake.knobs.delaysMessages_ms = 100;
  const id = await submit(saving());
  await expect.poll(() => fake.history()).toEqual([id]);
  expect(client.types()).toEqual(["status"]);
  await expect
    .poll(client.types)
    .toEqual([
      "status",
      "status",
      "status",
      "execution_start",
      "execution_cached",
      "executing",
      "executing",
      "execution_success",
      "status",
      "executing",
    ]);
});

test("A lost interrupt is answered as any other and stops nothing; the next one does.", async () => {
  fake.knobs.losesInterrupts = 1;
  const id = await submit(slow(1000, 2));
  await expect.poll(() => fake.running()).toBe(id);
  expect((await ask(fake, "POST", `/api/jobs/${id}/cancel`)).body).toEqual({ cancelled: true });
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(fake.running()).toBe(id);
  expect((await ask(fake, "POST", "/interrupt", { prompt_id: id })).status).toBe(200);
  await expect.poll(async () => (await ask(fake, "GET", `/api/jobs/${id}`)).body.status).toBe("cancelled");
});

test("A lost prompt leaves no trace, and the worker goes on.", async () => {
  const lost = await submit(slow(1000, 10));
  await expect.poll(() => fake.running()).toBe(lost);
  const waiting = await submit(saving(2));
  const last = await submit(saving(3));
  fake.knobs.losesPrompt(waiting);
  expect(fake.queued()).toEqual([last]);
  fake.knobs.losesPrompt();
  await expect.poll(() => fake.history()).toEqual([last]);
  expect((await ask(fake, "GET", `/api/jobs/${lost}`)).status).toBe(404);
});

test("Death loses queue, history, numbering, temp files and sockets; files of output stay.", async () => {
  const client = await listen(fake, "a");
  await submit({ ...saving(), "5": { class_type: "PreviewImage", inputs: { images: ["1", 0] } } });
  await expect.poll(() => fake.history().length).toBe(1);
  await submit(slow(1000, 10));
  await fake.die();
  await expect.poll(client.closedWith).toBe(1006);
  await expect(ask(fake, "GET", "/queue")).rejects.toThrow();
  await fake.restart();
  expect(fake.files()).toEqual(["output/made_00001_.png"]);
  expect([fake.history(), fake.queued(), fake.running()]).toEqual([[], [], undefined]);
  expect((await ask(fake, "POST", "/prompt", { prompt: saving() })).body.number).toBe(0);
});

test("A server that hangs takes connections and answers nothing, not even a ping; then all comes at once.", async () => {
  const client = await listen(fake, "a");
  await submit(slow(4, 20));
  await expect.poll(client.types).toContain("progress");
  fake.hang();
  let pongs = 0;
  client.socket.on("pong", () => pongs++);
  client.socket.ping();
  const before = client.texts.length;
  const silent = fetch(`${fake.url}/queue`, { signal: AbortSignal.timeout(100) });
  await expect(silent).rejects.toThrow();
  expect([pongs, client.texts.length]).toEqual([0, before]);
  fake.resume();
  await expect.poll(client.types).toContain("execution_success");
  await expect.poll(() => pongs).toBe(1);
});

test("Faults of single requests: a status, a broken connection, a reply that is lost after the act.", async () => {
  fake.knobs.faults = (method, path) =>
    method === "POST" && path === "/prompt" ? { status: 503, body: "busy" } : undefined;
  expect(await ask(fake, "POST", "/prompt", { prompt: saving() })).toMatchObject({ status: 503, text: "busy" });
  fake.knobs.faults = () => "breaks";
  await expect(ask(fake, "POST", "/prompt", { prompt: saving() })).rejects.toThrow();
  expect(fake.history()).toEqual([]);
  fake.knobs.faults = () => "reply lost";
  await expect(ask(fake, "POST", "/prompt", { prompt: saving() })).rejects.toThrow();
  await expect.poll(() => fake.history().length).toBe(1);
});

test("Uploads are refused, views fail or are cut short, and free memory falls, as the knobs say.", async () => {
  await submit(saving());
  await expect.poll(() => fake.history().length).toBe(1);
  const whole = (await (await fetch(`${fake.url}/view?filename=made_00001_.png`)).arrayBuffer()).byteLength;
  fake.knobs.truncatesViews = true;
  const cut = await fetch(`${fake.url}/view?filename=made_00001_.png`);
  expect([cut.status, (await cut.arrayBuffer()).byteLength]).toEqual([200, whole >> 1]);
  fake.knobs.viewFails = 500;
  expect((await fetch(`${fake.url}/view?filename=made_00001_.png`)).status).toBe(500);
  fake.knobs.refusesUploads = 507;
  const form = new FormData();
  form.set("image", new File(["x"], "x.png"));
  expect((await ask(fake, "POST", "/upload/image", form)).status).toBe(507);
  fake.knobs.vramStep = -1_000_000;
  const free = async () =>
    ((await ask(fake, "GET", "/system_stats")).body.devices as JsonObject[])[0]?.vram_free as number;
  expect((await free()) - (await free())).toBe(1_000_000);
});

test("What is cached names the old file, even one that is gone; other constants that no node knows make another key.", async () => {
  const history = async (id: string) => (await ask(fake, "GET", `/history/${id}`)).text;
  await submit(saving());
  await expect.poll(() => fake.history().length).toBe(1);
  const again = await submit(saving());
  await expect.poll(() => fake.history().length).toBe(2);
  expect(await history(again)).toContain("made_00001_.png");
  const keyed = saving();
  keyed["2"] = { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "made", job: "j-1" } };
  const other = await submit(keyed);
  await expect.poll(() => fake.history().length).toBe(3);
  expect(await history(other)).toContain("made_00002_.png");
  fake.knobs.cacheKeeps = "nothing";
  await submit(saving());
  await expect.poll(() => fake.history().length).toBe(4);
  expect(fake.files()).toHaveLength(3);
});

test("Everything received is kept, prompts with the graph as sent, over restarts.", async () => {
  const sent = saving();
  sent["1"] = { class_type: "EmptyImage", inputs: { width: "16", height: 16.9, batch_size: 1, color: 5 } };
  await submit(sent, { prompt_id: "0e62a21a-69d7-40ff-b93e-7ba69827e975" });
  await fake.restart();
  expect(fake.prompts).toMatchObject([
    { prompt_id: "0e62a21a-69d7-40ff-b93e-7ba69827e975", client_id: "a", graph: sent },
  ]);
  expect(fake.requests).toMatchObject([{ method: "POST", path: "/prompt", body: { client_id: "a" } }]);
});

test("Loaders list the models that the fake was started with, and refuse others.", async () => {
  const { body } = await ask(fake, "GET", "/object_info/CheckpointLoaderSimple");
  expect(JSON.stringify(body)).toContain('"ckpt_name":[["base.safetensors"],{"tooltip"');
});

test("The folder of its own is gone when the fake is closed.", async () => {
  await fake.close();
  expect(existsSync(fake.folder)).toBe(false);
});
