import { afterEach, beforeEach, expect, it } from "vitest";
import { startReceiver } from "../../scripts/local/receiver.ts";
import {
  newFolder,
  QUICK_PROMPT,
  removeFolder,
  SLOW_PROMPT,
  type Started,
  start,
  submitPrompt,
  untilStatus,
  untilTerminal,
  waitFor,
} from "./stack.ts";

let folder: string;
let started: Started;

beforeEach(async () => {
  folder = await newFolder();
  started = await start(folder);
});

afterEach(async () => {
  await started.signal("SIGTERM").catch(() => {});
  await removeFolder(folder);
});

it("ends a job as completed in attempt 2 when its runner is killed and started again", async () => {
  const { local } = started;
  const job = await submitPrompt(local, SLOW_PROMPT);
  await untilStatus(local, job.job_id, "running");
  const [runner] = await started.pids("gpu-runner/main.ts");
  if (runner === undefined) throw new Error("no runner process");
  process.kill(runner, "SIGKILL");
  await started.printed("the runner ended (SIGKILL); starting it again");
  const record = await untilTerminal(local, job.job_id, 90_000);
  expect(record).toMatchObject({ status: "completed", attempt: 2 });
});

it("loses no accepted job when workerd is killed in mid-job", async () => {
  const { local } = started;
  const receiver = await startReceiver(local.webhook_secret);
  try {
    const slow = await submitPrompt(local, SLOW_PROMPT, { webhook_url: receiver.url });
    const quick = await Promise.all(Array.from({ length: 5 }, () => submitPrompt(local, QUICK_PROMPT)));
    await untilStatus(local, slow.job_id, "running");
    for (const pid of await started.pids("workerd")) process.kill(pid, "SIGKILL");
    await started.printed("workerd died and was started again");
    for (const job of [slow, ...quick]) {
      const record = await untilTerminal(local, job.job_id, 90_000);
      expect(record).toMatchObject({ status: "completed", attempt: 1 });
    }
    await receiver.next(slow.job_id, 60_000);
  } finally {
    await receiver.close();
  }
});

it("takes up everything after its whole process group was killed, a webhook that was owed included", async () => {
  const { local } = started;
  const job = await submitPrompt(local, SLOW_PROMPT, { webhook_url: "http://127.0.0.1:9/nobody-listens" });
  await untilStatus(local, job.job_id, "running");
  await started.signal("SIGKILL");
  await waitFor("the group to be gone", async () => ((await started.pids("")).length === 0 ? true : undefined));

  started = await start(folder, ["--port", new URL(local.base_url).port]);
  expect(started.local.api_key).toBe(local.api_key);
  const record = await untilTerminal(started.local, job.job_id, 90_000);
  expect(record).toMatchObject({ status: "completed", attempt: 2 });
  const told = await waitFor("the webhook to have failed for good", async () => {
    const { webhook } = await untilTerminal(started.local, job.job_id);
    return webhook?.status === "pending" ? undefined : webhook;
  });
  expect(told).toMatchObject({ status: "failed", attempts: 4 });
});
