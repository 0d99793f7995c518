import { rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { FakeComfyui } from "../fakes/comfyui/server.ts";
import { replay } from "./comfyui-fake-comparison.ts";
import type { ReplayOptions } from "./comfyui-fake-replay.ts";

/** Prompts that wait for each other, or that are stopped in mid-run. */
const overlapping: ReplayOptions = { statuses: "apart", dropsMiddleSteps: true };

const ARGV =
  "main.py --cpu --listen 127.0.0.1 --port 8288 --disable-api-nodes --front-end-root web --base-directory ComfyUI --database-url sqlite:///:memory: --dont-print-server";

/** What was done to the recorder's server from outside, done to the fake. */
async function outside(what: string, fake: FakeComfyui): Promise<void> {
  if (/^SIG(?:KILL|TERM|INT) /.test(what)) await fake.die();
  else if (what.startsWith("SIGSTOP ")) fake.hang();
  else if (what.startsWith("SIGCONT ")) fake.resume();
  else if (what === "a new server process is started") await fake.restart();
  else if (what.startsWith("the output file ")) rmSync(join(fake.folder, "output", what.split(" ")[3] ?? ""));
}

const graph = (color: number, extra: object = {}) => ({
  "1": { class_type: "EmptyImage", inputs: { width: 8, height: 8, batch_size: 1, color } },
  "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "earlier" } },
  ...extra,
});

const post = (fake: FakeComfyui, path: string, body: object) =>
  fetch(fake.url + path, { method: "POST", body: JSON.stringify(body) });

/** Leaves a history of so many prompts, the last of them cancelled, and one file of another name. */
async function afterCancelled(fake: FakeComfyui, prompts: number): Promise<void> {
  await post(fake, "/prompt", []);
  for (let n = 1; n < prompts; n++) await post(fake, "/prompt", { prompt: graph(n) });
  const slow = { "3": { class_type: "TestSlow", inputs: { image: ["1", 0], steps: 500, step_ms: 5, preview: false } } };
  const shown = { "4": { class_type: "PreviewImage", inputs: { images: ["3", 0] } } };
  const { "1": image } = graph(0);
  await post(fake, "/prompt", { prompt: { "1": image, ...slow, ...shown } });
  await expect.poll(() => fake.history().length, { timeout: 10_000 }).toBe(prompts - 1);
  await expect.poll(() => fake.running()).toBeDefined();
  await post(fake, "/interrupt", {});
  await expect.poll(() => fake.history().length).toBe(prompts);
}

const CASES: Readonly<Record<string, ReplayOptions>> = {
  "success-one-image": {},
  "success-batch-two-saves": {},
  "success-preview-temp": {},
  "success-own-prompt-id": overlapping,
  "success-without-client-id": overlapping,
  "cached-rerun": { outside },
  "validation-errors": overlapping,
  "failure-value": {},
  "failure-key": {},
  "failure-empty": {},
  "failure-oom": {},
  "failure-core-nodes": {},
  "special-nodes": {},
  "progress-and-previews": {},
  interrupt: overlapping,
  "interrupt-at-the-end": overlapping,
  "queue-delete-pending": overlapping,
  "two-clients": overlapping,
  "ws-reconnect": overlapping,
  "ws-same-client-id-twice": {},
  // What the log says was left out of the recording.
  "endpoints-get": { statuses: "last", argv: ARGV.split(" "), without: ({ path }) => path === "/internal/logs" },
  "jobs-api-bad-extra-data": { before: (fake) => afterCancelled(fake, 17) },
  "server-killed-mid-run": { ...overlapping, outside },
  "server-terminated-mid-run": { ...overlapping, outside },
  "server-sigint-mid-run": { ...overlapping, outside },
  "server-hangs-mid-run": { ...overlapping, outside },
  view: {},
  upload: {},
};

for (const [name, options] of Object.entries(CASES)) {
  test.concurrent(`The fake answers the requests of the recording ${name} as ComfyUI did.`, async () => {
    const { recorded, fake } = await replay(name, options);
    expect(fake.http).toEqual(recorded.http);
    expect(fake.sockets).toEqual(recorded.sockets);
  });
}
