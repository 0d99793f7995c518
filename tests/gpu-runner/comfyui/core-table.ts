import { randomUUID } from "node:crypto";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EngineProgress } from "../../../gpu-runner/engine.ts";
import type { EngineSubject } from "../engine-contract.ts";
import { type Client, createClient } from "../../../gpu-runner/engines/comfyui/client.ts";
import { abilitiesOf } from "../../../gpu-runner/engines/comfyui/version.ts";
import {
  type FileServer,
  freshImage,
  pictureOf,
  saveImage,
  serveFiles,
  type Subject,
  type SubjectOptions,
  startSubject,
  until,
} from "./subject.ts";

/** A server to try the engine on, which has ComfyUI's core classes and no model. */
export interface TableServer {
  readonly url: string;
  /** The folder of its files, where this process may reach it. */
  readonly folder?: string;
  readonly allow?: string;
  /** A graph that works for some seconds, and is stopped within one. */
  slow(): Record<string, object>;
  /** A graph whose node "2" raises, and the class of that node. */
  failing(): { readonly graph: Record<string, object>; readonly node_class: string };
  /** It is the real thing: numbers are kept as Python keeps them. */
  readonly isReal: boolean;
  close(): Promise<void>;
}

/** The graphs of the engine contract, for a server. */
export const contractPrompts = ({
  slow,
  failing,
}: Pick<TableServer, "slow" | "failing">): EngineSubject["prompts"] => ({
  outputs: words({ 1: freshImage(32, 32, 2), 2: freshImage(), 10: saveImage("1"), 9: saveImage("2") }),
  slow: words(slow()),
  failing: { prompt: words(failing().graph), code: "execution_failed", node_id: "2" },
  missingClass: words({ 1: { class_type: "NoSuchClass", inputs: {} }, 2: saveImage("1") }),
});

const words = (value: unknown): string => JSON.stringify(value);

