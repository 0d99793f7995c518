import { spawn } from "node:child_process";
import { once } from "node:events";
import sharp from "sharp";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { getJob } from "../../scripts/local/client.ts";
import { freePort } from "../../scripts/local/ports.ts";
import { type FakeComfyui, startFakeComfyui } from "../fakes/comfyui/server.ts";
import { freshImage, pictureOf, saveImage, serveFiles } from "../gpu-runner/comfyui/subject.ts";
import {
  newFolder,
  pidsOfGroup,
  ROOT,
  removeFolder,
  type Started,
  start,
  submitPrompt,
  untilStatus,
  untilTerminal,
  waitFor,
} from "./stack.ts";

/** `COMFYUI_URLS=... npm start` with two servers that are played. */

let folder: string;
let started: Started;
let fakes: FakeComfyui[];
let hasEnded = false;
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  fakes = [await startFakeComfyui(), await startFakeComfyui()];
  folder = await newFolder();
  started = await start(folder, [], {
    COMFYUI_URLS: fakes.map(({ url }) => url).join(","),
    COMFYUI_FOLDERS: fakes.map((fake) => fake.folder).join(","),
    COMFYUI_ALLOW: "core,recorder_nodes",
  });
});

afterAll(async () => {
  if (!hasEnded) await started?.signal("SIGTERM");
  for (const close of closing) await close();
  await Promise.all((fakes ?? []).map((fake) => fake.close()));
  await removeFolder(folder);
});

/** Works for as many times 20 ms. */
const slow = (steps: number): string =>
  JSON.stringify({
    1: freshImage(),
    2: { class_type: "TestSlow", inputs: { image: ["1", 0], steps, step_ms: 20, preview: false } },
    3: saveImage("2"),
  });

const onePicture = (): string => JSON.stringify({ 1: freshImage(), 2: saveImage("1") });

const cancel = (job_id: string): Promise<Response> =>
  fetch(`${started.local.base_url}/v1/jobs/${job_id}/cancel`, {
    method: "POST",
    headers: { authorization: `Bearer ${started.local.api_key}` },
  });

const busy = (): FakeComfyui | undefined => fakes.find((fake) => fake.running() !== undefined);
const atWork = (): Promise<FakeComfyui> => waitFor("a server to be at work", busy);

const nothingLeft = (): Promise<true> =>
  waitFor("the servers to be clean", () =>
    fakes.every((fake) => [...fake.files(), ...fake.history(), ...fake.queued()].length === 0 && !fake.running())
      ? true
      : undefined,
  );

