import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type Allow, judgeClasses, parseAllow } from "../../gpu-runner/engines/comfyui/allowed-classes.ts";
import { CLOSING_REASONS } from "../../gpu-runner/engines/comfyui/core-classes/review.ts";
import { coreClasses, REVIEWED_VERSION, reviewedModules } from "../../gpu-runner/engines/comfyui/core-classes.ts";
import { guardOf, isOutputName, uploadWithoutMark } from "../../gpu-runner/engines/comfyui/file-inputs.ts";
import { recordedClassNames } from "./comfyui-class-names.ts";

const allow = (text: string): Allow => {
  const parsed = parseAllow(text);
  if (!parsed.ok) throw new Error(parsed.mistake);
  return parsed.allow;
};

const mistake = (text: string): string | undefined => {
  const parsed = parseAllow(text);
  return parsed.ok ? undefined : parsed.mistake;
};

/** What a server would say of a class's origin. */
const moduleOf = (name: string): string => {
  const module = coreClasses.get(name)?.module;
  if (module === undefined) return "custom_nodes.recording-nodes";
  return module === "nodes" ? module : `comfy_extras.${module}`;
};

const recorded = new Map(recordedClassNames.map((name) => [name, moduleOf(name)]));
const server = new Map([
  ...recorded,
  ["FluxProUltraImageNode", "comfy_api_nodes.nodes_bfl"],
  ["KlingTextToVideoNode", "comfy_api_nodes.nodes_kling"],
  ["FaceDetailer", "custom_nodes.ComfyUI-Impact-Pack"],
  ["ImpactWildcardProcessor", "custom_nodes.ComfyUI-Impact-Pack"],
  ["Seed (rgthree)", "custom_nodes.rgthree-comfy"],
  ["Odd", "custom_nodes.odd.pack v1.2"],
]);

const judge = (text: string, modules: ReadonlyMap<string, string> = server) => judgeClasses(modules, allow(text));
const groups = (text: string) => judge(text).closed.map(({ group }) => group);
const group = (text: string, name: string) => judge(text).closed.find((one) => one.group === name);

describe("the review of the core classes", () => {
  it("judges each class once", () => {
    const all = reviewedModules.flatMap(({ open, closed = {} }) => [...open, ...Object.keys(closed)]);
    expect(new Set(all).size).toBe(all.length);
    expect(coreClasses.size).toBe(all.length);
    const modules = reviewedModules.map(({ module }) => module);
    expect(new Set(modules).size).toBe(modules.length);
  });

  it("knows every class of the recorded server that is ComfyUI's own", () => {
    const unknown = recordedClassNames.filter((name) => !coreClasses.has(name));
    expect(unknown).toEqual(unknown.filter((name) => name.startsWith("Test")));
    expect(recordedClassNames.length - unknown.length).toBe(632);
  });

  it("names no class that the recorded server lacks, but for the one that needs a graphics driver", () => {
    const names = new Set(recordedClassNames);
    expect([...coreClasses.keys()].filter((name) => !names.has(name))).toEqual(["GLSLShader"]);
  });

  it("keeps closed what a stranger must not have", () => {
    const verdicts = new Map([...coreClasses].map(([name, { verdict }]) => [name, verdict]));
    for (const name of ["CheckpointSave", "ModelSave", "VAESave", "CLIPSave", "LoraSave", "ImageOnlyCheckpointSave"]) {
      expect(verdicts.get(name), name).toBe("writes_models");
    }
    for (const name of ["ComfyMathExpression", "StringFormat", "GLSLShader"]) {
      expect(verdicts.get(name), name).toBe("evaluates");
    }
    for (const name of ["RegexMatch", "RegexExtract", "RegexReplace"]) {
      expect(verdicts.get(name), name).toBe("stops_the_server");
    }
    for (const name of ["LoadLatent", "LoadImageOutput", "WebcamCapture", "RecordAudio", "Load3D"]) {
      expect(verdicts.get(name), name).toBe("reads_shared_files");
    }
    expect(verdicts.get("TrainLoraNode")).toBe("trains");
    expect(verdicts.get("TorchCompileModel")).toBe("compiles");
    expect(verdicts.get("SaveImageDataSetToFolder")).toBe("saves_by_path");
    expect(verdicts.get("CurveEditor")).toBe("names_output_files");
  });

  it("opens what pictures and videos are made with", () => {
    const ordinary =
      "CheckpointLoaderSimple CLIPTextEncode EmptyLatentImage KSampler VAEDecode SaveImage LoadImage PreviewImage LoraLoader " +
      "UNETLoader CLIPLoader VAELoader ImageScale SaveVideo LoadVideo LoadAudio SaveAudioMP3 CreateVideo ControlNetApplyAdvanced";
    for (const name of ordinary.split(" ")) expect(coreClasses.get(name)?.verdict, name).toBe("open");
  });
});

