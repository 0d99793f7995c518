import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { createEmbeddedEngine } from "../../gpu-runner/engines/embedded/engine.ts";
import { empty, type Graph, node, save } from "./embedded-graphs.ts";
import { scratchFolder } from "./engine-contract.ts";

const inputs = await mkdtemp(join(tmpdir(), "darkroom-inputs-"));
const engine = createEmbeddedEngine({ inputs });
afterAll(async () => {
  await engine.close();
  await rm(inputs, { recursive: true });
});

async function run(graph: Graph | string) {
  const prompt = typeof graph === "string" ? graph : JSON.stringify(graph);
  const signal = new AbortController().signal;
  return engine.run(prompt, { signal, onProgress: () => {}, scratch: await scratchFolder() });
}

const filenames = async (graph: Graph | string): Promise<readonly string[]> => {
  const result = await run(graph);
  return result.ok ? result.outputs.map(({ filename }) => filename) : [JSON.stringify(result)];
};

/** What a refused graph is told: the code and the reasons of the first node. */
async function refusal(graph: Graph | string) {
  const result = await run(graph);
  if (result.ok || result.reason !== "failed") throw new Error("The graph was not refused.");
  const { code, node_id, message, details } = result.error;
  const errors = new Map(Object.entries(details?.node_errors ?? {}));
  const own: { field?: string; reason: string }[] = node_id === undefined ? [] : errors.get(node_id);
  return { code, node_id, message, reasons: (own ?? []).map(({ field, reason }) => [field, reason]) };
}

describe("A graph is judged before anything runs", () => {
  it("an unknown class is a missing_node that tells the class and what there is", async () => {
    const { code, node_id, message } = await refusal({ "4": node("KSampler", {}), "1": empty(), "2": save("1") });
    expect({ code, node_id }).toEqual({ code: "missing_node", node_id: "4" });
    expect(message).toContain("KSampler");
    expect(message).toContain("ImageScale");
  });

  it.each<[string, Graph, string, [string | undefined, string]]>([
    [
      "a required input is missing",
      { "1": node("EmptyImage", {}), "2": save("1") },
      "1",
      ["width", "required_input_missing"],
    ],
    ["a number is too small", { "1": empty({ width: 0 }), "2": save("1") }, "1", ["width", "value_smaller_than_min"]],
    [
      "a number is too large",
      { "1": empty({ batch_size: 4097 }), "2": save("1") },
      "1",
      ["batch_size", "value_bigger_than_max"],
    ],
    [
      "a word stands for a number",
      { "1": empty({ height: "many" }), "2": save("1") },
      "1",
      ["height", "invalid_input_type"],
    ],
    ["a value stands for an image", { "2": node("PreviewImage", { images: 5 }) }, "2", ["images", "link_required"]],
    [
      "a link has one part",
      { "1": empty(), "2": node("PreviewImage", { images: ["1"] }) },
      "2",
      ["images", "bad_linked_input"],
    ],
    ["a link leads nowhere", { "2": save("9") }, "2", ["images", "unknown_node"]],
    [
      "a link names an output that is not there",
      { "1": empty(), "2": node("PreviewImage", { images: ["1", 4] }) },
      "2",
      ["images", "unknown_output"],
    ],
    [
      "a number is linked to an image",
      { "1": empty(), "3": empty({ width: ["1", 0] }), "2": save("3") },
      "3",
      ["width", "return_type_mismatch"],
    ],
    [
      "a link has no input",
      { "1": empty(), "2": node("PreviewImage", { images: ["1", 0], more: ["1", 0] }) },
      "2",
      ["more", "unknown_input"],
    ],
    [
      "a word is not in the list",
      {
        "1": empty(),
        "3": node("ImageScale", { image: ["1", 0], upscale_method: "best", width: 8, height: 8, crop: "disabled" }),
        "2": save("3"),
      },
      "3",
      ["upscale_method", "value_not_in_list"],
    ],
  ])("%s", async (_what, graph, id, reason) => {
    const refused = await refusal(graph);
    expect(refused).toMatchObject({ code: "invalid_prompt", node_id: id });
    expect(refused.reasons).toContainEqual(reason);
  });

  it("a MASK does not fit an IMAGE", async () => {
    await writeFile(join(inputs, "any.png"), "");
    const graph = { "1": node("LoadImage", { image: "any.png" }), "2": node("PreviewImage", { images: ["1", 1] }) };
    expect((await refusal(graph)).reasons).toEqual([["images", "return_type_mismatch"]]);
  });

  it("a cycle is found, and a graph without output node", async () => {
    const cycle = {
      "3": node("ImageInvert", { image: ["4", 0] }),
      "4": node("ImageInvert", { image: ["3", 0] }),
      "5": save("3"),
    };
    expect((await refusal(cycle)).reasons).toEqual([[undefined, "cycle"]]);
    expect(await refusal({ "1": empty() })).toMatchObject({ code: "invalid_prompt", node_id: undefined });
  });

  it("nodes that no output needs are not run and their values are not looked at", async () => {
    expect(await filenames({ "1": empty(), "2": save("1"), "3": empty({ width: -5 }) })).toEqual([
      "picture_00001_.png",
    ]);
  });
});

