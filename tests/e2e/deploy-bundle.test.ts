import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bundleWorker } from "../../scripts/local/bundle.ts";
import { ROOT } from "./stack.ts";

const read = async (entry: Parameters<typeof bundleWorker>[1]): Promise<string> => {
  const { folder, file } = await bundleWorker(ROOT, entry);
  return readFile(join(folder, file), "utf8");
};

it("deploys no development switch", async () => {
  // The local bundle has it, so looking for it means something.
  const local = await read("worker/local.ts");
  expect(local).toContain("LOCAL_STRICT");
  expect(local).toContain("urn:darkroom:development");
  const deployed = await read("worker/index.ts");
  expect(deployed).not.toContain("LOCAL_STRICT");
  expect(deployed).not.toContain("worker/local.ts");
  expect(deployed).not.toContain("urn:darkroom:development");
  expect(deployed).not.toContain("chaos");
});
