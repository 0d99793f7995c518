import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { accountObject, api, call, errorOf, newAccount, operator, submit, submitted } from "./service.ts";

const UNKNOWN_KEY = `sk_live_${"x".repeat(43)}`;
const LIST = "/v1/jobs?limit=1";

/** A request from a client address of its own, so that tests do not count against each other. */
let addresses = 0;
const newAddress = (): string => `198.51.100.${++addresses}`;
const from = (address: string, authorization?: string): Promise<Response> =>
  call(LIST, { headers: { "cf-connecting-ip": address, ...(authorization === undefined ? {} : { authorization }) } });

function expectRateHeaders({ headers }: Response, limit: number): void {
  expect(headers.get("x-ratelimit-limit")).toBe(String(limit));
  const remaining = headers.get("x-ratelimit-remaining");
  expect(remaining).toMatch(/^\d+$/);
  expect(Number(headers.get("x-ratelimit-reset")) - Date.now() / 1000).toBeLessThanOrEqual(61);
  expect(Number(headers.get("x-ratelimit-reset"))).toBeGreaterThanOrEqual(Math.floor(Date.now() / 1000));
  expect(headers.get("ratelimit-policy")).toBe(`"default";q=${limit};w=60`);
  expect(headers.get("ratelimit")).toMatch(new RegExp(`^"default";r=${remaining};t=\\d+$`));
}

async function expectRefusal(response: Response, status: number, code: string): Promise<string> {
  expect(response.status).toBe(status);
  expect(response.headers.get("content-type")).toMatch(/^application\/json/);
  expect(response.headers.get("www-authenticate")).toBe(status === 401 ? "Bearer" : null);
  const error = await errorOf(response);
  expect(error.code).toBe(code);
  expect(error.message).not.toBe("");
  expect(error.request_id).toMatch(/^[0-9a-f-]{36}$/);
  expect(response.headers.get("x-request-id")).toBe(error.request_id);
  return error.message;
}

it("refuses a request without an Authorization header with missing_auth", async () => {
  const response = await from(newAddress());
  expectRateHeaders(response, 60);
  const message = await expectRefusal(response, 401, "missing_auth");
  expect(message).toContain("Authorization: Bearer");
  expect(message).not.toContain("URL");
});

it("says where a key belongs that was sent in the URL, and accepts it nowhere in it", async () => {
  const { api_key } = await newAccount();
  for (const path of [`/v1/jobs?api_key=${api_key}`, `/v1/jobs/${api_key}`]) {
    const message = await expectRefusal(
      await call(path, { headers: { "cf-connecting-ip": newAddress() } }),
      401,
      "missing_auth",
    );
    expect(message).toContain("URL");
    expect(message).not.toContain(api_key);
  }
});

it("refuses a header that is not a scheme and one token with invalid_auth_format", async () => {
  const { api_key } = await newAccount();
  const headers = ["Bearer", "Basic dXNlcjpwYXNz", api_key, `Bearer ${api_key} ${api_key}`, `Bearer ${api_key},x`];
  for (const authorization of [...headers, `Token ${api_key}`, `Bearer${api_key}`]) {
    const response = await from(newAddress(), authorization);
    expectRateHeaders(response, 60);
    await expectRefusal(response, 401, "invalid_auth_format");
  }
});

it("accepts the scheme in any case", async () => {
  const { api_key } = await newAccount();
  for (const scheme of ["Bearer", "bearer", "BEARER", "bEaReR"]) {
    const response = await from(newAddress(), `${scheme}   ${api_key}`);
    expect(response.status).toBe(200);
    expectRateHeaders(response, 300);
  }
});

it("refuses every unknown token with invalid_api_key, whatever it looks like", async () => {
  const { api_key } = await newAccount();
  const tokens = [
    UNKNOWN_KEY,
    "x",
    `${api_key}x`,
    api_key.slice(0, -1),
    api_key.toUpperCase(),
    "sk_live_",
    "__proto__",
  ];
  for (const token of tokens) {
    const response = await from(newAddress(), `Bearer ${token}`);
    expectRateHeaders(response, 60);
    await expectRefusal(response, 401, "invalid_api_key");
  }
});

it("says of a sandbox key that such keys are not available yet", async () => {
  const response = await from(newAddress(), `Bearer sk_test_${"y".repeat(43)}`);
  const message = await expectRefusal(response, 401, "invalid_api_key");
  expect(message).toContain("sk_test_");
  expect(message).toContain("not available yet");
});

