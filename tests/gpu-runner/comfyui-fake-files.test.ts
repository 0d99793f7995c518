import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import type { JsonObject } from "../fakes/comfyui/python-json.ts";
import { type FakeComfyui, startFakeComfyui } from "../fakes/comfyui/server.ts";
import { ask, listen, saving } from "./comfyui-fake-client.ts";

let fake: FakeComfyui;
beforeEach(async () => {
  fake = await startFakeComfyui();
});
afterEach(() => fake.close());

async function run(prompt: Record<string, JsonObject>, extra_data: JsonObject = {}): Promise<JsonObject> {
  const { body } = await ask(fake, "POST", "/prompt", { client_id: "a", prompt, extra_data });
  const id = String(body.prompt_id);
  await expect.poll(() => fake.history()).toContain(id);
  return (await ask(fake, "GET", `/history/${id}`)).body[id] as JsonObject;
}

const upload = (bytes: BlobPart, name: string, fields: Readonly<Record<string, string>> = {}) => {
  const form = new FormData();
  form.set("image", new File([bytes], name));
  for (const [key, value] of Object.entries(fields)) form.set(key, value);
  return ask(fake, "POST", "/upload/image", form);
};

test("A saved PNG has the right colour and carries the prompt and extra_pnginfo as text.", async () => {
  await run(saving(0x336699, "in/a folder/pic"), { extra_pnginfo: { workflow: { id: "w" } } });
  expect(fake.files()).toEqual(["output/in/a folder/pic_00001_.png"]);
  const bytes = readFileSync(join(fake.folder, "output/in/a folder/pic_00001_.png"));
  const { data, info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true });
  expect([info.width, info.height, ...data.subarray(0, 3)]).toEqual([16, 16, 0x33, 0x66, 0x99]);
  expect(bytes.toString("latin1")).toContain('tEXtprompt\0{"1": {"class_type": "EmptyImage", "inputs": {"width": 16');
  expect(bytes.toString("latin1")).toContain('tEXtworkflow\0{"id": "w"}');
});

test("A prefix that leaves the output folder is a failure of the node.", async () => {
  const { status } = await run(saving(1, "../../evil"));
  expect(JSON.stringify(status)).toContain("Saving image outside the output folder is not allowed.");
});

test("Names of uploads: raw UTF-8 is kept, a backslash is a letter, a folder in a name or an overlong name is 500.", async () => {
  expect((await upload("x", "a ünï ☃.png")).body.name).toBe("a ünï ☃.png");
  expect((await upload("x", "..\\x.png")).body.name).toBe("..\\x.png");
  expect((await upload("x", "aa/x.png")).status).toBe(500);
  expect((await upload("x", "/abs/x.png")).status).toBe(500);
  expect((await upload("x", "../x.png")).status).toBe(400);
  expect((await upload("x", `${"n".repeat(300)}.png`)).status).toBe(500);
});

test("An uploaded picture can be loaded by subfolder and from other folders, and comes out as it went in.", async () => {
  const red = await sharp({ create: { width: 5, height: 4, channels: 3, background: "#ff0000" } })
    .png()
    .toBuffer();
  await upload(new Uint8Array(red), "red.png", { subfolder: "jobs/j1", type: "temp" });
  await run({
    "1": { class_type: "LoadImage", inputs: { image: "jobs/j1/red.png [temp]" } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "out" } },
  });
  const { data, info } = await sharp(join(fake.folder, "output/out_00001_.png"))
    .raw()
    .toBuffer({ resolveWithObject: true });
  expect([info.width, info.height, ...data.subarray(0, 3)]).toEqual([5, 4, 255, 0, 0]);
  const outside = {
    "1": { class_type: "LoadImage", inputs: { image: "../../start.sh" } },
    "2": { class_type: "PreviewImage", inputs: { images: ["1", 0] } },
  };
  expect((await ask(fake, "POST", "/prompt", { prompt: outside })).text).toContain(
    "Invalid image file: ../../start.sh",
  );
});

test("LoadImage lists the pictures that lie in the input folder now.", async () => {
  await upload("x", "one.png");
  await upload("x", "one.txt");
  const { body } = await ask(fake, "GET", "/object_info/LoadImage");
  expect(body).toMatchObject({
    LoadImage: { input: { required: { image: [["one.png"], { image_upload: true }] } }, python_module: "nodes" },
  });
});