describe("Values convert as in ComfyUI", () => {
  it("takes digits in a string and cuts off the fraction of a float", async () => {
    expect(await filenames({ "1": empty({ width: "64", height: 64.9 }), "2": save("1", "%width%x%height%") })).toEqual([
      "64x64_00001_.png",
    ]);
  });

  it("keeps every digit of numbers beyond 2^53", async () => {
    const graph = `{"1":${JSON.stringify(empty())},"2":{"class_type":"SaveImage","inputs":{"images":["1",0],"filename_prefix":18446744073709551615}}}`;
    expect(await filenames(graph)).toEqual(["18446744073709551615_00001_.png"]);
    const large = `{"1":{"class_type":"EmptyImage","inputs":{"width":18446744073709551615,"height":1,"batch_size":1,"color":0}},"2":${JSON.stringify(save("1"))}}`;
    expect((await refusal(large)).message).toContain("18446744073709551615");
  });
});

describe("Files are named as ComfyUI names them", () => {
  it("counts within a prefix, over nodes and batches", async () => {
    const graph = {
      "1": empty({ batch_size: 2 }),
      "2": save("1", "a"),
      "3": save("1", "a"),
      "4": save("1", "b%batch_num%"),
    };
    expect(await filenames(graph)).toEqual([
      "a_00001_.png",
      "a_00002_.png",
      "a_00003_.png",
      "a_00004_.png",
      "b0_00001_.png",
      "b1_00002_.png",
    ]);
  });

  it.each([
    ["../../etc/passwd", "passwd_00001_.png"],
    ["folder/", "folder_00001_.png"],
    ["..", "ComfyUI_00001_.png"],
    ["", "ComfyUI_00001_.png"],
    ["a\u0000b\nc\u202e", "abc_00001_.png"],
    ["C:\\x\\y", "y_00001_.png"],
    ["ü".repeat(400), `${"ü".repeat(100)}_00001_.png`],
  ])("makes the prefix %j harmless", async (prefix, filename) => {
    expect(await filenames({ "1": empty(), "2": save("1", prefix) })).toEqual([filename]);
  });

  it("counts previews only where nothing is saved", async () => {
    const preview = { "1": empty(), "3": node("PreviewImage", { images: ["1", 0] }) };
    expect(await filenames(preview)).toEqual(["ComfyUI_temp_00001_.png"]);
    expect(await filenames({ ...preview, "2": save("1", "kept") })).toEqual(["kept_00001_.png"]);
  });
});

describe("LoadImage reads the inputs folder and nothing else", () => {
  const load = (image: string): Graph => ({ "1": node("LoadImage", { image }), "2": save("1") });

  it.each(["absent.png", "../embedded-graphs.ts", "/etc/hostname", "..", "a/b.png", ""])("refuses %j", async (name) => {
    const refused = await refusal(load(name));
    expect(refused).toMatchObject({ code: "invalid_prompt", node_id: "1", reasons: [["image", "input_not_found"]] });
  });

  it("refuses a symbolic link, wherever it leads", async () => {
    await symlink("/etc/hostname", join(inputs, "link.png"));
    expect(await refusal(load("link.png"))).toMatchObject({
      code: "invalid_prompt",
      reasons: [["image", "input_not_found"]],
    });
  });

  it("fails in the node for a file that is no picture, an SVG among them", async () => {
    await writeFile(join(inputs, "text.png"), "no picture");
    await writeFile(join(inputs, "drawing.svg"), `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`);
    for (const name of ["text.png", "drawing.svg"]) {
      expect(await refusal(load(name))).toMatchObject({ code: "execution_failed", node_id: "1" });
    }
  });
});
