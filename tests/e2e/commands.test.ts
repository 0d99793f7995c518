import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  newFolder,
  pidsOfGroup,
  QUICK_PROMPT,
  ROOT,
  removeFolder,
  type Started,
  start,
  startOnItsPort,
  submitPrompt,
  untilTerminal,
  waitFor,
} from "./stack.ts";

const run = promisify(execFile);

let folder: string;
let strict: Started;

beforeAll(async () => {
  folder = await newFolder();
  strict = await start(folder, ["--strict"]);
});

afterAll(async () => {
  await strict?.signal("SIGTERM");
  await removeFolder(folder);
});

async function admin(...args: string[]): Promise<Record<string, unknown>> {
  const { stdout } = await run(process.execPath, ["scripts/admin.ts", "--folder", folder, ...args], { cwd: ROOT });
  return JSON.parse(stdout) as Record<string, unknown>;
}

const jobs = (key: string): Promise<Response> =>
  fetch(`${strict.local.base_url}/v1/jobs`, { headers: { authorization: `Bearer ${key}` } });

it("refuses webhooks to this machine in a strict start, and still runs jobs on its own runner", async () => {
  const { local } = strict;
  await expect(submitPrompt(local, QUICK_PROMPT, { webhook_url: "http://127.0.0.1:9000/" })).rejects.toThrow(
    "invalid_webhook_url",
  );
  const job = await submitPrompt(local, QUICK_PROMPT);
  expect(await untilTerminal(local, job.job_id)).toMatchObject({ status: "completed" });
});

it("drains a runner at an operator's word: it ends in order, and its next process takes jobs again", async () => {
  const listed = async () => ((await admin("runners", "list")).runners as { runner_id: string; state: string }[])[0];
  const runner_id = (await listed())?.runner_id ?? "";
  expect(await admin("runners", "drain", "--runner", runner_id)).toMatchObject({ runner_id, draining: true });
  await strict.printed("the runner ended (code 0); starting it again");
  await waitFor("the runner to be back", async () => ((await listed())?.state === "active" ? true : undefined));
  const job = await submitPrompt(strict.local, QUICK_PROMPT);
  expect(await untilTerminal(strict.local, job.job_id)).toMatchObject({ status: "completed" });
});

it("lets an operator make, use, suspend, resume and revoke", async () => {
  const account = await admin("accounts", "create", "--email", "a@b.c", "--tier", "free");
  expect(account).toEqual({
    account_id: expect.stringMatching(/^acc_/),
    api_key: expect.stringMatching(/^sk_live_.{43}$/),
    webhook_secret: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  const id = String(account.account_id);
  expect((await jobs(String(account.api_key))).headers.get("x-ratelimit-limit")).toBe("60");
  await admin("accounts", "set-tier", "--account", id, "--tier", "enterprise");
  expect((await jobs(String(account.api_key))).headers.get("x-ratelimit-limit")).toBe("1000");
  const { api_key } = await admin("keys", "create", "--account", id, "--name", "second");
  expect((await jobs(String(api_key))).status).toBe(200);
  await admin("accounts", "suspend", "--account", id);
  expect((await jobs(String(api_key))).status).toBe(403);
  await admin("accounts", "resume", "--account", id);
  await admin("keys", "revoke", "--account", id, "--key", String(api_key).slice(0, 12));
  expect((await jobs(String(api_key))).status).toBe(401);
  expect((await jobs(String(account.api_key))).status).toBe(200);
});

it("makes a new webhook secret, in both spellings, and another one each time", async () => {
  const { account_id } = await admin("accounts", "create", "--email", "a@b.c", "--tier", "free");
  const renew = () => admin("accounts", "new-webhook-secret", "--account", String(account_id));
  const renewed = await renew();
  expect(renewed).toEqual({
    account_id,
    webhook_secret: expect.stringMatching(/^[0-9a-f]{64}$/),
    standard_webhooks_secret: `whsec_${btoa(String(renewed.webhook_secret))}`,
  });
  expect((await renew()).webhook_secret).not.toBe(renewed.webhook_secret);
});

it("shows the fleet and makes enrolment tokens", async () => {
  const { runners } = (await admin("runners", "list")) as { runners: { state: string; engine: { name: string } }[] };
  expect(runners).toMatchObject([{ state: "active", engine: { name: "embedded" } }]);
  expect(await admin("fleet", "status")).toMatchObject({ runners: { active: 1 }, tickets_waiting: 0 });
  expect(await admin("runners", "token")).toMatchObject({ token: expect.stringMatching(/^dre_default_.{43}$/) });
});

it("says on standard error what is wrong with a command, and exits non-zero", async () => {
  const failure = (...args: string[]) =>
    admin(...args).then(
      () => undefined,
      (error: { code: number; stderr: string; stdout: string }) => error,
    );
  expect(await failure("accounts", "create", "--tier", "pro")).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("needs --email"),
  });
  expect(await failure("accounts", "suspend", "--account", "acc_nobody")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("no such account"),
  });
  expect(await failure("accounts", "new-webhook-secret")).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringContaining("needs --account"),
  });
  expect(await failure("accounts", "new-webhook-secret", "--account", "acc_nobody")).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("no such account"),
  });
  expect(await failure("nonsense")).toMatchObject({ code: 2 });
});

it("refuses a second start in the same folder", async () => {
  await expect(run(process.execPath, ["scripts/start.ts", "--folder", folder], { cwd: ROOT })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("running already"),
  });
});

it("names a busy port that was asked for", async () => {
  const other = await newFolder();
  const busy = createServer();
  await new Promise<void>((resolve) => busy.listen(0, "127.0.0.1", resolve));
  try {
    const address = busy.address();
    const port = typeof address === "object" && address ? String(address.port) : "";
    await expect(
      run(process.execPath, ["scripts/start.ts", "--folder", other, "--port", port], { cwd: ROOT }),
    ).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`Port ${port} is in use`),
    });
  } finally {
    busy.close();
    await removeFolder(other);
  }
});

it("runs the demo to its end, with a picture of every example", async () => {
  const other = await newFolder();
  try {
    const { stdout } = await run(process.execPath, ["scripts/demo.ts", "--folder", other], {
      cwd: ROOT,
      timeout: 110_000,
    });
    expect(stdout).toContain("signature verified");
    const examples = (await readdir(join(ROOT, "examples"))).filter((name) => name.endsWith(".json"));
    const pictures = await readdir(join(other, "outputs"));
    expect(pictures.sort()).toEqual(examples.map((name) => name.replace(".json", "")).sort());
  } finally {
    await removeFolder(other);
  }
});

it("takes another port when its own is busy, says so, and leaves no process behind when it is told to stop", async () => {
  const other = await newFolder();
  const busy = createServer();
  // Where somebody has the port already, it is busy all the same.
  await new Promise<void>((resolve) => busy.once("error", () => resolve()).listen(8787, "127.0.0.1", resolve));
  try {
    const second = await startOnItsPort(other, []);
    expect(second.output()).toContain("port 8787 is in use, taking");
    expect((await fetch(`${second.local.base_url}/healthz`)).status).toBe(200);
    const [parent] = await second.pids("scripts/start.ts");
    if (parent === undefined) throw new Error("no start process");
    await second.signal("SIGINT");
    expect(second.output()).toContain("Stopping");
    await waitFor(
      "its processes to be gone",
      async () => ((await pidsOfGroup(parent, "")).length === 0 ? true : undefined),
      5_000,
    );
  } finally {
    busy.close();
    await removeFolder(other);
  }
});