it("refuses a revoked key at once, and only that one", async () => {
  const { account_id, api_key } = await newAccount();
  const second = await operator<{ api_key: string }>(`/accounts/${account_id}/keys`, { name: "second" });
  expect((await submit(api_key)).status).toBe(202);
  await operator(`/accounts/${account_id}/keys/revoke`, { key: api_key.slice(0, 12) });
  for (const response of [await api(api_key, LIST), await submit(api_key), await api(api_key, "/v1/nowhere")]) {
    expectRateHeaders(response, 300);
    expect(response.headers.get("x-ratelimit-remaining")).toBe("299");
    await expectRefusal(response, 401, "revoked_api_key");
  }
  const list = await api(second.api_key, LIST);
  expect(list.status).toBe(200);
  expect(((await list.json()) as { jobs: unknown[] }).jobs).toHaveLength(1);
});

it("remembers a revoked key without asking its account again", async () => {
  const { account_id, api_key } = await newAccount();
  await operator(`/accounts/${account_id}/keys/revoke`, { key: api_key.slice(0, 12) });
  await expectRefusal(await api(api_key, LIST), 401, "revoked_api_key");
  // Were the account asked, it would now know nothing of a revocation.
  await runInDurableObject(accountObject({ account_id }), (_, state) => {
    state.storage.sql.exec("UPDATE keys SET revoked_at = NULL");
  });
  await expectRefusal(await api(api_key, LIST), 401, "revoked_api_key");
});

it("refuses a suspended account with 403 until it is resumed, and consumes nothing", async () => {
  const { account_id, api_key } = await newAccount();
  await operator(`/accounts/${account_id}/suspend`, {});
  for (let i = 0; i < 3; i++) {
    const response = await api(api_key, LIST);
    expectRateHeaders(response, 300);
    expect(response.headers.get("x-ratelimit-remaining")).toBe("300");
    await expectRefusal(response, 403, "account_suspended");
  }
  await operator(`/accounts/${account_id}/resume`, {});
  expect((await api(api_key, LIST)).status).toBe(200);
});

it("counts strangers by their address and refuses them past 60, but never a valid key from there", async () => {
  const { api_key } = await newAccount();
  const address = newAddress();
  const authorizations = [undefined, `Bearer ${UNKNOWN_KEY}`, "Basic x", `Bearer sk_test_${"z".repeat(43)}`];
  for (let i = 0; i < 60; i++) {
    const response = await from(address, authorizations[i % authorizations.length]);
    expect(response.status).toBe(401);
    expect(response.headers.get("x-ratelimit-remaining")).toBe(String(59 - i));
  }
  for (const authorization of authorizations) {
    const response = await from(address, authorization);
    expectRateHeaders(response, 60);
    const retryAfter = Number(response.headers.get("retry-after"));
    expect(retryAfter).toBeGreaterThanOrEqual(1);
    expect(retryAfter).toBeLessThanOrEqual(60);
    await expectRefusal(response, 429, "rate_limit_exceeded");
  }
  const valid = await from(address, `Bearer ${api_key}`);
  expect(valid.status).toBe(200);
  expect(valid.headers.get("x-ratelimit-remaining")).toBe("299");
  expect((await from(newAddress())).status).toBe(401);
});

it("counts IPv6 strangers by their /64, and mapped IPv4 as the address that it is", async () => {
  const remaining = async (address: string) => Number((await from(address)).headers.get("x-ratelimit-remaining"));
  expect(await remaining("2001:db8:7:1::1")).toBe(59);
  expect(await remaining("2001:db8:7:1:ffff:ffff:ffff:ffff")).toBe(58);
  expect(await remaining("2001:DB8:0007:0001::2")).toBe(57);
  expect(await remaining("2001:db8:7:2::1")).toBe(59);
  const v4 = newAddress();
  expect(await remaining(v4)).toBe(59);
  expect(await remaining(`::ffff:${v4}`)).toBe(58);
});

it("asks for no key where the contract is public", async () => {
  for (const path of ["/healthz", "/.well-known/jwks.json"]) {
    const response = await call(path);
    expect(response.status).toBe(200);
    expect(response.headers.get("x-ratelimit-limit")).toBeNull();
    expect(response.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  }
  const nowhere = await call("/nowhere");
  expect(nowhere.headers.get("x-ratelimit-limit")).toBeNull();
  await expectRefusal(nowhere, 404, "not_found");
});

it("shows no account what belongs to another", async () => {
  const [owner, other] = [await newAccount(), await newAccount()];
  const { job_id } = await submitted(owner.api_key);
  const theirs = await api(other.api_key, `/v1/jobs/${job_id}`);
  const unknown = await api(other.api_key, "/v1/jobs/01900000-0000-7000-8000-000000000000");
  const words = [await expectRefusal(theirs, 404, "job_not_found"), await expectRefusal(unknown, 404, "job_not_found")];
  expect(words[0]).toBe(words[1]);
  expect(await (await api(other.api_key, LIST)).json()).toMatchObject({ jobs: [] });
});
