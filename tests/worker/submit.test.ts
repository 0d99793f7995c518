import { expect, it } from "vitest";
import type { JobRecord } from "../../schemas/job.ts";
import { api, newAccount, submit } from "./service.ts";

it("stores a submitted job and shows it to the account", async () => {
  const { api_key } = await newAccount();
  const response = await submit(api_key);
  expect(response.status).toBe(202);
  const job = (await response.json()) as JobRecord;
  expect(response.headers.get("location")).toBe(job.urls.self);
  expect(job.status).toBe("queued");
  const read = await api(api_key, `/v1/jobs/${job.job_id}`);
  expect(read.status).toBe(200);
  expect(await read.json()).toEqual(job);
});
