import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import sharp from "sharp";
import { afterAll, describe, expect, it } from "vitest";
import { createEmbeddedEngine } from "../../gpu-runner/engines/embedded/engine.ts";
import { scratchFolder } from "./engine-contract.ts";

const examples = fileURLToPath(new URL("../../examples", import.meta.url));
const engine = createEmbeddedEngine({ inputs: `${examples}/inputs` });
afterAll(() => engine.close());

describe("Every example workflow runs as it is", () => {
  it.each(readdirSync(examples).filter((file) => file.endsWith(".json")))("%s", async (file) => {
    const prompt = await readFile(`${examples}/${file}`, "utf8");
    const scratch = await scratchFolder();
    const result = await engine.run(prompt, { signal: new AbortController().signal, onProgress: () => {}, scratch });
    if (!result.ok) throw new Error(JSON.stringify(result));
    for (const { filename } of result.outputs) {
      const { width, height } = await sharp(`${scratch}/${filename}`).metadata();
      expect(Math.min(width, height)).toBeGreaterThanOrEqual(256);
    }
  });
});
