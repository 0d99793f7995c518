import { afterEach, expect, test } from "vitest";
import { type FakeComfyui, startFakeComfyui } from "../fakes/comfyui/server.ts";
import { ask, listen, saving, slow } from "./comfyui-fake-client.ts";

let fake: FakeComfyui;
const start = async (version: string) => {
  fake = await startFakeComfyui({ version });
};
afterEach(() => fake.close());

const OWN = "0e62a21a-69d7-40ff-b93e-7ba69827e975";

test("0.3.40 ignores a client's id, tells no progress_state, has no jobs and no features, and interrupts whatever runs.", async () => {
  await start("0.3.40");
  const client = await listen(fake, "a");
  const { body } = await ask(fake, "POST", "/prompt", { client_id: "a", prompt: slow(1000, 2), prompt_id: OWN });
  expect(body.prompt_id).not.toBe(OWN);
  await expect.poll(client.types).toContain("progress");
  expect(client.types()).not.toContain("progress_state");
  expect((await ask(fake, "GET", "/api/jobs")).status).toBe(404);
  expect((await ask(fake, "GET", "/features")).status).toBe(404);
  await ask(fake, "POST", "/interrupt", { prompt_id: "another" });
  await expect.poll(client.types).toContain("execution_interrupted");
});

test("0.3.64 interrupts only the prompt that is named, and calls an unknown class an invalid prompt.", async () => {
  await start("0.3.64");
  const { body } = await ask(fake, "POST", "/prompt", { prompt: slow(1000, 2), prompt_id: "any string" });
  expect(body.prompt_id).toBe("any string");
  await expect.poll(() => fake.running()).toBe("any string");
  await ask(fake, "POST", "/interrupt", { prompt_id: "another" });
  await new Promise((resolve) => setTimeout(resolve, 120));
  expect(fake.running()).toBe("any string");
  await ask(fake, "POST", "/interrupt", { prompt_id: "any string" });
  await expect.poll(() => fake.history()).toEqual(["any string"]);
  expect((await ask(fake, "GET", "/api/jobs")).status).toBe(404);
  const unknown = await ask(fake, "POST", "/prompt", { prompt: { "1": { class_type: "Nothing", inputs: {} } } });
  expect(unknown.body.error).toEqual({
    type: "invalid_prompt",
    message: "Cannot execute because node Nothing does not exist.",
    details: "Node ID '#1'",
    extra_info: {},
  });
  const prompt = { prompt: slow(1000, 2), extra_data: { api_key_comfy_org: "secret" } };
  await ask(fake, "POST", "/prompt", prompt);
  await expect.poll(() => fake.running()).toBeDefined();
  const { text } = await ask(fake, "GET", "/queue");
  expect(text).toContain("secret");
  expect(text).not.toContain("create_time");
});

test("0.12.2 makes a null id the id None, knows jobs, and has no call to cancel one.", async () => {
  await start("0.12.2");
  expect((await ask(fake, "POST", "/prompt", { prompt: saving(), prompt_id: null })).body.prompt_id).toBe("None");
  await expect.poll(() => fake.history()).toEqual(["None"]);
  expect((await ask(fake, "GET", "/api/jobs/None")).body.status).toBe("completed");
  expect((await ask(fake, "POST", "/api/jobs/None/cancel")).status).toBe(404);
});

test("0.20.0 refuses a cycle but no id, and has no call to cancel a job.", async () => {
  await start("0.20.0");
  const cycle = {
    "2": { class_type: "SaveImage", inputs: { images: ["3", 0], filename_prefix: "x" } },
    "3": { class_type: "ImageInvert", inputs: { image: ["4", 0] } },
    "4": { class_type: "ImageInvert", inputs: { image: ["3", 0] } },
  };
  expect((await ask(fake, "POST", "/prompt", { prompt: cycle })).text).toContain("dependency_cycle");
  expect((await ask(fake, "POST", "/prompt", { prompt: saving(), prompt_id: "job-1" })).status).toBe(200);
  expect((await ask(fake, "POST", "/api/jobs/cancel", { job_ids: [OWN] })).status).toBe(405);
  expect((await ask(fake, "POST", `/api/jobs/${OWN}/cancel`)).status).toBe(404);
});

test("0.6.0 tells every step of progress; 0.33.0 at most one in 100 ms.", async () => {
  const steps = async (version: string) => {
    await start(version);
    const client = await listen(fake, "a");
    await ask(fake, "POST", "/prompt", { client_id: "a", prompt: slow(10, 3) });
    await expect.poll(client.types).toContain("execution_success");
    return client.types().filter((type) => type === "progress").length;
  };
  const old = await steps("0.6.0");
  await fake.close();
  expect([old, await steps("0.33.0")]).toEqual([10, 2]);
});

test("Every version tells its number.", async () => {
  await start("0.27.0");
  expect((await ask(fake, "GET", "/system_stats")).body).toMatchObject({
    system: { comfyui_version: "0.27.0" },
    devices: [{ type: "cuda", index: 0 }],
  });
});
