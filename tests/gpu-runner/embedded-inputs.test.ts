import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../gpu-runner/engine.ts";
import { createEmbeddedEngine } from "../../gpu-runner/engines/embedded/engine.ts";
import { createInputs } from "../../gpu-runner/inputs/create-inputs.ts";
import { bytesOf, type FileServer, pictureOf, serveFiles } from "./comfyui/subject.ts";
import { scratchFolder } from "./engine-contract.ts";

let cache: string;
let files: FileServer;
let engine: Engine;
beforeAll(async () => {
  cache = await mkdtemp(join(tmpdir(), "darkroom-inputs-"));
  files = await serveFiles(
    new Map([
      ["red.png", await pictureOf(40, 30, "red")],
      ["words.txt", Buffer.from("no picture")],
    ]),
  );
  engine = createEmbeddedEngine({ fetcher: await createInputs({ folder: cache, loopback: true }), spares: 0 });
});
afterAll(async () => {
  await engine.close();
  await files.close();
  await rm(cache, { recursive: true, force: true });
});

const load = (image: string) => ({
  3: { class_type: "LoadImage", inputs: { image } },
  4: { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "loaded" } },
});

async function run(graph: object, by = engine) {
  const scratch = await scratchFolder();
  return by.run(JSON.stringify(graph), { signal: new AbortController().signal, onProgress() {}, scratch });
}

test("LoadImage takes the URL of a picture, as it does on a GPU", async () => {
  const result = await run(load(files.urlOf("red.png")));
  if (!result.ok) throw new Error(JSON.stringify(result));
  const [output] = result.outputs;
  if (!output) throw new Error("no output");
  expect(await sharp(await bytesOf(output)).metadata()).toMatchObject({ width: 40, height: 30 });
  expect(result.download_ms).toBeGreaterThan(0);
});

test.each(["words.txt", "none.png"])("%s, which is no picture there, fails the job by its node", async (name) => {
  expect(await run(load(files.urlOf(name)))).toMatchObject({
    ok: false,
    error: { code: "input_download_failed", node_id: "3", details: { field: "image" } },
  });
});

test("without a fetcher a URL is refused, and so are names that reach elsewhere", async () => {
  const alone = createEmbeddedEngine({ spares: 0 });
  for (const image of [files.urlOf("red.png"), "../secret.png"])
    expect(await run(load(image), alone)).toMatchObject({ ok: false, error: { code: "invalid_prompt", node_id: "3" } });
  await alone.close();
});
