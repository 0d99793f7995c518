import { beforeEach, expect, it, vi } from "vitest";
import { output, PlayedRunner, playInternet } from "./played-runner.ts";
import { api, newAccount, submitted } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

it.each([
  ["half-a-character", { filename: "a\ud800.png" }],
  ["dots", { filename: ".." }],
  ["a-path", { filename: "a/b.png" }],
  ["a-header", { content_type: "text/plain\nx: y" }],
  ["no-type", { content_type: "" }],
])("refuses an output whose description could not be served: %s", async (pool, change) => {
  const runner = await PlayedRunner.ready(`odd-${pool}`);
  const { api_key } = await newAccount("pro", `odd-${pool}`);
  const { job_id } = await submitted(api_key);
  const dispatch = await runner.dispatched(job_id);
  const { bytes, description } = await output("x", change);
  expect((await runner.upload(dispatch, 0, bytes, description)).status).toBe(400);
  expect((await runner.end(dispatch, { outcome: "completed", outputs: [description] })).status).toBe(400);
  expect((await api(api_key, "/v1/jobs")).status).toBe(200);
});
