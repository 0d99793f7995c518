import { describe, expect, it } from "vitest";
import { parseAllow } from "../../../gpu-runner/engines/comfyui/allowed-classes.ts";
import { describeServers } from "../../../gpu-runner/engines/comfyui/describe-servers.ts";
import type { ReadyServer } from "../../../gpu-runner/engines/comfyui/ready-server.ts";
import { readObjectInfo } from "../../../gpu-runner/engines/comfyui/object-info.ts";
import { abilitiesOf } from "../../../gpu-runner/engines/comfyui/version.ts";

const core = (required: object = {}) => ({ input: { required }, python_module: "nodes" });
const pack = (name: string, required: object = {}) => ({ input: { required }, python_module: `custom_nodes.${name}` });

function server(classes: Record<string, object>, { version = "0.33.0", gpu = "cuda:0 NVIDIA H200 : native" } = {}) {
  const info = readObjectInfo(classes);
  if (!info) throw new Error("no classes");
  const devices = [{ name: gpu, type: gpu.startsWith("cpu") ? "cpu" : "cuda", vram_total: 1024, vram_free: 512 }];
  return { version, abilities: abilitiesOf(version), info, devices, max_upload: 1 } satisfies ReadyServer;
}

function describeAs(allow: string, ...servers: readonly ReadyServer[]) {
  const parsed = parseAllow(allow);
  if (!parsed.ok) throw new Error(parsed.mistake);
  return describeServers(servers, parsed.allow);
}

describe("What servers are described as", () => {
  it("names the classes and models that all of them have, sorted", () => {
    const loader = (...names: string[]) => core({ vae_name: [names] });
    const one = server({ VAELoader: loader("b.safetensors", "a.pt"), KSampler: core(), VAEDecode: core() });
    const two = server({ KSampler: core(), VAELoader: loader("a.pt", "c.ckpt") });
    expect(describeAs("core", one, two)).toMatchObject({
      classes: ["KSampler", "VAELoader"],
      models: ["a.pt"],
      version: "0.33.0",
    });
  });

  it("names each version once", () => {
    const one = server({ KSampler: core() });
    const two = server({ KSampler: core() }, { version: "0.30.0" });
    expect(describeAs("core", one, two, one).version).toBe("0.33.0, 0.30.0");
  });

  it("leaves out models that only closed classes list, and files that jobs upload", () => {
    const image = core({ image: [["photo.safetensors"], { image_upload: true }] });
    const closed = pack("secret", { model: [["private.safetensors"]] });
    const said = describeAs("core", server({ LoadImage: image, Private: closed, KSampler: core() }));
    expect(said.models).toEqual([]);
    expect(said.classes).toEqual(["KSampler", "LoadImage"]);
    expect(said.closed).toEqual([
      {
        group: "secret",
        classes: ["Private"],
        reason: "The custom node pack is not on the list of what may run.",
        opened_by: "COMFYUI_ALLOW=core,secret",
      },
    ]);
    expect(describeAs("core,secret", server({ Private: closed })).models).toEqual(["private.safetensors"]);
  });

  it("has the classes that another one stands in for, where that one is there and open", () => {
    expect(describeAs("core", server({ SaveImage: core() })).classes).toEqual(["SaveImage", "SaveImageWebsocket"]);
    expect(describeAs("class:KSampler", server({ SaveImage: core(), KSampler: core() })).classes).toEqual(["KSampler"]);
  });

  it("names the GPU as its maker does, and none on a processor", () => {
    const gpu = (name: string) => describeAs("core", server({ KSampler: core() }, { gpu: name })).gpu;
    expect(gpu("cuda:0 NVIDIA H200 : cudaMallocAsync")).toEqual({ name: "NVIDIA H200", memory_bytes: 1024 });
    expect(gpu("cuda:1 AMD Radeon PRO W7900")?.name).toBe("AMD Radeon PRO W7900");
    expect(gpu("cpu")).toBeUndefined();
  });

  it("leaves out names that nobody could send", () => {
    const said = describeAs("*", server({ "": core(), ["x".repeat(201)]: core(), KSampler: core() }));
    expect(said.classes).toEqual(["KSampler"]);
  });
});
