import { randomUUID } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { RunnerConfig } from "./config.ts";
import type { ComfyuiConfig } from "./config-comfyui.ts";
import type { Engine } from "./engine.ts";
import { type ComfyuiServer, createComfyuiEngine } from "./engines/comfyui/engine.ts";
import { manageServer } from "./engines/comfyui/managed-server.ts";
import { restartCommand } from "./engines/comfyui/restart-command.ts";
import { createEmbeddedEngine } from "./engines/embedded/engine.ts";
import { createInputs } from "./inputs/create-inputs.ts";
import { type Log, reasonOf } from "./log.ts";
import { StartError } from "./start-error.ts";

async function readWarmUp(path: string): Promise<string> {
  try {
    const text = await readFile(path, "utf8");
    JSON.parse(text);
    return text;
  } catch (error) {
    throw new StartError(`the warm-up workflow can't be read: ${reasonOf(error)}`, { exitCode: 2 });
  }
}

/** A name that lasts: by it the next process knows the prompts that this one leaves on its servers if it is killed. */
async function readOwner(folder: string): Promise<string> {
  const path = join(folder, "owner");
  const known = (await readFile(path, "utf8").catch(() => "")).trim();
  if (/^[0-9a-f-]{36}$/.test(known)) return known;
  const owner = randomUUID();
  await writeFile(path, `${owner}\n`, { mode: 0o600 });
  return owner;
}

function serversOf(comfyui: ComfyuiConfig, folder: string, log: Log): readonly ComfyuiServer[] {
  const { command, restart } = comfyui;
  return comfyui.servers.map((server, index): ComfyuiServer => {
    const { url } = server;
    if (command !== undefined)
      return {
        ...server,
        restarter: manageServer({ command, url, index, pidFile: join(folder, `${index}.pid`), log }),
      };
    if (restart !== undefined)
      return { ...server, restarter: restartCommand({ command: restart, url, index, warn: (line) => log.warn(line) }) };
    return server;
  });
}

/** The engine that the configuration asks for. Rejects with a StartError for what an operator can change. */
export async function makeEngine(config: RunnerConfig, log: Log): Promise<Engine> {
  const { comfyui, data } = config;
  const inputs = await createInputs({
    folder: join(data, "input-cache"),
    ...(comfyui ? { max_cache_bytes: comfyui.input_cache_bytes } : {}),
    loopback: config.loopback_inputs ?? false,
  });
  if (!comfyui) {
    await mkdir(config.inputs, { recursive: true });
    return createEmbeddedEngine({
      inputs: config.inputs,
      fetcher: inputs,
      spares: config.seats,
      onFault: (reason) => log.error(`fault of the engine: ${reason}`),
    });
  }
  const warmUp = comfyui.warm_up === undefined ? undefined : await readWarmUp(comfyui.warm_up);
  const folder = join(data, "comfyui");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return createComfyuiEngine({
    servers: serversOf(comfyui, folder, log),
    owner: await readOwner(folder),
    allow: comfyui.allow,
    inputs,
    strip_metadata: comfyui.strip_metadata,
    ...(warmUp === undefined ? {} : { warmUp }),
    timings: { stall_ms: comfyui.stall_ms },
    log,
  });
}