/** The rows of the table of behaviours that core classes can show on any server. */
export function coreTable(name: string, startServer: () => Promise<TableServer>): void {
  describe(`On ${name}`, () => {
    let server: TableServer;
    let client: Client;
    let files: FileServer;
    let subject: Subject;
    beforeAll(async () => {
      server = await startServer();
      client = createClient(server.url);
      files = await serveFiles(
        new Map([
          ["red.png", await pictureOf(40, 30, "red")],
          ["blue.png", await pictureOf(20, 10, "blue")],
          ["words.txt", Buffer.from("no picture at all")],
        ]),
      );
      subject = await startSubject(settings());
      await subject.engine.describe();
    });
    afterAll(async () => {
      await subject?.close();
      await files?.close();
      await server?.close();
    });

    const settings = (): SubjectOptions => ({
      servers: [{ url: server.url, ...(server.folder === undefined ? {} : { folder: server.folder }) }],
      ...(server.allow === undefined ? {} : { allow: server.allow }),
    });

    async function submitAsStranger(graph: object): Promise<string> {
      const submitted = await client.submit(words(graph), { prompt_id: randomUUID(), client_id: randomUUID() });
      if (!submitted.ok) throw new Error(words(submitted.body));
      return submitted.prompt_id;
    }

    /** Runs a graph until it is seen at work, then calls `then`. */
    async function whileRunning(graph: object, then: (abort: () => void) => Promise<void> | void) {
      const controller = new AbortController();
      const seen = Promise.withResolvers<void>();
      const running = subject.run(graph, { signal: controller.signal, onProgress: () => seen.resolve() });
      await Promise.race([seen.promise, running]);
      await then(() => controller.abort());
      return running;
    }

    it("describes the server: version, open classes without the closed ones, and why these are closed", async () => {
      const described = await subject.engine.describe();
      expect(described.name).toBe("comfyui");
      expect(described.version).toMatch(/^\d+\.\d+/);
      expect(described.classes).toEqual(expect.arrayContaining(["EmptyImage", "SaveImage", "LoadImage"]));
      expect(described.classes).not.toContain("LoadImageOutput");
      expect(words(described.closed)).toContain("LoadImageOutput");
      for (const { reason, opened_by } of described.closed ?? []) {
        expect(reason).toMatch(/\.$/);
        expect(opened_by).toMatch(/^COMFYUI_ALLOW=/);
      }
    });

    it("returns pictures by node and index, under the names that their nodes gave", async () => {
      const graph = { 1: freshImage(32, 16, 2), 10: saveImage("1", "a/b/deep"), 9: saveImage("1", "flat") };
      const { outputs } = await subject.run(graph);
      expect(outputs.map(({ node_id, index, filename }) => [node_id, index, filename])).toEqual([
        ["9", 0, "flat_00001_.png"],
        ["9", 1, "flat_00002_.png"],
        ["10", 0, "deep_00001_.png"],
        ["10", 1, "deep_00002_.png"],
      ]);
      for (const { bytes, kind, content_type } of outputs) {
        expect([kind, content_type]).toEqual(["image", "image/png"]);
        expect(await sharp(bytes).metadata()).toMatchObject({ width: 32, height: 16 });
      }
    });

    it("gives previews only where nothing else was saved", async () => {
      const image = freshImage();
      const preview = { class_type: "PreviewImage", inputs: { images: ["1", 0] } };
      const alone = await subject.run({ 1: image, 2: preview });
      expect(alone.outputs.map(({ node_id }) => node_id)).toEqual(["2"]);
      const beside = await subject.run({ 1: image, 2: preview, 3: saveImage("1") });
      expect(beside.outputs.map(({ node_id }) => node_id)).toEqual(["3"]);
    });

    it("gives texts as files of their own", async () => {
      const { outputs } = await subject.run({ 7: { class_type: "PreviewAny", inputs: { source: "hello" } } });
      expect(outputs.map(({ filename, kind, bytes }) => [filename, kind, bytes.toString()])).toEqual([
        ["7_text_00001_.txt", "text", "hello"],
      ]);
    });

    it("gives each run of one graph files of its own, and leaves nothing of them on the server", async () => {
      const graph = { 1: freshImage(), 2: saveImage("1", "again"), 3: saveImage("1", "other") };
      const runs = [await subject.run(graph), await subject.run(graph), await subject.run(graph)];
      for (const { outputs } of runs) expect(outputs.map(({ bytes }) => bytes.length > 100)).toEqual([true, true]);
      const history = await fetch(`${server.url}/history`);
      expect(await history.json()).toEqual({});
    });

    it("leaves out what no output needs, also where it is broken", async () => {
      const graph = {
        1: freshImage(),
        2: saveImage("1"),
        5: { class_type: "ImageInvert", inputs: { image: ["1", 7] } },
        6: { class_type: "EmptyImage", inputs: {} },
      };
      expect((await subject.run(graph)).outputs).toHaveLength(1);
    });

    it("keeps every digit of a number", async ({ skip }) => {
      if (!server.isReal) skip("the fake server parses numbers as JavaScript does");
      const text = `{"1":${words(freshImage())},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"n",
        "seed":18446744073709551615,"scale":1.0}}}`;
      const { outputs } = await subject.run(text);
      const { comments } = await sharp(outputs[0]?.bytes).metadata();
      const written = comments?.find(({ keyword }) => keyword === "prompt")?.text ?? "";
      expect(written).toContain("18446744073709551615");
      expect(written).toContain('"scale": 1.0');
    });

    it("refuses values in its own words, with node and field", async () => {
      const { error } = await subject.run({ 1: { class_type: "EmptyImage", inputs: { width: 0 } }, 2: saveImage("1") });
      expect(error).toMatchObject({ code: "invalid_prompt", node_id: "1" });
      expect(error.details?.node_errors).toMatchObject({
        1: expect.arrayContaining([
          {
            field: "width",
            reason: "value_smaller_than_min",
            message: "The value 0 of the input width is too small: at least 1.",
          },
        ]),
      });
    });

    it("refuses a graph of which one output is good and another is not, and runs no part of it", async () => {
      const graph = {
        1: freshImage(),
        2: saveImage("1"),
        3: { class_type: "SaveImage", inputs: { images: ["1", 0] } },
      };
      const { error } = await subject.run(graph);
      expect(error).toMatchObject({ code: "invalid_prompt", node_id: "3" });
      expect(words(error.details)).toContain("required_input_missing");
    });

    it("tells a model that is in no list as missing_model, and not which there are", async () => {
      const scale = { image: ["1", 0], upscale_method: "sharpest", width: 10, height: 10, crop: "disabled" };
      const graph = { 1: freshImage(), 2: { class_type: "ImageScale", inputs: scale }, 3: saveImage("2") };
      const { error } = await subject.run(graph);
      expect(error).toMatchObject({ code: "missing_model", node_id: "2" });
      expect(words(error)).toContain("sharpest");
      expect(words(error)).not.toContain("nearest");
    });

    it("refuses classes that are not there, and classes that are closed", async () => {
      const strange = await subject.run({ 1: { class_type: "NoSuchClass", inputs: {} }, 2: saveImage("1") });
      expect(strange.error).toMatchObject({ code: "missing_node", node_id: "1" });
      const closed = { class_type: "LoadImageOutput", inputs: { image: "secret.png" } };
      const { error } = await subject.run({ 1: closed, 2: saveImage("1") });
      expect(error).toMatchObject({ code: "missing_node", node_id: "1" });
      expect(error.message).toContain("does not execute");
    });

    it("refuses a graph without an output", async () => {
      expect((await subject.run({ 1: freshImage() })).error).toMatchObject({ code: "invalid_prompt" });
    });

    it("tells an exception of a node with its class and its frames, and no path of the server", async () => {
      const { graph, node_class } = server.failing();
      const { error } = await subject.run(graph);
      expect(error).toMatchObject({ code: "execution_failed", node_id: "2" });
      expect(error.message).toMatch(new RegExp(`^Node 2 \\(${node_class}\\) failed: `));
      expect(error.details).toMatchObject({ node_class, exception_type: expect.stringMatching(/Error$/) });
      expect(error.details?.frames).toContainEqual(expect.stringMatching(/^[\w]+\.py:\d+/));
      expect(words(error)).not.toContain("/");
      expect(subject.log.join("\n")).toContain("current_inputs");
    });

    it("tells memory that runs out, and works on", async () => {
      const huge = { class_type: "EmptyImage", inputs: { width: 16384, height: 16384, batch_size: 4096, color: 0 } };
      const { error } = await subject.run({ 1: huge, 2: saveImage("1") });
      expect(error).toMatchObject({ code: "out_of_memory", node_id: "1" });
      expect((await subject.run({ 1: freshImage(), 2: saveImage("1") })).outputs).toHaveLength(1);
    });

    it("tells a progress that never falls, with the node at work and the count of nodes", async () => {
      const told: EngineProgress[] = [];
      const graph = {
        1: freshImage(),
        2: { class_type: "ImageInvert", inputs: { image: ["1", 0] } },
        3: saveImage("2"),
      };
      await subject.run(graph, { onProgress: (progress) => told.push(progress) });
      const values = told.map(({ value }) => value);
      expect(values).toEqual(values.toSorted((a, b) => a - b));
      // Servers before 0.3.45 tell which node begins, and not that the last one has ended.
      const { ownPromptId } = abilitiesOf((await client.systemStats()).version);
      expect(told.at(-1)).toMatchObject(
        ownPromptId ? { value: 1, nodes_done: 3, nodes_total: 3 } : { nodes_done: 2, nodes_total: 3 },
      );
      expect(told.map(({ node_class }) => node_class)).toEqual(expect.arrayContaining(["EmptyImage", "SaveImage"]));
    });

    it("fetches a file input from its URL, and removes it from the server", async () => {
      const load = { class_type: "LoadImage", inputs: { image: files.urlOf("red.png") } };
      const { result, outputs } = await subject.run({ 1: load, 2: saveImage("1") });
      const picture = sharp(outputs[0]?.bytes);
      expect(await picture.metadata()).toMatchObject({ width: 40, height: 30 });
      expect((await picture.stats()).dominant).toMatchObject({ r: expect.any(Number), b: expect.any(Number) });
      expect(result.ok && result.download_ms).toBeGreaterThan(0);
      const listed = await (await fetch(`${server.url}/object_info/LoadImage`)).text();
      if (server.folder === undefined) return;
      expect(listed).not.toContain("darkroom-");
    });

    it("keeps two inputs of one graph apart", async () => {
      const graph = {
        1: { class_type: "LoadImage", inputs: { image: files.urlOf("red.png") } },
        2: { class_type: "LoadImage", inputs: { image: files.urlOf("blue.png") } },
        3: saveImage("1"),
        4: saveImage("2"),
      };
      const { outputs } = await subject.run(graph);
      const widths = await Promise.all(outputs.map(async ({ bytes }) => (await sharp(bytes).metadata()).width));
      expect(widths).toEqual([40, 20]);
    });

    it.each(["example.png", "sub/example.png", "../secret.png", "/etc/passwd", "x.png [output]", "x.png [temp]", ""])(
      "refuses the file name %j where a URL belongs, and says what to give",
      async (image) => {
        const { error } = await subject.run({ 1: { class_type: "LoadImage", inputs: { image } }, 2: saveImage("1") });
        expect(error).toMatchObject({ code: "invalid_prompt", node_id: "1" });
        expect(error.message).toContain("https:");
      },
    );

    it("refuses a file input that comes out of another node", async () => {
      const text = { class_type: "PrimitiveString", inputs: { value: "example.png" } };
      const load = { class_type: "LoadImage", inputs: { image: ["1", 0] } };
      const graph = { 1: text, 2: load, 3: saveImage("2") };
      const { error } = await subject.run(graph);
      expect(["invalid_prompt", "missing_node"]).toContain(error.code);
    });

    it("refuses an input that is no picture, or that can't be fetched, by its node", async () => {
      for (const name of ["words.txt", "none.png"]) {
        const load = { class_type: "LoadImage", inputs: { image: files.urlOf(name) } };
        const { error } = await subject.run({ 4: load, 5: saveImage("4") });
        expect(error).toMatchObject({ code: "input_download_failed", node_id: "4" });
      }
    });

    it("makes a prefix harmless that would leave the folder of the run", async () => {
      const { outputs } = await subject.run({ 1: freshImage(), 2: saveImage("1", "../../../up/there") });
      expect(outputs.map(({ filename }) => filename)).toEqual(["there_00001_.png"]);
    });

    it("stops a running prompt, and is idle then", async () => {
      const { result } = await whileRunning(server.slow(), (abort) => abort());
      expect(result).toMatchObject({ ok: false, reason: "interrupted" });
      expect(await client.queue()).toMatchObject({ running: [], pending: [] });
    });

    it("stops exactly its own prompt: a stranger's that waits behind it runs on", async () => {
      let strangers = "";
      await whileRunning(server.slow(), async (abort) => {
        strangers = await submitAsStranger({ 1: freshImage(), 2: saveImage("1", "stranger") });
        abort();
      });
      await until(async () => (await client.history(strangers)) !== undefined, "the stranger's prompt has ended");
      expect(await client.history(strangers)).toMatchObject({ succeeded: true });
      await client.forget(strangers);
    });

    it("takes its prompt back while a stranger's runs, and leaves that alone", async () => {
      const strangers = await submitAsStranger(server.slow());
      await until(async () => (await client.queue()).running.includes(strangers), "the stranger's prompt runs");
      const controller = new AbortController();
      const running = subject.run({ 1: freshImage(), 2: saveImage("1") }, { signal: controller.signal });
      await until(async () => (await client.queue()).pending.length === 1, "the own prompt waits");
      controller.abort();
      expect((await running).result).toMatchObject({ ok: false, reason: "interrupted" });
      expect(await client.queue()).toMatchObject({ running: [strangers], pending: [] });
      await client.interrupt(strangers);
      await until(async () => (await client.history(strangers)) !== undefined, "the stranger's prompt has ended");
      await client.forget(strangers);
    });

    it("is never left hanging by a stop, whenever that comes", async () => {
      for (let delay = 0; delay < 24; delay += 2) {
        const controller = new AbortController();
        setTimeout(() => controller.abort(), delay);
        const { result } = await subject.run(server.slow(), { signal: controller.signal });
        expect(result).toMatchObject({ ok: false, reason: "interrupted" });
      }
      expect(await client.queue()).toMatchObject({ running: [], pending: [] });
      expect((await subject.run({ 1: freshImage(), 2: saveImage("1") })).outputs).toHaveLength(1);
    });
  });
}
