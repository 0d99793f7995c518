import { spawn } from "node:child_process";
import { join } from "node:path";
import { freePort } from "../../scripts/local/ports.ts";
import { ROOT, waitFor } from "./stack.ts";

/** A proxy on loopback that holds every request and every answer against an OpenAPI document. */
export interface Prism {
  readonly url: string;
  stop(): Promise<void>;
}

/** @param errors refuses a bad request itself and turns a bad answer into a 500, where it else only tells of both in a header */
export async function startPrism(document: string, upstream: string, errors: boolean): Promise<Prism> {
  const port = await freePort(0, true, () => {});
  const cli = join(ROOT, "node_modules", "@stoplight", "prism-cli", "dist", "index.js");
  const child = spawn(
    process.execPath,
    [cli, "proxy", document, upstream, "-h", "127.0.0.1", "-p", String(port), "--errors", String(errors)],
    { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  await waitFor("Prism", () => {
    if (child.exitCode !== null) throw new Error(`Prism ended with ${child.exitCode}:\n${output}`);
    return output.includes("Prism is listening") ? true : undefined;
  });
  return {
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
