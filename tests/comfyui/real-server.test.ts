import { contractPrompts, coreTable } from "../gpu-runner/comfyui/core-table.ts";
import { engineContract } from "../gpu-runner/engine-contract.ts";
import { freshImage, saveImage, startSubject } from "../gpu-runner/comfyui/subject.ts";

/**
 * The engine against a real ComfyUI server, with core nodes that need no model: `COMFYUI_URL=http://127.0.0.1:8188 npm run
 * test:comfyui`. COMFYUI_FOLDER names the folder of its files, where this machine has it. The server should have nothing else
 * to do: the tests put strangers' prompts into its queue, and look at its history.
 */
const url = process.env.COMFYUI_URL ?? "";
const folder = process.env.COMFYUI_FOLDER;

/** Some seconds of work in small parts, each of which ends soon after a stop. */
const slow = () => {
  const blur = (from: number) => ({
    class_type: "ImageBlur",
    inputs: { image: [String(from), 0], blur_radius: 31, sigma: 10 },
  });
  const chain = Array.from({ length: 24 }, (_, n) => [String(n + 2), blur(n + 1)] as const);
  return { 1: freshImage(1024), ...Object.fromEntries(chain), 100: saveImage("25") };
};

const failing = () => ({
  graph: {
    1: freshImage(2),
    2: { class_type: "ImageBlur", inputs: { image: ["1", 0], blur_radius: 31, sigma: 1 } },
    3: saveImage("2"),
  },
  node_class: "ImageBlur",
});

coreTable(`the server at ${url}`, async () => {
  await fetch(`${url}/history`, { method: "POST", body: '{"clear":true}' });
  return { url, ...(folder ? { folder } : {}), slow, failing, isReal: true, close: async () => {} };
});

engineContract("ComfyUI", async () => {
  const { engine, close } = await startSubject({ servers: [{ url, ...(folder ? { folder } : {}) }] });
  await engine.describe();
  return {
    engine,
    prompts: contractPrompts({ slow, failing }),
    dispose: close,
  };
});