describe("COMFYUI_ALLOW", () => {
  it("means core where it is blank", () => {
    expect(allow("")).toEqual(allow("core"));
    expect(allow("  ")).toEqual({ core: true, api: false, packs: new Set(), classes: new Set(), everything: false });
  });

  it("takes words, packs and single classes between commas", () => {
    expect(allow(" Core , rgthree-comfy,class:Epsilon Scaling, API ,*")).toEqual({
      core: true,
      api: true,
      packs: new Set(["rgthree-comfy"]),
      classes: new Set(["Epsilon Scaling"]),
      everything: true,
    });
    expect(allow("rgthree-comfy").core).toBe(false);
  });

  it.each([
    "ComfyUI-Impact-Pack",
    "custom_nodes/ComfyUI-Impact-Pack/",
    "./custom_nodes/ComfyUI-Impact-Pack",
    "C:\\ComfyUI\\custom_nodes\\ComfyUI-Impact-Pack",
    "custom_nodes.ComfyUI-Impact-Pack",
  ])("reads %s as the folder of a pack", (text) => {
    expect([...allow(text).packs]).toEqual(["ComfyUI-Impact-Pack"]);
  });

  it("keeps dots and spaces of a pack's name, and drops the ending of a single file", () => {
    expect([...allow("odd.pack v1.2").packs]).toEqual(["odd.pack v1.2"]);
    expect([...allow("custom_nodes.odd.pack v1.2").packs]).toEqual(["odd.pack v1.2"]);
    expect([...allow("websocket_image_save.py").packs]).toEqual(["websocket_image_save"]);
  });

  it("names the mistake", () => {
    expect(mistake("core,,x")).toContain("empty entry");
    expect(mistake("core,")).toContain("empty entry");
    expect(mistake("class: ")).toContain("names no class");
    expect(mistake("ComfyUI-*")).toContain("pattern");
    expect(mistake("clas:LoadLatent")).toContain("clas:LoadLatent");
    expect(mistake("..")).toContain("folder");
    expect(mistake("/")).toContain("folder");
  });
});