describe("A start with two ComfyUI servers", () => {
  it("says that they are ready", async () => {
    expect(started.output()).toContain("waiting for a ComfyUI server to be ready");
    for (const { url } of fakes) await started.printed(`${url} is ready: ComfyUI 0.33.0`);
  });

  it("runs a workflow with a picture from a URL to a stored picture", async () => {
    const files = await serveFiles(new Map([["red.png", await pictureOf(40, 30, "red")]]));
    closing.push(() => files.close());
    const load = { class_type: "LoadImage", inputs: { image: files.urlOf("red.png") } };
    const job = await submitPrompt(started.local, JSON.stringify({ 1: load, 2: saveImage("1", "loaded") }));
    const record = await untilTerminal(started.local, job.job_id);
    expect(record).toMatchObject({ status: "completed", attempt: 1 });
    expect(record.timing?.download_ms).toBeGreaterThan(0);
    const [file] = record.outputs?.files ?? [];
    if (!file) throw new Error("no output");
    expect(file.filename).toBe("loaded_00001_.png");
    const picture = sharp(await (await fetch(file.url)).arrayBuffer());
    expect(await picture.metadata()).toMatchObject({ width: 40, height: 30 });
    await nothingLeft();
  });

  it("gives both of them work at a time", async () => {
    const jobs = [await submitPrompt(started.local, slow(50)), await submitPrompt(started.local, slow(50))];
    await waitFor("both to be at work", () => (fakes.every((fake) => fake.running()) ? true : undefined));
    const ends = await Promise.all(jobs.map(({ job_id }) => untilTerminal(started.local, job_id)));
    expect(ends.map(({ status }) => status)).toEqual(["completed", "completed"]);
    await nothingLeft();
  });

  it("stops a running workflow when its job is cancelled", async () => {
    const job = await submitPrompt(started.local, slow(1_000));
    await atWork();
    await untilStatus(started.local, job.job_id, "running");
    expect((await cancel(job.job_id)).ok).toBe(true);
    expect(await untilTerminal(started.local, job.job_id)).toMatchObject({ status: "cancelled" });
    await nothingLeft();
  });

  it("tries a job again whose server died in the middle of it, on the other one", async () => {
    const job = await submitPrompt(started.local, slow(50));
    const lost = await atWork();
    await lost.die();
    const record = await untilTerminal(started.local, job.job_id);
    expect(record).toMatchObject({ status: "completed", attempt: 2 });
    await started.printed(`${lost.url} is not ready: nothing listens at its address`);
    await lost.restart();
    await waitFor("it to be back", () =>
      started.output().split(`${lost.url} is ready`).length > 2 ? true : undefined,
    );
    await nothingLeft();
  });

  it("lets a job wait while no server is there, and completes it when one is back", async () => {
    await Promise.all(fakes.map((fake) => fake.die()));
    const job = await submitPrompt(started.local, onePicture());
    for (const { url } of fakes) await started.printed(`${url} is out of service`);
    expect((await getJob(started.local, job.job_id)).status).not.toBe("failed");
    await Promise.all(fakes.map((fake) => fake.restart()));
    expect(await untilTerminal(started.local, job.job_id)).toMatchObject({ status: "completed" });
    await nothingLeft();
  });
});

describe("Ctrl-C", () => {
  it("ends all of it in order", async () => {
    const [pid] = await started.pids("scripts/start.ts");
    if (pid === undefined) throw new Error("no start process");
    const said = started.output().length;
    hasEnded = true;
    await started.signal("SIGINT");
    expect(started.output().slice(said).trim()).toBe("Stopping.");
    await waitFor("its processes to be gone", async () =>
      (await pidsOfGroup(pid, "")).length === 0 ? true : undefined,
    );
    await nothingLeft();
  });
});

describe("A start whose ComfyUI is not there", () => {
  async function startWith(env: Record<string, string>) {
    const own = await newFolder();
    const port = String(await freePort(0, true, () => {}));
    const child = spawn(process.execPath, ["scripts/start.ts", "--folder", own, "--port", port], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
    const ended = once(child, "close");
    const { pid } = child;
    if (pid === undefined) throw new Error("The start has no process.");
    closing.push(() => removeFolder(own));
    return { pid, child, output: () => output, ended };
  }

  it("says what it waits for, and a signal for its process alone ends all of it", async () => {
    const { pid, ended, output } = await startWith({ COMFYUI_URLS: "http://127.0.0.1:9" });
    await waitFor("its words", () => (output().includes("http://127.0.0.1:9 is not ready: ") ? true : undefined));
    expect((await pidsOfGroup(pid, "gpu-runner/main.ts")).length).toBe(1);
    process.kill(pid, "SIGINT");
    expect(await ended).toEqual([0, null]);
    expect(output()).toContain("Stopping.");
    expect(output()).not.toContain("could not start");
    await waitFor("its processes to be gone", async () =>
      (await pidsOfGroup(pid, "")).length === 0 ? true : undefined,
    );
  });

  it("names a mistake in the settings at once, in the runner's words", async () => {
    const { pid, ended, output } = await startWith({
      COMFYUI_URLS: "http://127.0.0.1:9",
      COMFYUI_ALLOW: "a,,b",
      COMFYUI_STALL: "1",
    });
    expect(await ended).toEqual([1, null]);
    expect(output()).toContain("Darkroom could not start: The runner ended at its start (code 2):");
    expect(output()).toContain("--comfyui-allow is not usable: it has an empty entry between two commas");
    expect(output()).toContain("--comfyui-stall must be a whole number from 10 to 3600");
    expect(await pidsOfGroup(pid, "")).toEqual([]);
  });
});
