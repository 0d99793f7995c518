import fc from "fast-check";
import { describe, expect, it } from "vitest";
import * as v from "valibot";
import { type EngineOutput, OutputLost } from "../../../gpu-runner/engine.ts";
import {
  type Client,
  createClient,
  type HistoryEntry,
  type ServerFile,
  Unreachable,
} from "../../../gpu-runner/engines/comfyui/client.ts";
import { filesIn, type Origin, outputsOf } from "../../../gpu-runner/engines/comfyui/outputs.ts";
import { OutputDescription } from "../../../schemas/job.ts";

const FOLDER = "darkroom/77";
const core: Origin = { folder: FOLDER, isTrusted: () => false };
const pack: Origin = { folder: FOLDER, isTrusted: () => true };

const entryOf = (outputs: Record<string, unknown>, display: Record<string, string> = {}): HistoryEntry => ({
  outputs,
  succeeded: true,
  messages: [],
  displayNodes: new Map(Object.entries(display)),
});

/** A server that gives what `view` says. */
const clientOf = (view: (file: ServerFile) => ReadableStream<Uint8Array> | undefined): Client => ({
  ...createClient("http://127.0.0.1:1"),
  view: async (file) => view(file),
});
const nobody = clientOf(() => undefined);
const sourceOf = (client: Client) => ({ client, strip: false, retry_ms: [1, 1] });

const told = (entry: HistoryEntry, origin = core) => outputsOf(entry, origin, sourceOf(nobody));
const file = (filename: unknown, subfolder: unknown = FOLDER, type: unknown = "output") => ({
  filename,
  subfolder,
  type,
});

async function read(output: EngineOutput | undefined): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of output?.open() ?? []) parts.push(part);
  return Buffer.concat(parts).toString();
}

describe("Outputs", () => {
  it("come in order of their nodes, and of what each shows", () => {
    const entry = entryOf({
      10: { images: [file("c.png")] },
      b: { gifs: [file("d.gif")] },
      9: { images: [file("a.png"), file("b.png")] },
    });
    expect(told(entry).map(({ node_id, index, filename }) => [node_id, index, filename])).toEqual([
      ["9", 0, "a.png"],
      ["9", 1, "b.png"],
      ["10", 0, "c.png"],
      ["b", 0, "d.gif"],
    ]);
  });

  it("of a sub-graph are the outputs of its node, counted through", () => {
    const entry = entryOf({ "5.0.1": { images: [file("a.png")] }, 5: { images: [file("b.png")] } }, { "5.0.1": "5" });
    expect(told(entry).map(({ node_id, index }) => [node_id, index])).toEqual([
      ["5", 0],
      ["5", 1],
    ]);
  });

  it("are previews only where nothing was saved", () => {
    const preview = { 1: { images: [file("p.png", "", "temp")] } };
    expect(told(entryOf(preview)).map(({ filename }) => filename)).toEqual(["p.png"]);
    expect(told(entryOf({ ...preview, 2: { images: [file("s.png")] } })).map(({ filename }) => filename)).toEqual([
      "s.png",
    ]);
  });

  it("are texts, but not beside a file of the same text", async () => {
    const [text] = told(entryOf({ 7: { text: ["hello\ud800"] } }));
    expect(text).toMatchObject({ filename: "7_text_00001_.txt", kind: "text" });
    expect(await read(text)).toBe("hello\ufffd");
    expect(told(entryOf({ 7: { text: ["hello"], files: [file("t.txt")] } })).map(({ filename }) => filename)).toEqual([
      "t.txt",
    ]);
  });

  it.each([
    ["a.png", "image", "image/png"],
    ["a.WEBM", "video", "video/webm"],
    ["a.flac", "audio", "audio/flac"],
    ["a.glb", "file", "model/gltf-binary"],
    ["a.svg", "file", "image/svg+xml"],
    ["a.json", "file", "application/json"],
    ["a.unheard", "file", "application/octet-stream"],
    ["a", "file", "application/octet-stream"],
  ])("of the name %s are of the kind %s and the type %s", (filename, kind, content_type) => {
    expect(told(entryOf({ 1: { images: [file(filename)] } }))[0]).toMatchObject({ kind, content_type });
  });

  it("have the type that their node tells, where it is one", () => {
    const typed = (format: string) => told(entryOf({ 1: { x: [{ ...file("a.unheard"), format }] } }))[0]?.content_type;
    expect(typed("video/h264-mp4")).toBe("video/h264-mp4");
    for (const format of ["mp4", "video/a b", "video/x\nset-cookie: y", `a/${"b".repeat(500)}`])
      expect(typed(format)).toBe("application/octet-stream");
  });

  it("can always be described to the fleet, whatever a node calls its files", () => {
    const names = fc.oneof(
      fc.string({ unit: "binary", minLength: 1, maxLength: 400 }),
      fc.constantFrom(".", "..", "a\nb", "\ud800", "x".repeat(300)),
    );
    fc.assert(
      fc.property(names, fc.string(), (filename, format) => {
        for (const { node_id, kind, content_type, filename: name } of told(
          entryOf({ 1: { x: [{ ...file(filename), format }, "text"] } }),
        )) {
          const description = { node_id, kind, content_type, filename: name, size_bytes: 1, sha256: "0".repeat(64) };
          expect(v.safeParse(OutputDescription, description).success).toBe(true);
        }
      }),
    );
  });

  it("of a shape that no server has are none, and no fault", () => {
    for (const odd of [
      null,
      7,
      "text",
      [],
      [[]],
      { images: null },
      { images: [null, 7, true, [], {}, file(""), file(7), file("x", "", "input")] },
    ])
      expect(told(entryOf({ 1: odd }), pack)).toEqual([]);
    fc.assert(fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (outputs) => void told(entryOf(outputs), pack)));
  });

  it("of a node with a prototype's name are outputs", () => {
    const outputs = JSON.parse(`{"__proto__":{"images":[${JSON.stringify(file("a.png"))}]}}`);
    expect(told(entryOf(outputs)).map(({ node_id }) => node_id)).toEqual(["__proto__"]);
  });
});