describe("judging a server's classes", () => {
  it("loses none and has none twice", () => {
    for (const text of ["core", "api", "rgthree-comfy", "core,class:LoadLatent", "*"]) {
      const { open, closed } = judge(text);
      const all = [...open, ...closed.flatMap(({ classes }) => classes)];
      expect(all.length, text).toBe(server.size);
      expect(new Set(all), text).toEqual(new Set(server.keys()));
      expect([...open], text).toEqual([...open].sort());
      for (const { group, classes, reason } of closed) {
        expect(classes.length, group).toBeGreaterThan(0);
        expect([...classes], group).toEqual([...classes].sort());
        expect(reason, group).toMatch(/\.$/);
      }
    }
  });

  it("opens by default what was reviewed and found safe, and nothing else", () => {
    const { open } = judge("core");
    expect(open).toEqual(recordedClassNames.filter((name) => coreClasses.get(name)?.verdict === "open").sort());
    expect(groups("core")).toEqual([
      "core: calls a paid service",
      "core: can stop the server",
      "core: chooses devices",
      "core: compiles",
      "core: evaluates code",
      "core: names output files",
      "core: reads shared files",
      "core: saves by path",
      "core: trains",
      "core: writes models",
      "ComfyUI-Impact-Pack",
      "odd.pack v1.2",
      "recording-nodes",
      "rgthree-comfy",
    ]);
  });

  it("says how to open a group", () => {
    expect(group("core", "core: compiles")?.opened_by).toBe("COMFYUI_ALLOW=core,class:TorchCompileModel");
    expect(group("core", "core: trains")?.opened_by).toBe("COMFYUI_ALLOW=core,class:NAME");
    expect(group("core", "core: calls a paid service")?.opened_by).toBe("COMFYUI_ALLOW=core,api");
    expect(group("core,class:LoadLatent", "ComfyUI-Impact-Pack")?.opened_by).toBe(
      "COMFYUI_ALLOW=core,class:LoadLatent,ComfyUI-Impact-Pack",
    );
    expect(group("rgthree-comfy", "core")?.opened_by).toBe("COMFYUI_ALLOW=rgthree-comfy,core");
    const packs = Array.from({ length: 20 }, (_, i) => `a-pack-with-a-long-name-${i}`).join(",");
    expect(group(packs, "core")?.opened_by).toBe("COMFYUI_ALLOW=…,core");
  });

  it("opens exactly the groups whose setting it shows", () => {
    for (const { group, classes, opened_by } of judge("core").closed) {
      const setting = opened_by
        ?.replace("COMFYUI_ALLOW=", "")
        .replace("class:NAME", `class:${classes.join(",class:")}`);
      const { open } = judge(setting ?? "");
      expect(open, group).toEqual([...judge("core").open, ...classes].sort());
    }
  });

  it("keeps the paid services closed until they are asked for", () => {
    expect(judge("core").open).not.toContain("KlingTextToVideoNode");
    expect(judge("core,class:KlingTextToVideoNode").open).toContain("KlingTextToVideoNode");
    expect(judge("core,class:KlingTextToVideoNode").open).not.toContain("FluxProUltraImageNode");
    expect(judge("api").open).toEqual(["FluxProUltraImageNode", "KlingTextToVideoNode"]);
  });

  it("opens a pack by its name, in whatever case", () => {
    expect(judge("comfyui-impact-pack").open).toEqual(["FaceDetailer", "ImpactWildcardProcessor"]);
    expect(judge("ODD.pack V1.2").open).toEqual(["Odd"]);
    expect(groups("core,comfyui-impact-pack")).not.toContain("ComfyUI-Impact-Pack");
  });

  it("opens single classes, in their own case only", () => {
    expect(judge("class:LoadLatent,class:faceDetailer").open).toEqual(["LoadLatent"]);
    expect(judge("class:Seed (rgthree)").open).toEqual(["Seed (rgthree)"]);
  });

  it("opens everything with a star", () => {
    const { open, closed } = judge("*");
    expect(open).toEqual([...server.keys()].sort());
    expect(closed).toEqual([]);
  });

  it("takes a pack that shadows a core class for the pack", () => {
    const shadowed = new Map([...server, ["LoadImage", "custom_nodes.better-loaders"]]);
    const { open, closed } = judge("core", shadowed);
    expect(open).not.toContain("LoadImage");
    expect(closed.find(({ classes }) => classes.includes("LoadImage"))?.group).toBe("better-loaders");
    expect(judge("core,better-loaders", shadowed).open).toContain("LoadImage");
    expect(judge("better-loaders", shadowed).open).toEqual(["LoadImage"]);
  });

  it("takes no class for core that says it is of nodes.py and was read elsewhere", () => {
    const { open, closed } = judge("core", new Map([["SaveVideo", "nodes"]]));
    expect(open).toEqual([]);
    expect(closed.map(({ group }) => group)).toEqual(["core: not reviewed"]);
    expect(judge("core", new Map([["KSampler", "comfy_extras.nodes_x"]])).open).toEqual([]);
    expect(judge("core", new Map([["SaveGLB", "comfy_extras.nodes_hunyuan3d"]])).open).toEqual(["SaveGLB"]);
  });

  it("closes core classes that nobody has reviewed", () => {
    const newer = new Map([
      ["BrandNew", "comfy_extras.nodes_brand_new"],
      ["constructor", "nodes"],
      ["__proto__", "nodes"],
    ]);
    const { open, closed } = judge("core", newer);
    expect(open).toEqual([]);
    expect(closed).toEqual([
      expect.objectContaining({
        group: "core: not reviewed",
        classes: ["BrandNew", "__proto__", "constructor"],
        opened_by: "COMFYUI_ALLOW=core,class:NAME",
      }),
    ]);
  });

  it("treats every other origin as a pack, never as core", () => {
    const odd = new Map([
      ["KSampler", ""],
      ["SaveImage", "nodes.evil"],
      ["LoadImage", "nodes_x"],
      ["VAEDecode", "comfy_extras"],
      ["CLIPTextEncode", "custom_nodes"],
      ["EmptyImage", "custom_nodes.nodes"],
      ["ImageScale", "custom_nodes.core"],
      ["ImageInvert", "comfy_api_nodes_mine.nodes_x"],
    ]);
    expect(judge("core,api", odd).open).toEqual([]);
    const { closed } = judge("core", odd);
    expect(closed.find(({ group }) => group === "unknown origin")?.opened_by).toBe("COMFYUI_ALLOW=core,class:KSampler");
    expect(closed.find(({ group }) => group === "core")?.opened_by).toBe("COMFYUI_ALLOW=core,class:ImageScale");
    expect(judge("core,nodes", odd).open).toEqual(["EmptyImage"]);
  });

  it("tells what the setting names and the server lacks", () => {
    expect(judge("core,comfyui-impact-pack,Gone-Pack,class:LoadLatent,class:Gone").unknown).toEqual([
      "Gone-Pack",
      "class:Gone",
    ]);
    expect(judge("core,api,*").unknown).toEqual([]);
  });
});

