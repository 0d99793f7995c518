import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Receiver, startReceiver } from "../../scripts/local/receiver.ts";
import { newFolder, QUICK_PROMPT, removeFolder, type Started, start, submitPrompt, untilTerminal } from "./stack.ts";

let folder: string;
let started: Started;
let receiver: Receiver;

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
  receiver = await startReceiver(started.local.webhook_secret);
});

afterAll(async () => {
  await receiver?.close();
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

it("runs a submitted workflow to a stored picture and a signed webhook", async () => {
  const { local } = started;
  const job = await submitPrompt(local, QUICK_PROMPT, { webhook_url: receiver.url, metadata: { order: 7 } });
  expect(job.status).toBe("queued");
  const record = await untilTerminal(local, job.job_id);
  expect(record).toMatchObject({ status: "completed", attempt: 1, metadata: { order: 7 } });
  expect(record.execution_time_ms).toBeGreaterThan(0);
  const [file] = record.outputs?.files ?? [];
  if (!file) throw new Error("no output");
  expect(record.outputs?.images).toEqual([file.url]);

  const picture = await fetch(file.url);
  expect(picture.headers.get("content-type")).toBe("image/png");
  const bytes = Buffer.from(await picture.arrayBuffer());
  expect(bytes.length).toBe(file.size_bytes);
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(file.sha256);
  const part = await fetch(file.url, { headers: { range: "bytes=1-3" } });
  expect(part.status).toBe(206);
  expect(await part.text()).toBe("PNG");

  const { event, payload } = await receiver.next(job.job_id, 30_000);
  expect(event).toBe("job.completed");
  expect(payload).toEqual({
    job_id: job.job_id,
    status: "completed",
    created_at: record.created_at,
    started_at: record.started_at,
    completed_at: record.completed_at,
    execution_time_ms: record.execution_time_ms,
    outputs: { images: [file.url] },
    metadata: { order: 7 },
  });
});

it("tells which node failed", async () => {
  const prompt = JSON.stringify({
    "1": { class_type: "LoadImage", inputs: { image: "no-such-picture.png" } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "x" } },
  });
  const job = await submitPrompt(started.local, prompt);
  const record = await untilTerminal(started.local, job.job_id);
  expect(record).toMatchObject({ status: "failed", error: { code: "invalid_prompt", node_id: "1" } });
  expect(record.outputs).toBeUndefined();
});

it("keeps what it writes to itself", async () => {
  for (const name of ["local.json", "secrets.json", "account.json"]) {
    expect((await stat(join(folder, name))).mode & 0o777).toBe(0o600);
  }
  expect((await stat(folder)).mode & 0o777).toBe(0o700);
});
