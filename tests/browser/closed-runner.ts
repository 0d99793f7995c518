import type { Engine } from "../../gpu-runner/engine.ts";
import { createLog } from "../../gpu-runner/log.ts";
import { startRunner } from "../../gpu-runner/runner.ts";
import { freePort } from "../../scripts/local/ports.ts";
import { newFolder, removeFolder } from "../e2e/stack.ts";

/** A real runner whose engine runs nothing: it keeps much closed, and has no seat to offer. */

export interface ClosedRunner {
  readonly runner_id: string;
  close(): Promise<void>;
}

const names = (count: number, text: string): string[] => Array.from({ length: count }, (_, n) => `${text}${n}`);

const engine: Engine = {
  describe: async () => ({
    name: "comfyui",
    version: "0.9.9",
    classes: names(650, "CoreNode"),
    models: [...names(40, "checkpoints/a-model-with-a-long-name-"), `loras/${"x".repeat(230)}.safetensors`],
    gpu: { name: "NVIDIA Example 24G", memory_bytes: 24 * 1024 ** 3 },
    closed: [
      {
        group: "core: writes models",
        classes: ["CheckpointSave", "CLIPSave", "VAESave", "ModelSave", "LoraSave"],
        reason: "They write files to the machine's disk that outlive the job.",
        opened_by: "--open 'core: writes models'",
      },
      {
        group: `a-pack-with-a-long-name-${"x".repeat(70)}`,
        classes: [...names(120, "Pack Node With Spaces "), "L".repeat(200)],
        reason: "A pack runs whatever its author wrote; nobody has opened this one. ".repeat(3).trim(),
        opened_by: `--open ${"y".repeat(190)}`,
      },
      { group: "core: reads any file", classes: ["LoadAnything"], reason: "They read what other jobs left." },
    ],
  }),
  run: async () => ({ ok: false, reason: "interrupted", execution_ms: 0 }),
  watch: (watch) => watch.seats(0),
  close: async () => {},
};

export async function startClosedRunner(edge: string, token: string): Promise<ClosedRunner> {
  const data = await newFolder();
  const port = await freePort(0, true, () => {});
  const { runner_id, close } = await startRunner({
    config: {
      edge,
      url: `http://127.0.0.1:${port}`,
      listen: { host: "127.0.0.1", port },
      token,
      name: "much-closed",
      seats: 4,
      data,
      inputs: data,
      grace_ms: 0,
    },
    engine,
    log: createLog(() => {}),
    version: "0.1.0",
  });
  return {
    runner_id,
    async close() {
      await close();
      await removeFolder(data);
    },
  };
}
