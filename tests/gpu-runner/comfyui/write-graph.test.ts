import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fileKey, runNames, writeGraph } from "../../../gpu-runner/engines/comfyui/write-graph.ts";
import { acceptedPlan, empty, save, smallInfo } from "./small-info.ts";

const NAMES = runNames("0123456789abcdef");

const writtenText = (graph: object | string, uploaded: ReadonlyMap<string, string> = new Map()): string =>
  writeGraph(acceptedPlan(graph), smallInfo(), NAMES, uploaded);

const written = (...given: Parameters<typeof writtenText>): Record<string, { inputs: Record<string, unknown> }> =>
  JSON.parse(writtenText(...given));

describe("An output's name", () => {
  it("stands in the run's own folder, whatever text was given", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (filename_prefix) => {
        const name = String(written({ 1: empty, 2: save("1", { filename_prefix }) })[2]?.inputs.filename_prefix);
        const [parent, run, own = "", ...more] = name.split("/");
        expect([parent, run, more]).toEqual(["darkroom", "0123456789abcdef", []]);
        expect(own).not.toMatch(/^(?:|\.\.?)$|[\\\p{Cc}\p{Cs}]/u);
        expect(Buffer.byteLength(own)).toBeLessThanOrEqual(200);
      }),
    );
  });

  it.each([[["1", 0]], [5], [{ __value__: "../up" }], [["a", "b", "c"]], [null], [true]])(
    "that is no text (%j) becomes the usual one",
    (filename_prefix) => {
      const { inputs } = written({ 1: empty, 2: save("1", { filename_prefix }) })[2] ?? {};
      expect(inputs?.filename_prefix).toBe("darkroom/0123456789abcdef/ComfyUI");
    },
  );

  it("keeps ComfyUI's own marks, and of a folder its last part", () => {
    const { inputs } = written({ 1: empty, 2: save("1", { filename_prefix: "a/b\\%year%-%width%" }) })[2] ?? {};
    expect(inputs?.filename_prefix).toBe("darkroom/0123456789abcdef/%year%-%width%");
  });

  it("is taken from ten megabytes in no time", () => {
    const started = performance.now();
    const { inputs } = written({ 1: empty, 2: save("1", { filename_prefix: "%width%/".repeat(1_250_000) }) })[2] ?? {};
    expect(inputs?.filename_prefix).toBe("darkroom/0123456789abcdef/%width%");
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it("is given where a class would take its own, and left to be missed where it is required", () => {
    const { inputs } = written({ 1: { class_type: "SaveVideo", inputs: { format: "mp4" } } })[1] ?? {};
    expect(inputs?.filename_prefix).toBe("darkroom/0123456789abcdef/ComfyUI");
    const bare = { class_type: "SaveImage", inputs: { images: ["1", 0] } };
    expect(written({ 1: empty, 2: bare })[2]?.inputs).not.toHaveProperty("filename_prefix");
  });
});

it("Each output node has the run's own input, also where the graph brings one of that name, and no other node has.", () => {
  const nodes = written({ 1: empty, 2: save("1"), 3: save("1", { darkroom_run: "mine" }) });
  expect(nodes[2]?.inputs.darkroom_run).toBe(NAMES.run);
  expect(nodes[3]?.inputs.darkroom_run).toBe(NAMES.run);
  expect(nodes[1]?.inputs).not.toHaveProperty("darkroom_run");
});

it("A file stands under the name of its upload, and its URL nowhere.", () => {
  const graph = { 1: { class_type: "LoadImage", inputs: { image: "https://example.com/x.png" } }, 2: save("1") };
  const text = writtenText(graph, new Map([[fileKey("1", "image"), "darkroom-77.png"]]));
  expect(JSON.parse(text)[1].inputs).toEqual({ image: "darkroom-77.png" });
  expect(text).not.toContain("example.com");
});

it("Numbers are written as their author wrote them.", () => {
  const text = `{"1":${JSON.stringify(empty)},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"p",
    "a":18446744073709551615,"b":64.0,"c":[1.50,-0.0],"d":1e400}}}`;
  const graph = writtenText(text);
  for (const number of ['"a":18446744073709551615', '"b":64.0', '"d":1e400']) expect(graph).toContain(number);
  expect(graph).toContain('"c":[1.50,');
});

it("Nothing of a node but its class and its inputs is sent.", () => {
  const graph = { 1: { ...empty, is_changed: "cached", _meta: { title: "secret" } }, 2: save("1") };
  expect(Object.keys(written(graph)[1] ?? {})).toEqual(["class_type", "inputs"]);
});

it("Nodes and inputs that are named as a prototype's members stay what they are.", () => {
  const node = `{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"p","__proto__":7}}`;
  const text = writtenText(`{"1":${JSON.stringify(empty)},"__proto__":${node}}`);
  expect(text).toContain('"__proto__":{"class_type":"SaveImage"');
  expect(text).toContain('"__proto__":7');
});
