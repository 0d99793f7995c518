import { Agent } from "node:http";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isObject, type Json, type JsonObject } from "../fakes/comfyui/python-json.ts";
import { type FakeComfyui, startFakeComfyui } from "../fakes/comfyui/server.ts";
import { ask, listen, saving } from "./comfyui-fake-client.ts";
import { type RecordedHttp, readRecording } from "./comfyui-fake-recording.ts";

let fake: FakeComfyui;
beforeEach(async () => {
  fake = await startFakeComfyui();
});
afterEach(() => fake.close());

interface OddCase {
  readonly case: string;
  readonly request_body: JsonObject;
  readonly status: number;
  readonly response_body: JsonObject | string;
  readonly "the next prompt ran"?: boolean;
  readonly "queue after"?: { readonly queue_running: number; readonly queue_pending: number } | null;
  readonly "first in history"?: boolean;
  readonly ws?: readonly (readonly [type: string, detail: Json])[];
}

/** A message as the recording tells it: type, and the node or the queue's length. */
function told(text: string): readonly [string, Json] {
  const { type, data } = JSON.parse(text) as { type: string; data: JsonObject };
  const status = data.status as JsonObject | undefined;
  return [type, status === undefined ? (data.node ?? null) : { exec_info: status.exec_info ?? null }];
}

const length = (list: Json | undefined): number => (Array.isArray(list) ? list.length : -1);

describe("Odd prompts, as recorded one server process each", () => {
  const { cases } = readRecording<{ cases: readonly OddCase[] }>("odd-prompts");
  for (const odd of cases) {
    test(`A prompt with "${odd.case}" does to the fake what it did to ComfyUI.`, async () => {
      const client_id = "odd-client";
      const client = await listen(fake, client_id);
      const given = odd.request_body.client_id === "<client id>" ? { client_id } : {};
      const answer = await ask(fake, "POST", "/prompt", { ...odd.request_body, ...given });
      expect(answer.status).toBe(odd.status);
      if (typeof odd.response_body === "string") expect(answer.text).toBe(odd.response_body);
      else
        expect(answer.body).toMatchObject({
          ...odd.response_body,
          ...(odd.status === 200 ? { prompt_id: expect.any(String) } : {}),
        });
      if (odd["the next prompt ran"] === undefined) return;
      const { prompt_id } = answer.body;
      if (odd["queue after"] === null) {
        await expect.poll(client.closedWith).toBe(1006);
        await expect(ask(fake, "GET", "/queue")).rejects.toThrow();
      } else {
        const settled = odd["the next prompt ran"] ? 1 : 0;
        await expect.poll(() => fake.history().length).toBe(settled);
        await expect.poll(() => fake.running() !== undefined).toBe(!odd["the next prompt ran"]);
        await ask(fake, "POST", "/prompt", { client_id, prompt: saving(9) });
        await expect.poll(() => fake.history().length).toBe(settled * 2);
        await expect.poll(() => client.texts.length).toBeGreaterThanOrEqual(odd.ws?.length ?? 0);
        const { body } = await ask(fake, "GET", "/queue");
        expect({ queue_running: length(body.queue_running), queue_pending: length(body.queue_pending) }).toEqual(
          odd["queue after"],
        );
        expect(fake.history().includes(String(prompt_id))).toBe(odd["first in history"]);
      }
      const messages = client.texts.map(told).filter(([type]) => type !== "progress_state");
      expect(messages).toEqual(odd.ws);
    });
  }
});

const showing = (class_type: string, inputs: JsonObject = {}) => ({
  ...saving(),
  "3": { class_type, inputs: { image: ["1", 0], ...inputs } },
});

test("A ui that holds NaN stands bare in the message and in the history, which are no JSON then.", async () => {
  const client = await listen(fake, "a");
  const { body } = await ask(fake, "POST", "/prompt", { client_id: "a", prompt: showing("TestNaN") });
  await expect.poll(() => fake.history().length).toBe(1);
  await expect
    .poll(() => client.texts.find((text) => text.includes('"executed"') && text.includes("score")))
    .toContain('"output": {"score": [NaN, Infinity]}');
  const answer = await fetch(`${fake.url}/history/${String(body.prompt_id)}`);
  expect(() => JSON.parse(client.texts.find((text) => text.includes("score")) ?? "")).toThrow(SyntaxError);
  await expect(answer.json()).rejects.toThrow(SyntaxError);
});

test("A node that ends the worker leaves HTTP answering, its prompt running, and later ones waiting.", async () => {
  const failing = showing("TestFail", { kind: "worker", message: "" });
  const prompt = { ...failing, "4": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "z" } } };
  const client = await listen(fake, "a");
  const { body } = await ask(fake, "POST", "/prompt", { client_id: "a", prompt });
  await expect.poll(() => client.types().filter((type) => type === "executing")).toHaveLength(3);
  const next = await ask(fake, "POST", "/prompt", { prompt: saving() });
  expect((await ask(fake, "POST", `/api/jobs/${String(body.prompt_id)}/cancel`)).body).toEqual({ cancelled: true });
  expect((await ask(fake, "GET", `/api/jobs/${String(body.prompt_id)}`)).body.status).toBe("in_progress");
  expect((await ask(fake, "GET", `/api/jobs/${String(next.body.prompt_id)}`)).body.status).toBe("pending");
  await fake.restart();
  await ask(fake, "POST", "/prompt", { prompt: saving() });
  await expect.poll(() => fake.history().length).toBe(1);
});

