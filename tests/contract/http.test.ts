import { expect, it } from "vitest";
import { api, call, HELLO, newAccount, readJob, submit, submitted } from "../worker/service.ts";
import { cancel, refused, remove } from "./account.ts";

const post = (key: string, headers: Record<string, string>, body: BodyInit = JSON.stringify({ prompt: HELLO })) =>
  api(key, "/v1/jobs", { method: "POST", headers: { "content-type": "application/json", ...headers }, body });

it("puts the request id on every response, and into every envelope", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  const responses = await Promise.all([
    api(api_key, `/v1/jobs/${job_id}`),
    api(api_key, "/v1/limits"),
    cancel(api_key, job_id),
    call("/healthz"),
    call("/.well-known/jwks.json"),
  ]);
  responses.push(await remove(api_key, job_id));
  const ids = responses.map(({ headers }) => headers.get("x-request-id") ?? "");
  for (const id of ids) expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect(new Set(ids).size).toBe(ids.length);
  await refused(await api(api_key, "/v1/nope"), "not_found");
  await refused(await call("/nope"), "not_found");
  await refused(await call("/outputs/nope"), "not_found");
  const given = await api(api_key, "/v1/limits", { headers: { "x-request-id": "mine" } });
  expect(given.headers.get("x-request-id")).not.toBe("mine");
});

it("answers HEAD like GET, without a body", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  for (const [path, status] of [
    ["/v1/jobs", 200],
    [`/v1/jobs/${job_id}`, 200],
    ["/v1/limits", 200],
    ["/v1/jobs?limit=0", 400],
    ["/v1/jobs/nope", 404],
    [`/v1/jobs/${job_id}/cancel`, 405],
  ] as const) {
    const response = await api(api_key, path, { method: "HEAD" });
    expect([path, response.status, await response.text()]).toEqual([path, status, ""]);
    expect(response.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
  }
  expect((await readJob(api_key, job_id)).status).toBe("queued");
});

it("tells OPTIONS what an address allows, and every other method the same", async () => {
  const { api_key } = await newAccount("free");
  const job_id = "01900000-0000-7000-8000-000000000000";
  for (const [path, allow, wrong] of [
    ["/v1/jobs", "GET, HEAD, OPTIONS, POST", "DELETE"],
    [`/v1/jobs/${job_id}`, "DELETE, GET, HEAD, OPTIONS", "POST"],
    [`/v1/jobs/${job_id}/cancel`, "OPTIONS, POST", "GET"],
    ["/v1/limits", "GET, HEAD, OPTIONS", "PATCH"],
  ] as const) {
    const options = await api(api_key, path, { method: "OPTIONS" });
    expect([path, options.status, options.headers.get("allow")]).toEqual([path, 204, allow]);
    const refusal = await api(api_key, path, { method: wrong });
    expect([path, refusal.headers.get("allow")]).toEqual([path, allow]);
    await refused(refusal, "method_not_allowed");
  }
});

it("refuses a compressed body, whatever it holds", async () => {
  const { api_key } = await newAccount("free");
  const zipped = new Response(
    new Blob([JSON.stringify({ prompt: HELLO })]).stream().pipeThrough(new CompressionStream("gzip")),
  );
  await refused(
    await post(api_key, { "content-encoding": "gzip" }, await zipped.arrayBuffer()),
    "unsupported_media_type",
  );
  for (const encoding of ["gzip", "br", "deflate", "gzip, identity", "x"]) {
    await refused(await post(api_key, { "content-encoding": encoding }), "unsupported_media_type");
  }
  expect((await post(api_key, { "content-encoding": "Identity" })).status).toBe(202);
});

it("takes no harm from a Content-Length that lies", async () => {
  const { api_key } = await newAccount("free");
  for (const lie of ["0", "1", "999999", "-1", "abc", "1e3", ""]) {
    const response = await post(api_key, { "content-length": lie });
    expect([lie, response.status]).toEqual([lie, 202]);
    await cancel(api_key, ((await response.json()) as { job_id: string }).job_id);
  }
  await refused(await post(api_key, { "content-length": "99999999999999999999" }), "payload_too_large");
});

it("needs no Content-Type where there is no body", async () => {
  const { api_key } = await newAccount("free");
  const { job_id } = await submitted(api_key);
  expect((await cancel(api_key, job_id)).status).toBe(200);
  await refused(await api(api_key, "/v1/jobs", { method: "POST" }), "invalid_json");
});

it("takes no key from the address, and says where it belongs", async () => {
  const { api_key } = await newAccount("free");
  for (const path of [`/v1/jobs?api_key=${api_key}`, `/v1/jobs/${api_key}`]) {
    const error = await refused(await call(path), "missing_auth");
    expect(error.message).toMatch(/URL/);
    expect(error.message).not.toContain(api_key);
  }
});

it("refuses a graph that names more classes and models than a job's record takes", async () => {
  const { api_key } = await newAccount();
  const models = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`m${n}`, `model-${n}.safetensors`]));
  const response = await submit(api_key, { prompt: { "1": { class_type: "Loader", inputs: models } } });
  expect(response.status).toBe(422);
  expect(await response.json()).toMatchObject({ error: { code: "invalid_prompt" } });
});
