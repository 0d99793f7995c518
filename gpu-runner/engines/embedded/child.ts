/** The entry file of the process that executes graphs, one at a time. It lives as long as its channel to the engine. */
import { execute } from "./execute.ts";
import type { ChildMessage, RunRequest } from "./messages.ts";
import { CHANNELS } from "./picture.ts";
import { sharp } from "./sharp-in-child.ts";

const tell = (message: ChildMessage): void => {
  process.send?.(message);
};

const internalError = { code: "internal_error", message: "The engine failed." } as const;

async function run(request: RunRequest): Promise<void> {
  const start = performance.now();
  const rss = (): number => process.memoryUsage.rss();
  try {
    const report = await execute(request, (progress) => tell({ kind: "progress", progress, rss: rss() }));
    tell({ kind: "done", report, rss: rss() });
  } catch (fault) {
    const reason = fault instanceof Error ? (fault.stack ?? fault.message) : String(fault);
    const execution_ms = performance.now() - start;
    tell({ kind: "done", report: { ok: false, error: internalError, execution_ms, reason }, rss: rss() });
  }
}

/** The first picture that libvips encodes costs some 10 ms of loading; here nobody waits for it. */
async function warmUp(): Promise<void> {
  const raw = { width: 1, height: 1, channels: CHANNELS } as const;
  await sharp(new Uint8Array(CHANNELS), { raw }).png().toBuffer();
}

process.on("message", (request: RunRequest) => void run(request));
process.on("disconnect", () => process.exit(0));
// A terminal's Ctrl-C and a service manager's stop reach the whole group; the engine decides when a run ends.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});

await warmUp();
tell({ kind: "ready" });
