import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { acceptedPlan, empty, planOf, save } from "./small-info.ts";

const refusalOf = (graph: object | string, options: Parameters<typeof planOf>[1] = {}) => {
  const planned = planOf(graph, options);
  return planned.ok ? undefined : planned.error;
};

const reasonsOf = (graph: object | string) => JSON.stringify(refusalOf(graph)?.details);
const load = (image: unknown) => ({ 1: { class_type: "LoadImage", inputs: { image } }, 2: save("1") });
/** JSON text of a graph whose output node has one more input, written as given. */
const withInput = (written: string): string =>
  `{"1":${JSON.stringify(empty)},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"p","x":${written}}}}`;

describe("A plan", () => {
  it("holds what an output needs, and nothing else", () => {
    const plan = acceptedPlan({ 1: empty, 2: save("1"), 3: empty, 4: { class_type: "ImageScale", inputs: {} } });
    expect([...plan.nodes.keys()]).toEqual(["1", "2"]);
    expect([...plan.outputs]).toEqual(["2"]);
  });

  it("keeps nodes and inputs that are named as a prototype's members", () => {
    const node = `{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":"p","__proto__":7}}`;
    const plan = acceptedPlan(`{"1":${JSON.stringify(empty)},"__proto__":${node}}`);
    expect([...plan.outputs]).toEqual(["__proto__"]);
    expect(plan.nodes.get("__proto__")?.inputs.get("__proto__")).toBe(7);
  });

  it("knows the files that a graph wants, by node and field", () => {
    const { files } = acceptedPlan(load("HTTPS://example.com/a.png"));
    expect(files).toEqual([{ node_id: "1", field: "image", url: "HTTPS://example.com/a.png", kind: "image" }]);
  });

  it("sees a link whose index is written as a decimal", () => {
    const text = `{"1":${JSON.stringify(empty)},"2":{"class_type":"SaveImage","inputs":{"images":["1",0.0],"filename_prefix":"p"}}}`;
    expect([...acceptedPlan(text).nodes.keys()]).toEqual(["1", "2"]);
  });
});

describe("A file input", () => {
  it.each([
    ["a bare name", "example.png"],
    ["a name of the output folder", "a.png [output]"],
    ["a path", "/etc/passwd"],
    ["a URL of another kind", "file:///etc/passwd"],
    ["a URL after a space", " https://example.com/a.png"],
    ["a number", 7],
    ["a list", ["https://example.com/a.png"]],
    ["a link", ["2", 0]],
    ["a wrapped name", { __value__: "example.png" }],
    ["a wrapped link", { __value__: ["2", 0] }],
    ["null", null],
  ])("may not be %s", (_, image) => {
    const graph = { 1: { class_type: "LoadImage", inputs: { image } }, 2: empty, 3: save("1") };
    expect(refusalOf(graph)).toMatchObject({ code: "invalid_prompt", node_id: "1" });
  });

  it("never reaches a plan as anything but a URL, whatever text it is", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.webUrl(),
          fc.string().map((text) => `http${text}`),
        ),
        (image) => {
          const planned = planOf(load(image));
          if (planned.ok) expect(planned.plan.files[0]?.url).toMatch(/^https?:\/\//i);
          else expect(planned.error.code).toBe("invalid_prompt");
        },
      ),
    );
  });

  it("may be a name where the graph is the operator's own", () => {
    expect(refusalOf(load("example.png"), { ownFiles: true })).toBeUndefined();
  });
});

describe("A choice that reaches into another folder is refused", () => {
  it.each(["x [output]", "x [TEMP] ", "../x", "a/../../x", "a\\..\\x", "/etc/passwd", "~/x", "C:\\x", "\\\\host\\x"])(
    "as %j",
    (crop) => {
      for (const value of [crop, { __value__: crop }, ["disabled", crop, "center"]]) {
        const scale = { class_type: "ImageScale", inputs: { image: ["1", 0], crop: value } };
        expect(reasonsOf({ 1: empty, 2: scale, 3: save("2") })).toContain("reaches outside");
      }
    },
  );

  it("and one that only looks like it is not", () => {
    const scale = { class_type: "ImageScale", inputs: { image: ["1", 0], crop: "a..b/c [out].png" } };
    expect(refusalOf({ 1: empty, 2: scale, 3: save("2") })).toBeUndefined();
  });
});

describe("What ComfyUI takes for a link", () => {
  it.each(['["9",true]', '["1",false]', '["9",0.50]', '["1",18446744073709551615]', '["9",1e400]'])(
    "and nobody else does is refused: %s",
    (written) => {
      expect(reasonsOf(withInput(written))).toContain("invalid_output_index");
      expect(refusalOf(withInput(`{"__value__":${written}}`))).toMatchObject({ code: "invalid_prompt" });
    },
  );

  it("is refused in a wrapper, which the server takes off", () => {
    expect(reasonsOf(withInput('{"__value__":["1",0]}'))).toContain("bad_linked_input");
  });

  it("is not what lies deeper, or has another length", () => {
    for (const written of ['{"a":["9",0]}', '[["9",0]]', '["9",0,0]', '["9"]', "[9,0]", '{"__value__":[["9",0]]}'])
      expect(refusalOf(withInput(written))).toBeUndefined();
  });

  it("is refused at an input that a core class does not have", () => {
    for (const field of ["zz", "images.x", "darkroom_run"])
      expect(reasonsOf({ 1: empty, 2: save("1", { [field]: ["1", 0] }) })).toContain("unknown_input");
  });

  it("may stand at the inputs that a class makes as they are needed, and at any of a pack's", () => {
    const grown = (field: string) => ({ class_type: "BatchImages", inputs: { size: 1, [field]: ["1", 0] } });
    expect(refusalOf({ 1: empty, 2: grown("images.image0"), 3: save("2") })).toBeUndefined();
    expect(reasonsOf({ 1: empty, 2: grown("size.image0"), 3: save("2") })).toContain("unknown_input");
    const pack = { class_type: "PackSave", inputs: { path: "x", any: ["1", 0] } };
    expect(refusalOf({ 1: empty, 2: pack })).toBeUndefined();
  });
});

