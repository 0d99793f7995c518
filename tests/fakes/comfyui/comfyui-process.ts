import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { startFakeComfyui } from "./server.ts";

/**
 * The fake server as a process of its own, on port `COMFYUI_PORT`. It starts a child that does nothing, as ComfyUI's custom nodes
 * do, and writes both numbers and its environment to the file that it is given.
 */
const { COMFYUI_PORT } = process.env;
const [record] = process.argv.slice(2);
const child = spawn("sleep", ["600"], { stdio: "ignore" });
await startFakeComfyui({ port: Number(COMFYUI_PORT) });
if (record !== undefined)
  writeFileSync(record, JSON.stringify({ pid: process.pid, child: child.pid, environment: process.env }));
process.stdout.write("Starting server\n");
