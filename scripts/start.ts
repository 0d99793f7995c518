import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { onStopSignal } from "./local/signals.ts";
import { type Stack, startStack } from "./local/stack.ts";

const USAGE = `Usage: npm start -- [--port N] [--strict] [--folder PATH]

  --port N       listen on this port of 127.0.0.1; without it 8787, or another when that is in use
  --strict       no development switch: webhook targets as in production
  --folder PATH  where everything is kept, default .darkroom

With COMFYUI_URLS=http://127.0.0.1:8188 (or several, comma-separated) the workflows are executed by these ComfyUI servers, else by
the embedded engine. The other COMFYUI_ variables of docs/comfyui.md are handed on, too.
`;

const say = (line: string): void => console.log(`  ${line}`);

function options() {
  try {
    const { values } = parseArgs({
      options: {
        port: { type: "string" },
        strict: { type: "boolean", default: false },
        folder: { type: "string", default: ".darkroom" },
        help: { type: "boolean", default: false },
      },
    });
    const port = values.port === undefined ? undefined : Number(values.port);
    if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536))
      throw new Error("--port must be a number from 1 to 65535");
    return { ...values, port };
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
    process.exit(2);
  }
}

const { port, strict, folder, help } = options();
if (help) {
  console.log(USAGE);
  process.exit(0);
}
const root = join(import.meta.dirname, "..");
const stopping = new AbortController();
console.log(`Darkroom starts${strict ? " (strict)" : ""} ...`);
const starting: Promise<Stack> = startStack({
  root,
  folder: resolve(folder),
  strict,
  say,
  signal: stopping.signal,
  ...(port === undefined ? {} : { port }),
});
onStopSignal(async () => {
  console.log("\nStopping.");
  stopping.abort();
  const started = await starting.catch(() => undefined);
  await started?.stop();
});
let stack: Stack;
try {
  stack = await starting;
} catch (error) {
  // Then the signal's own end is awaited.
  if (stopping.signal.aborted) await new Promise(() => {});
  console.error(`Darkroom could not start: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
const { base_url, api_key, runner_url } = stack.local;
console.log(`
  service  ${base_url}
  API key  ${api_key}   (development account, Pro tier)
  runner   ${runner_url}
  state    ${folder}/   (local.json has all of this, log.txt what happens)

Try it:

  printf '{"prompt":%s}' "$(cat examples/hello.json)" | curl -s ${base_url}/v1/jobs \\
    -H "Authorization: Bearer ${api_key}" -H "Content-Type: application/json" -d @-

Ctrl-C stops it. State survives.`);