describe("A file is the run's own", () => {
  const isOwn = (one: object, origin: Origin) => filesIn(entryOf({ 1: { images: [one] } }), origin).length === 1;

  it.each([
    [file("a.png"), true, true],
    [file("a.png", "darkroom/77/deep"), true, true],
    [file("a.png", "darkroom\\77"), true, true],
    [file("a.png", "./darkroom//77/"), true, true],
    [file("p.png", "", "temp"), true, true],
    [file("a.png", ""), false, true],
    [file("a.png", "video"), false, true],
    [file("a.png", "darkroom/78"), false, false],
    [file("a.png", "darkroom/777"), false, false],
    [file("a.png", "darkroom"), false, false],
    [file("a.png", "./darkroom/78"), false, false],
    [file("a.png", ".\\DARKROOM\\78"), false, false],
    [file("a.png", "/darkroom/78"), false, false],
    [file("a.png", "darkroom/77/../78"), false, false],
    [file("a.png", "..", "temp"), false, false],
    [file("../output/a.png", "", "temp"), false, false],
    [file("../78/a.png"), false, false],
    [file("..\\78\\a.png"), false, false],
    [file("example.png", "", "input"), false, false],
  ])("%j: for a core class %j, for an opened pack's %j", (one, ofCore, ofPack) => {
    expect([isOwn(one, core), isOwn(one, pack)]).toEqual([ofCore, ofPack]);
    expect(told(entryOf({ 1: { images: [one] } }), core)).toHaveLength(ofCore ? 1 : 0);
  });
});

describe("Reading an output", () => {
  const entry = entryOf({ 1: { images: [file("a.png")] } });
  const opened = (client: Client) => outputsOf(entry, core, sourceOf(client))[0];

  it("asks for exactly its file, each time from the start", async () => {
    const asked: ServerFile[] = [];
    const output = opened(
      clientOf((one) => {
        asked.push(one);
        return new Blob(["bytes"]).stream();
      }),
    );
    expect([await read(output), await read(output)]).toEqual(["bytes", "bytes"]);
    expect(asked).toEqual(Array(2).fill({ filename: "a.png", subfolder: FOLDER, type: "output" }));
  });

  it("asks again where the server did not answer", async () => {
    let asked = 0;
    const output = opened(
      clientOf(() => {
        if (++asked === 1) throw new Unreachable("/view", "busy");
        return new Blob(["bytes"]).stream();
      }),
    );
    expect(await read(output)).toBe("bytes");
  });

  it("rejects with OutputLost where the file is gone or breaks off", async () => {
    await expect(read(opened(nobody))).rejects.toThrow(OutputLost);
    const broken = clientOf(
      () =>
        new ReadableStream({
          start(controller) {
            controller.enqueue(Buffer.from("half"));
          },
          pull(controller) {
            controller.error(new Error("reset"));
          },
        }),
    );
    await expect(read(opened(broken))).rejects.toThrow(OutputLost);
  });
});
