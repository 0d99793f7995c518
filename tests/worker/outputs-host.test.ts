import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { createApp } from "../../worker/app.ts";
import { outputKey, signOutputUrl } from "../../worker/outputs/urls.ts";
import { newAccount } from "./service.ts";

const HOST = "https://pictures.example.net";

const publicOnly = () => ({ ownHosts: [], loopback: false });
const app = createApp({ webhookTargets: publicOnly, runnerTargets: publicOnly });
const call = (url: string, init: RequestInit = {}) =>
  app.fetch(new Request(url, init), { ...env, OUTPUTS_BASE_URL: HOST }, createExecutionContext());

it("serves nothing but outputs on the outputs' own host", async () => {
  const { api_key } = await newAccount();
  const headers = { authorization: `Bearer ${api_key}` };
  expect((await call(`${env.PUBLIC_BASE_URL}/v1/limits`, { headers })).status).toBe(200);
  for (const path of ["/v1/limits", "/healthz", "/docs", "/operator/fleet", "/"]) {
    const response = await call(`${HOST}${path}`, { headers });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ error: { code: "not_found" } });
  }
  const address = { retention: "d1", account: "acc_x", job: "job_y", fence: 1, n: 0, filename: "a.txt" } as const;
  await env.STORE.put(outputKey("d1", "acc_x", "job_y", 1, 0), "bytes", {
    httpMetadata: { contentType: "text/plain" },
  });
  const url = await signOutputUrl(HOST, env.OUTPUT_URL_KEY, { ...address, expires_at: Date.now() + 60_000 });
  const output = await call(url);
  expect(output.status).toBe(200);
  expect(await output.text()).toBe("bytes");
});
