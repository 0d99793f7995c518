import { isModelFile } from "../../../schemas/prompt.ts";
import type { EngineDescription } from "../../engine.ts";
import { type Allow, type JudgedClasses, judgeClasses } from "./allowed-classes.ts";
import type { Device } from "./client.ts";
import type { ReadyServer } from "./ready-server.ts";
import type { ObjectInfo } from "./object-info.ts";
import { SUBSTITUTES } from "./plan.ts";

/** What the fleet takes of one runner (schemas/runner-protocol.ts). */
const MAX_CLASS_CHARACTERS = 200;
const MAX_NAMES = 20_000;

export function judgeServer(info: ObjectInfo, allow: Allow): JudgedClasses {
  return judgeClasses(new Map([...info].map(([name, { module }]) => [name, module])), allow);
}

/** The classes that a graph may name here, with those that another one stands in for. */
export function openClasses(judged: JudgedClasses): ReadonlySet<string> {
  const open = new Set(judged.open);
  for (const [name, stand_in] of SUBSTITUTES) if (open.has(stand_in)) open.add(name);
  return open;
}

/** Model files that the loaders of the open classes list. Uploaded inputs are listed likewise, and are none. */
export function modelsOf(info: ObjectInfo, open: ReadonlySet<string>): ReadonlySet<string> {
  const models = new Set<string>();
  for (const [name, { inputs }] of info) {
    if (!open.has(name)) continue;
    for (const { options, upload } of inputs.values())
      if (upload === undefined) for (const option of options ?? []) if (isModelFile(option)) models.add(option);
  }
  return models;
}

function common(sets: readonly ReadonlySet<string>[]): readonly string[] {
  const [first = new Set<string>(), ...others] = sets;
  return [...first].filter((one) => others.every((set) => set.has(one))).sort();
}

/** `cuda:0 NVIDIA H200 : cudaMallocAsync` is an NVIDIA H200. */
export const plainDevice = (name: string): string =>
  name
    .replace(/^[a-z]+:\d+\s+/, "")
    .replace(/\s*:\s*\w+$/, "")
    .trim()
    .slice(0, 200);

const gpuOf = (devices: readonly Device[]): Device | undefined => devices.find(({ type }) => type !== "cpu");

/**
 * What all servers of a runner can do: a graph may come to any of them. The GPU is the first server's; one runner's servers are
 * expected to be alike.
 */
export function describeServers(servers: readonly ReadyServer[], allow: Allow): EngineDescription {
  const judged = servers.map(({ info }) => ({ info, judged: judgeServer(info, allow) }));
  const open = judged.map((one) => openClasses(one.judged));
  const models = judged.map(({ info }, n) => modelsOf(info, open[n] ?? new Set()));
  const gpu = gpuOf(servers[0]?.devices ?? []);
  const closed = judged[0]?.judged.closed ?? [];
  return {
    name: "comfyui",
    version: [...new Set(servers.map(({ version }) => version))].join(", ").slice(0, 50),
    classes: common(open)
      .filter((name) => name !== "" && name.length <= MAX_CLASS_CHARACTERS)
      .slice(0, MAX_NAMES),
    models: common(models).slice(0, MAX_NAMES),
    ...(gpu ? { gpu: { name: plainDevice(gpu.name), memory_bytes: gpu.vram_total } } : {}),
    ...(closed.length > 0 ? { closed } : {}),
  };
}
