import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCoreModule, readObjectInfo } from "../../../gpu-runner/engines/comfyui/object-info.ts";

const inputOf = (entry: unknown, group = "required") =>
  readObjectInfo({ C: { input: { [group]: { x: entry } } } })
    ?.get("C")
    ?.inputs.get("x");

describe("An input", () => {
  it.each([
    [["INT", { min: 1, max: 9 }], { required: true, min: 1, max: 9 }],
    [["INT", { min: "1", max: null }], { required: true }],
    [[["a", "b", 7]], { required: true, options: ["a", "b"] }],
    [["COMBO", { options: ["a", 7] }], { required: true, options: ["a"] }],
    [["COMBO", {}], { required: true, options: [] }],
    [["COMBO", { options: "a" }], { required: true, options: [] }],
    [["STRING"], { required: true }],
    [["COMFY_AUTOGROW_V3", {}], { required: true, dynamic: true }],
    [["COMFY_MATCHTYPE_V3", {}], { required: true }],
    [[], { required: true }],
    ["INT", { required: true }],
    [null, { required: true }],
  ])("told as %j is read", (entry, read) => {
    expect(inputOf(entry)).toEqual(read);
  });

  it("is optional where it stands among those", () => {
    expect(inputOf(["INT"], "optional")).toEqual({ required: false });
    expect(inputOf(["INT"], "hidden")).toBeUndefined();
  });

  it.each([
    [{ image_upload: true }, "image"],
    [{ animated_image_upload: true }, "image"],
    [{ audio_upload: true }, "audio"],
    [{ video_upload: true }, "video"],
    [{ file_upload: true }, "any"],
    [{ mesh_upload: true }, "any"],
    [{ image_upload: false }, undefined],
    [{ image_upload: "yes" }, undefined],
    [{ upload: true }, undefined],
  ])("with the settings %j takes a file: %s", (settings, kind) => {
    expect(inputOf([["a.png"], settings])?.upload).toBe(kind);
    expect(inputOf(["COMBO", { options: [], ...settings }])?.upload).toBe(kind);
    expect(inputOf(["STRING", settings])?.upload).toBe(kind);
  });

  it("that another one brings is named after both, and takes a file where any of its choices does", () => {
    const choice = (x: unknown) => ({ key: "k", inputs: { required: { x } } });
    const inner = ["COMFY_DYNAMICCOMBO_V3", { options: [choice(["INT"])] }];
    const options = [
      choice(["COMBO", { image_upload: true }]),
      choice(["COMBO", {}]),
      { key: "d", inputs: { required: { inner } } },
      7,
    ];
    const inputs = readObjectInfo({
      C: { input: { required: { mode: ["COMFY_DYNAMICCOMBO_V3", { options }] } } },
    })?.get("C")?.inputs;
    expect([...(inputs?.keys() ?? [])]).toEqual(["mode", "mode.x", "mode.inner", "mode.inner.x"]);
    expect(inputs?.get("mode.x")).toEqual({ required: false, options: [], upload: "image" });
    expect(inputs?.get("mode")?.dynamic).toBe(true);
  });
});

describe("A class", () => {
  it("tells its module and whether it is an output, where these are what they should be", () => {
    const info = readObjectInfo({
      Good: { output_node: true, python_module: "nodes" },
      Odd: { output_node: "yes", python_module: ["nodes"], input: [] },
    });
    expect(info?.get("Good")).toMatchObject({ output: true, module: "nodes" });
    expect(info?.get("Odd")).toEqual({ output: false, module: "", inputs: new Map() });
  });

  it("and an input may be named as a prototype's members", () => {
    const info = readObjectInfo(JSON.parse('{"__proto__":{"input":{"required":{"__proto__":["INT"]}}}}'));
    expect([...(info?.get("__proto__")?.inputs.keys() ?? [])]).toEqual(["__proto__"]);
    expect(info?.has("constructor")).toBe(false);
  });

  it("is ComfyUI's own by its module alone", () => {
    expect(["nodes", "comfy_extras.nodes_mask"].every(isCoreModule)).toBe(true);
    for (const module of ["", "custom_nodes.nodes", "nodes.x", "comfy_extras", "comfy_extras_pack.x", "Nodes"])
      expect(isCoreModule(module)).toBe(false);
  });
});

it("An answer of any shape is read, or is none.", () => {
  for (const none of [undefined, null, 7, "text", [], {}, { C: null, D: [] }])
    expect(readObjectInfo(none)).toBeUndefined();
  const inputs = fc.dictionary(fc.constantFrom("required", "optional"), fc.dictionary(fc.string(), fc.jsonValue()));
  fc.assert(
    fc.property(fc.record({ input: fc.oneof(inputs, fc.jsonValue()), output_node: fc.jsonValue() }), (entry) => {
      expect(readObjectInfo({ C: entry })?.size).toBe(1);
    }),
  );
});