describe("inputs that hold files", () => {
  it("knows the names of outputs", () => {
    expect(isOutputName("SaveImage", "filename_prefix")).toBe(true);
    expect(isOutputName("SaveLoRA", "prefix")).toBe(true);
    expect(isOutputName("AddTextPrefix", "prefix")).toBe(false);
    expect(isOutputName("constructor", "prefix")).toBe(false);
  });

  it("knows uploads that no schema marks", () => {
    expect(uploadWithoutMark("VHS_LoadVideo", "video")).toBe("video");
    expect(uploadWithoutMark("LoadImage", "image")).toBeUndefined();
  });

  it("guards no input of a class that is closed anyway", () => {
    for (const [name, field] of [["SaveText", "format"] as const, ["ManualSigmas", "sigmas"] as const]) {
      expect(coreClasses.get(name)?.verdict).toBe("open");
      expect(guardOf(name, field)?.literal).toBe(true);
    }
    expect(guardOf("ManualSigmas", "sigmas")?.longest).toBe(4_000);
    expect(guardOf("KSampler", "scheduler")).toBeUndefined();
  });
});

describe("docs/comfyui-classes.md", () => {
  const page = readFileSync(new URL("../../docs/comfyui-classes.md", import.meta.url), "utf8");
  const lines = page.split("\n");

  it("lists every reason with its classes", () => {
    for (const [reason, { group, sentence }] of Object.entries(CLOSING_REASONS)) {
      const row = lines.find((line) => line.startsWith(`| ${group} |`));
      expect(row, group).toContain(sentence);
      for (const [name, { verdict }] of coreClasses) {
        if (verdict === reason) expect(row, group).toContain(`\`${name}\``);
      }
    }
  });

  it("lists every open class by its module, and the version that was read", () => {
    for (const { module, open } of reviewedModules) {
      const row = lines.find((line) => line.startsWith(`| ${module} |`));
      const listed = [...(row ?? "").matchAll(/`([^`]+)`/g)].map(([, name]) => name);
      expect(listed, module).toEqual([...open]);
    }
    expect(page).toContain(REVIEWED_VERSION);
  });
});