test("What a browser might run is served as an attachment; an unknown type as bytes; a range beyond the end is 416.", async () => {
  const put = (name: string) => writeFileSync(join(fake.folder, "output", name), "content");
  for (const name of ["a.html", "a.svg", "a.mp4", "a.bin", "empty.png"]) put(name);
  const view = (query: string, headers: Record<string, string> = {}) =>
    fetch(`${fake.url}/view?filename=${query}`, { headers });
  const html = await view("a.html");
  expect([html.headers.get("content-type"), html.headers.get("content-disposition")]).toEqual([
    "application/octet-stream",
    'attachment; filename="a.html"',
  ]);
  expect((await view("a.svg")).headers.get("content-type")).toBe("application/octet-stream");
  expect((await view("a.mp4")).headers.get("content-type")).toBe("video/mp4");
  expect((await view("a.bin")).headers.get("content-type")).toBe("application/octet-stream");
  expect((await view("a.mp4", { range: "bytes=99999-" })).status).toBe(416);
  expect((await view("empty.png&channel=rgb")).status).toBe(500);
  expect((await view("a.mp4&type=")).status).toBe(400);
  expect((await view("a.mp4&subfolder=/etc")).status).toBe(403);
});

test("Other kinds of outputs are named under their own keys, and their files are there.", async () => {
  const entry = await run({
    ...saving(),
    "3": { class_type: "EmptyAudio", inputs: { duration: 1, sample_rate: 44100, channels: 2 } },
    "4": { class_type: "SaveAudio", inputs: { audio: ["3", 0], filename_prefix: "audio/a" } },
    "5": { class_type: "CreateVideo", inputs: { images: ["1", 0], fps: 8 } },
    "6": {
      class_type: "SaveVideo",
      inputs: { video: ["5", 0], filename_prefix: "video/v", format: "auto", codec: "auto" },
    },
    "7": {
      class_type: "VHS_VideoCombine",
      inputs: { images: ["1", 0], frame_rate: 8, filename_prefix: "clip", format: "video/h264-mp4", save_output: true },
    },
  });
  expect(entry.outputs).toMatchObject({
    "4": { audio: [{ filename: "a_00001_.flac", subfolder: "audio", type: "output" }] },
    "6": { images: [{ filename: "v_00001_.mp4", subfolder: "video", type: "output" }], animated: [true] },
    "7": {
      gifs: [{ filename: "clip_00001.mp4", subfolder: "", type: "output", format: "video/h264-mp4", frame_rate: 8 }],
    },
  });
  expect(fake.files()).toEqual([
    "output/audio/a_00001_.flac",
    "output/clip_00001.mp4",
    "output/made_00001_.png",
    "output/video/v_00001_.mp4",
  ]);
});

test("SaveImageWebsocket sends its pictures as frames, without executed and without outputs.", async () => {
  const client = await listen(fake, "a");
  const images = { class_type: "EmptyImage", inputs: { width: 8, height: 8, batch_size: 2, color: 1 } };
  const { outputs } = await run({
    "1": images,
    out: { class_type: "SaveImageWebsocket", inputs: { images: ["1", 0] } },
  });
  expect(outputs).toEqual({});
  expect(client.types()).not.toContain("executed");
  expect(
    client.frames.map((frame) => [frame.readUInt32BE(0), frame.readUInt32BE(4), frame.toString("latin1", 9, 12)]),
  ).toEqual([
    [1, 2, "PNG"],
    [1, 2, "PNG"],
  ]);
});

test("A socket from a foreign origin is refused with 403; junk from a client is ignored.", async () => {
  const refused = new WebSocket(`${fake.url.replace("http", "ws")}/ws?clientId=b`, { origin: "http://evil.example" });
  const message = await new Promise<string>((resolve) =>
    refused.once("error", (error: Error) => resolve(error.message)),
  );
  expect(message).toContain("403");
  const client = await listen(fake, "a");
  client.socket.send("junk");
  client.socket.send(Buffer.from([1, 2, 3]));
  await run(saving());
  await expect.poll(client.types).toContain("execution_success");
});