test("A node that ends the process closes the sockets without a close frame, and the port refuses.", async () => {
  const client = await listen(fake, "a");
  const failing = showing("TestFail", { kind: "process", message: "" });
  const prompt = { ...failing, "4": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "z" } } };
  await ask(fake, "POST", "/prompt", { client_id: "a", prompt });
  await expect.poll(client.closedWith).toBe(1006);
  await expect(ask(fake, "GET", "/queue")).rejects.toThrow();
});

test("While a prompt with extra_pnginfo null is in the history, the jobs API answers 500 for every prompt.", async () => {
  const good = await ask(fake, "POST", "/prompt", { prompt: saving(1) });
  const bad = await ask(fake, "POST", "/prompt", { prompt: saving(2), extra_data: { extra_pnginfo: null } });
  await expect.poll(() => fake.history().length).toBe(2);
  expect((await ask(fake, "GET", `/api/jobs/${String(good.body.prompt_id)}`)).status).toBe(500);
  expect((await ask(fake, "GET", "/api/jobs")).status).toBe(500);
  await ask(fake, "POST", "/history", { delete: [bad.body.prompt_id ?? null] });
  expect((await ask(fake, "GET", `/api/jobs/${String(good.body.prompt_id)}`)).body.status).toBe("completed");
});

test("The same id and number twice among the pending is 500, and the second is not queued.", async () => {
  const prompt_id = "0e62a21a-69d7-40ff-b93e-7ba69827e975";
  const long = {
    ...saving(),
    "3": { class_type: "TestBlock", inputs: { image: ["1", 0], ms: 5000 } },
    "4": { class_type: "PreviewImage", inputs: { images: ["3", 0] } },
  };
  await ask(fake, "POST", "/prompt", { prompt: long });
  await expect.poll(() => fake.running()).toBeDefined();
  expect((await ask(fake, "POST", "/prompt", { prompt: saving(), prompt_id, number: 7 })).status).toBe(200);
  expect((await ask(fake, "POST", "/prompt", { prompt: saving(), prompt_id, number: 7 })).status).toBe(500);
  expect(fake.queued()).toEqual([prompt_id]);
});

test("A chain deeper than Python's stack is refused, with the reason somewhere up the chain.", async () => {
  const chain: Record<string, JsonObject> = saving();
  let last = "1";
  for (let n = 0; n < 1100; n++) {
    chain[`n${n}`] = { class_type: "ImageInvert", inputs: { image: [last, 0] } };
    last = `n${n}`;
  }
  chain["2"] = { class_type: "SaveImage", inputs: { images: [last, 0], filename_prefix: "deep" } };
  const { status, text } = await ask(fake, "POST", "/prompt", { prompt: chain });
  expect(status).toBe(400);
  expect(text).toContain("RecursionError");
});

/** The recorded sizes are played so many times smaller, with a limit that is so many times smaller too. */
const SMALLER = 10_000;

function smallBody({ request_body }: RecordedHttp): Json | FormData {
  if (!isObject(request_body)) return null;
  const [part] = Array.isArray(request_body.multipart) ? request_body.multipart : [];
  if (isObject(part)) {
    const form = new FormData();
    form.set("image", new File(["x".repeat(Number(part.bytes) / SMALLER)], String(part.filename)));
    return form;
  }
  if (!isObject(request_body.extra_data)) return request_body;
  const megabytes = Number(/\d+/.exec(String(request_body.extra_data.padding))?.[0]);
  return { prompt: saving(), extra_data: { padding: "x".repeat((megabytes * 1_000_000) / SMALLER) } };
}

test("Bodies over the limit are refused as recorded, and their connection understands nothing more.", async () => {
  await fake.close();
  const limit = Math.floor((100 * 2 ** 20) / SMALLER);
  fake = await startFakeComfyui({ maxUploadSize_bytes: limit });
  const kept = new Agent({ keepAlive: true, maxSockets: 1 });
  for (const recorded of readRecording("body-sizes").http) {
    const isSpoiled = recorded.seq === 46 || recorded.seq === 48;
    const body = recorded.method === "GET" ? undefined : smallBody(recorded);
    const answer = await ask(fake, recorded.method ?? "", recorded.path ?? "", body, isSpoiled ? kept : false);
    expect(answer.status).toBe(recorded.status);
    if (typeof recorded.response_body === "string")
      expect(answer.text.replace(String(limit), "104857600")).toBe(recorded.response_body);
    else expect(Object.keys(answer.body)).toEqual(Object.keys(recorded.response_body ?? {}));
  }
  kept.destroy();
});
