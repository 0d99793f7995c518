import { spawn } from "node:child_process";
import { basename, join } from "node:path";

/** Bundles a Worker entry, a path below the root, as a deployment would. The file in the folder has the entry's own name. */
export async function bundleWorker(root: string, entry: string): Promise<{ folder: string; file: string }> {
  const name = basename(entry, ".ts");
  const folder = join(root, "dist", name);
  const wrangler = join(root, "node_modules", "wrangler", "bin", "wrangler.js");
  const child = spawn(process.execPath, [wrangler, "deploy", entry, "--dry-run", "--outdir", folder], {
    cwd: root,
    env: {
      ...process.env,
      WRANGLER_SEND_METRICS: "false",
      WRANGLER_SEND_ERROR_REPORTS: "false",
      WRANGLER_HIDE_BANNER: "true",
      CI: "1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) throw new Error(`The Worker could not be bundled:\n${output}`);
  return { folder, file: `${name}.js` };
}