describe("A guarded input", () => {
  const video = (format: unknown) => ({ 1: empty, 2: { class_type: "SaveVideo", inputs: { format } } });
  const sigmas = (value: unknown) => ({ 1: { class_type: "ManualSigmas", inputs: { sigmas: value } } });

  it("takes its value and no link", () => {
    expect(refusalOf(video("mp4"))).toBeUndefined();
    for (const format of [["1", 0], ["1", true], { __value__: ["1", 0] }])
      expect(refusalOf(video(format))).toMatchObject({ code: "invalid_prompt", node_id: "2" });
  });

  it("is bounded in whatever shape a long text comes", () => {
    const long = "0".repeat(4_001);
    expect(refusalOf(sigmas("0".repeat(4_000)))).toBeUndefined();
    for (const value of [long, { __value__: long }, ["a", "b", long], { a: long }])
      expect(reasonsOf(sigmas(value))).toContain("4000 characters");
  });
});

describe("A graph that would harm the server is refused", () => {
  it("for a number of more digits than Python reads", () => {
    expect(reasonsOf(withInput("9".repeat(5_000)))).toContain("invalid_value");
    expect(refusalOf(withInput("9".repeat(20)))).toBeUndefined();
  });

  it("for deep nesting, at any depth", () => {
    expect(refusalOf(withInput(`${"[".repeat(99)}${"]".repeat(99)}`))).toBeUndefined();
    for (const depth of [102, 1_000, 100_000])
      expect(refusalOf(withInput(`${"[".repeat(depth)}${"]".repeat(depth)}`))).toMatchObject({
        code: "invalid_prompt",
      });
  });

  it("for a chain that its recursion can't follow, and not for a tangle", () => {
    const chain = (length: number) =>
      Object.fromEntries([
        ["n0", empty],
        ...Array.from({ length }, (_, n) => [
          `n${n + 1}`,
          { class_type: "ImageScale", inputs: { image: [`n${n}`, 0], crop: "center" } },
        ]),
        ["out", save(`n${length}`)],
      ]);
    expect(refusalOf(chain(898))).toBeUndefined();
    expect(refusalOf(chain(899))?.message).toContain("900");
    expect(refusalOf(chain(4_990))?.message).toContain("900");
    const tangle = Object.fromEntries(
      Array.from({ length: 250 }, (_, n) => [
        `n${n}`,
        { class_type: "PackSave", inputs: Object.fromEntries(Array.from({ length: n }, (_, m) => [m, [`n${m}`, 0]])) },
      ]),
    );
    expect(refusalOf(tangle)).toBeUndefined();
  });

  it("for more outputs than a job may have files", () => {
    const outputs = (count: number) =>
      Object.fromEntries([["1", empty], ...Array.from({ length: count }, (_, n) => [`s${n}`, save("1")])]);
    expect(refusalOf(outputs(256))).toBeUndefined();
    expect(refusalOf(outputs(257))?.message).toContain("257 output nodes");
  });

  it("for a node id that no output could bear", () => {
    expect(refusalOf({ 1: empty, ["i".repeat(200)]: save("1") })).toBeUndefined();
    expect(refusalOf({ 1: empty, ["i".repeat(201)]: save("1") })?.message).toContain("200 characters");
  });

  it("without an output, with a class that is not there, and with one that is closed", () => {
    expect(refusalOf({ 1: empty })).toMatchObject({ code: "invalid_prompt" });
    const strange = refusalOf({ 1: { class_type: "Nothing", inputs: {} }, 2: save("1") });
    expect(strange).toMatchObject({ code: "missing_node", node_id: "1" });
    expect(strange?.message).toContain("has no class");
    const closed = refusalOf({ 1: empty, 2: save("1") }, { open: ["SaveImage"] });
    expect(closed).toMatchObject({ code: "missing_node", node_id: "1" });
    expect(closed?.message).toContain("does not execute");
  });
});

it("A refusal's details fit into a job's record, however many errors there are and however long their names.", () => {
  const nodes = Array.from({ length: 500 }, (_, n) => [`n${n}`, { class_type: `No${n}`.padEnd(200, "x"), inputs: {} }]);
  const many = refusalOf(Object.fromEntries(nodes));
  const inputs = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`f${n}`.padEnd(300, "y"), ["1", true]]));
  const wide = refusalOf({ 1: empty, 2: save("1", inputs) });
  for (const error of [many, wide]) {
    expect(error?.details).toBeDefined();
    expect(JSON.stringify(error?.details).length).toBeLessThanOrEqual(8_192);
  }
  const huge = refusalOf({ 1: empty, 2: save("1", { ["z".repeat(100_000)]: ["1", true] }) });
  expect(huge).toEqual({ code: "invalid_prompt", message: "The index of a linked output must be an integer from 0." });
});
