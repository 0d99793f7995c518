import { createHash, randomBytes } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../log.ts";
import { cleanOrphans } from "./cleaning.ts";
import type { Client, ServerFile } from "./client.ts";
import { Misconfigured } from "./gate-refusal.ts";
import { OUTPUT_PARENT } from "./write-graph.ts";

/** The first words of a fault of the file system: `EACCES: permission denied`. */
const faultOf = (error: unknown): string => reasonOf(error).split(",")[0] ?? "";

/**
 * Whether the folder that the runner was given is the one that the server writes to, and what the server writes there can be
 * removed. The names are the same each time: a server that never passes does not fill up.
 */
export async function proveFolder(client: Client, folder: string, owner: string): Promise<void> {
  const prober = createHash("sha256").update(`${owner}\0${folder}`).digest("hex").slice(0, 32);
  const filename = `${OUTPUT_PARENT}-probe-${prober}.txt`;
  const own = `${OUTPUT_PARENT}/probe-${prober}`;
  const probes: readonly ServerFile[] = [
    { filename, subfolder: "", type: "input" },
    { filename, subfolder: own, type: "output" },
    { filename, subfolder: "", type: "temp" },
  ];
  for (const probe of probes) {
    const content = randomBytes(16).toString("hex");
    await client.upload(Buffer.from(content), probe);
    const path = join(folder, probe.type, probe.subfolder, filename);
    const found = await readFile(path, "utf8").catch((error: unknown) => {
      if (faultOf(error).startsWith("ENOENT")) return undefined;
      throw new Misconfigured(
        `its ${probe.type} files in ${folder} can't be reached by this runner (${faultOf(error)})`,
      );
    });
    if (found !== content)
      throw new Misconfigured(`${folder} was given as its folder, but its ${probe.type} files do not come there`);
    try {
      await rm(path);
      if (probe.type === "output") await rm(join(folder, "output", own), { recursive: true });
    } catch (error) {
      throw new Misconfigured(
        `its ${probe.type} files in ${folder} can't be removed by this runner (${faultOf(error)})`,
      );
    }
  }
}

/** Removes what runs of an earlier process have left. */
export async function removeOrphans(folder: string, log: (line: string) => void): Promise<void> {
  try {
    const removed = await cleanOrphans(folder, OUTPUT_PARENT, Date.now());
    if (removed > 0) log(`removed ${removed} files and folders of earlier runs`);
  } catch (error) {
    throw new Misconfigured(`what earlier runs left in ${folder} can't be removed (${faultOf(error)})`);
  }
}
