import { expect, it } from "vitest";
import { TEST_BINDINGS } from "./bindings.ts";
import { call, errorOf } from "./service.ts";

it("serves its document with its own address, to anybody", async () => {
  const response = await call("/openapi.json");
  expect(response.status).toBe(200);
  expect(response.headers.get("x-request-id")).toBeTruthy();
  expect(response.headers.get("x-ratelimit-limit")).toBeNull();
  expect(await response.json()).toMatchObject({
    openapi: "3.1.0",
    servers: [{ url: TEST_BINDINGS.PUBLIC_BASE_URL }],
    paths: { "/v1/jobs": expect.anything() },
  });
});

it("serves a page that may load from the service alone", async () => {
  const response = await call("/docs");
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const policy = response.headers.get("content-security-policy")?.split("; ") ?? [];
  expect(policy).toContain("default-src 'none'");
  expect(policy.join(" ")).not.toMatch(/https?:|\*|unsafe/);
  const page = await response.text();
  expect(page).toContain("<title>Darkroom API</title>");
  expect(page).not.toMatch(/https?:\/\//);
  const again = await call("/docs", { headers: { "if-none-match": response.headers.get("etag") ?? "" } });
  expect(again.status).toBe(304);
});

it("has nothing else below /docs, and shows no other file as it lies", async () => {
  for (const path of ["/docs/", "/docs/nothing", "/docs/nothing.js", "/index.html", "/assets/openapi.json"]) {
    const response = await call(path);
    expect({ path, status: response.status }).toEqual({ path, status: 404 });
    expect(await errorOf(response)).toMatchObject({ code: "not_found" });
  }
});
