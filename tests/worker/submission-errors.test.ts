import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { accountObject, api, errorOf, HELLO, newAccount, submit, submitted, type TestAccount } from "./service.ts";

const MIB = 1024 * 1024;
const NODE = { class_type: "X", inputs: {} };

function post(
  key: string,
  body: BodyInit,
  headers: Record<string, string> = { "content-type": "application/json" },
): Promise<Response> {
  return api(key, "/v1/jobs", { method: "POST", headers, body });
}

const jobCount = (account: TestAccount): Promise<number> =>
  runInDurableObject(accountObject(account), (_, state) =>
    Number(state.storage.sql.exec("SELECT COUNT(*) AS n FROM jobs").one().n),
  );

async function expectError(response: Response, status: number, code: string) {
  const error = await errorOf(response);
  expect({ status: response.status, code: error.code }).toEqual({ status, code });
  return error;
}

/** A body that comes in pieces and says nothing of its length. */
function streamed(bytes: number): ReadableStream {
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      if (sent >= bytes) controller.close();
      else controller.enqueue(new Uint8Array(64 * 1024).fill(0x20));
      sent += 64 * 1024;
    },
  });
}

it("refuses a body beyond 10 MiB by its declared length and while it streams", async () => {
  const { api_key } = await newAccount();
  const json = { "content-type": "application/json" };
  const declared = await post(api_key, "{}", { ...json, "content-length": String(10 * MIB + 1) });
  expect((await expectError(declared, 413, "payload_too_large")).details).toEqual({ max_bytes: 10 * MIB });
  const error = await expectError(await post(api_key, streamed(11 * MIB)), 413, "payload_too_large");
  expect(error.details).toEqual({ max_bytes: 10 * MIB });
  await expectError(await post(api_key, streamed(9 * MIB)), 400, "invalid_json");
});

it("refuses any other content type, and compressed bodies", async () => {
  const { api_key } = await newAccount();
  const body = JSON.stringify({ prompt: HELLO });
  for (const type of ["text/plain", "application/jsonp", "application/x-www-form-urlencoded", "application/json5"]) {
    await expectError(await post(api_key, body, { "content-type": type }), 415, "unsupported_media_type");
  }
  const gzip = { "content-type": "application/json", "content-encoding": "gzip" };
  await expectError(await post(api_key, body, gzip), 415, "unsupported_media_type");
  for (const type of ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json ;charset=UTF-8"]) {
    expect((await post(api_key, body, { "content-type": type })).status).toBe(202);
  }
});

it("refuses what is not JSON in UTF-8", async () => {
  const { api_key } = await newAccount();
  const text = new TextEncoder();
  const bad = [0xff, 0xfe, 0x80];
  const bodies: BodyInit[] = ["", "{", '{"prompt":{},}', "undefined", "{'prompt':{}}", '{"prompt":{}} x', "\ufeff{}"];
  const broken = new Uint8Array([...text.encode('{"prompt":{"1":{"class_type":"'), ...bad, ...text.encode('"}}}')]);
  for (const body of [...bodies, broken]) await expectError(await post(api_key, body), 400, "invalid_json");
});

it("names the field that is wrong", async () => {
  const { api_key } = await newAccount();
  const cases: [field: string, body: Record<string, unknown>][] = [
    ["prompt", {}],
    ["prompt", { prompt: null }],
    ["prompt", { prompt: [] }],
    ["prompt", { prompt: "{}" }],
    ["metadata", { prompt: HELLO, metadata: [] }],
    ["metadata", { prompt: HELLO, metadata: { text: "x".repeat(1024) } }],
    ["timeout_s", { prompt: HELLO, timeout_s: 0 }],
    ["timeout_s", { prompt: HELLO, timeout_s: 3601 }],
    ["timeout_s", { prompt: HELLO, timeout_s: "60" }],
    ["timeout_s", { prompt: HELLO, timeout_s: 1.5 }],
    ["queue_timeout_s", { prompt: HELLO, queue_timeout_s: 86_401 }],
    ["priority", { prompt: HELLO, priority: -11 }],
    ["webhook_url", { prompt: HELLO, webhook_url: 7 }],
  ];
  for (const [field, body] of cases) {
    const error = await expectError(await submit(api_key, body), 400, "invalid_request");
    expect(error.details).toEqual({ field });
  }
  for (const body of ["[]", "null", '"x"', "7"]) {
    await expectError(await submit(api_key, body), 400, "invalid_request");
  }
});

it("takes null in an optional field as absent, and ignores what it does not know", async () => {
  const { api_key } = await newAccount();
  const nulls = { webhook_url: null, metadata: null, timeout_s: null, queue_timeout_s: null, priority: null };
  const job = await submitted(api_key, { prompt: HELLO, ...nulls, unknown: { x: 1 } });
  expect(Object.keys(job)).not.toContain("metadata");
  expect(Object.keys(job)).not.toContain("webhook");
});

it("refuses a body that is too deep or holds too many values, before parsing it", async () => {
  const { api_key } = await newAccount();
  const deep = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;
  const nested = (levels: number): string => `{"prompt":{"1":{"class_type":"X","inputs":{"deep":${deep(levels)}}}}}`;
  expect((await post(api_key, nested(96))).status).toBe(202);
  await expectError(await post(api_key, nested(97)), 400, "invalid_request");
  await expectError(await post(api_key, deep(5_000_000)), 400, "invalid_request");

  const parse = vi.spyOn(JSON, "parse");
  const flood = `[${"{},".repeat(3_400_000)}{}]`;
  expect(flood.length).toBeLessThan(10 * MIB);
  const response = await post(api_key, flood);
  const sawLarge = () => parse.mock.calls.some(([text]) => text.length > MIB);
  expect(sawLarge()).toBe(false);
  await expectError(await post(api_key, `${" ".repeat(2 * MIB)}{`), 400, "invalid_json");
  expect(sawLarge()).toBe(true);
  parse.mockRestore();
  await expectError(response, 400, "invalid_request");
});

it("refuses webhook targets that nobody public can be reached at, and names the rule", async () => {
  const { api_key } = await newAccount();
  const urls: [url: string, rule: RegExp][] = [
    ["http://hooks.example.org/x", /https/],
    ["https://localhost/x", /publicly/],
    ["https://127.0.0.1/x", /publicly/],
    ["https://10.1.2.3/x", /publicly/],
    ["https://192.168.0.1/x", /publicly/],
    ["https://[::1]/x", /publicly/],
    ["https://0x7f.1/x", /publicly/],
    ["https://intranet/x", /public/],
    ["https://user:pw@hooks.example.org/", /user information/],
    ["https://hooks.example.org:22/", /port/],
    ["hooks.example.org", /absolute/],
  ];
  for (const [webhook_url, rule] of urls) {
    const error = await expectError(await submit(api_key, { prompt: HELLO, webhook_url }), 400, "invalid_webhook_url");
    expect(error.message).toMatch(rule);
  }
});

it("judges the webhook URL before the graph, and the shape before the webhook URL", async () => {
  const { api_key } = await newAccount();
  const webhook_url = "http://127.0.0.1/";
  await expectError(await submit(api_key, { prompt: {}, webhook_url }), 400, "invalid_webhook_url");
  await expectError(await submit(api_key, { prompt: {}, webhook_url, priority: 99 }), 400, "invalid_request");
});

it("recognises ComfyUI's UI export and says what to send instead", async () => {
  const { api_key } = await newAccount();
  const prompt = { last_node_id: 1, nodes: [{ id: 1, type: "SaveImage" }], links: [], version: 0.4 };
  const error = await expectError(await submit(api_key, { prompt }), 422, "invalid_prompt");
  expect(error.message).toMatch(/API format/);
});

it("lists what is wrong with each node", async () => {
  const { api_key } = await newAccount();
  const prompt = {
    "1": "text",
    "2": { inputs: {} },
    "3": { class_type: "X" },
    "4": { class_type: "X", inputs: { a: ["9", 0], b: ["1", -1], c: ["2", 0.5] } },
  };
  const error = await expectError(await submit(api_key, { prompt }), 422, "invalid_prompt");
  expect(error.details?.node_errors).toEqual({
    "1": [{ reason: "not_an_object", message: expect.any(String) }],
    "2": [{ field: "class_type", reason: "invalid_class_type", message: expect.any(String) }],
    "3": [{ field: "inputs", reason: "invalid_inputs", message: expect.any(String) }],
    "4": [
      { field: "a", reason: "unknown_node", message: expect.stringContaining('"9"') },
      { field: "b", reason: "invalid_output_index", message: expect.any(String) },
      { field: "c", reason: "invalid_output_index", message: expect.any(String) },
    ],
  });
  const loop = { "1": { class_type: "X", inputs: { a: ["2", 0] } }, "2": { class_type: "X", inputs: { a: ["1", 0] } } };
  const cycle = await expectError(await submit(api_key, { prompt: loop }), 422, "invalid_prompt");
  expect(Object.values(cycle.details?.node_errors ?? {}).flat()).toMatchObject([{ reason: "cycle" }]);
  await expectError(await submit(api_key, { prompt: {} }), 422, "invalid_prompt");
  const many = Object.fromEntries(Array.from({ length: 5_001 }, (_, i) => [i, NODE]));
  await expectError(await submit(api_key, { prompt: many }), 422, "invalid_prompt");
  const bad = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [i, {}]));
  const capped = await expectError(await submit(api_key, { prompt: bad }), 422, "invalid_prompt");
  expect(Object.keys(capped.details?.node_errors ?? {})).toHaveLength(100);
});

it("treats __proto__ and its kin as node ids like any other", async () => {
  const { api_key } = await newAccount();
  const good =
    '{"prompt":{"__proto__":{"class_type":"X","inputs":{"__proto__":["constructor",0]}},"constructor":{"class_type":"X","inputs":{}}}}';
  expect((await post(api_key, good)).status).toBe(202);
  const inherited = '{"prompt":{"1":{"__proto__":{"class_type":"X","inputs":{}}}}}';
  await expectError(await post(api_key, inherited), 422, "invalid_prompt");
  await expectError(
    await post(api_key, '{"__proto__":{"prompt":{"1":{"class_type":"X","inputs":{}}}}}'),
    400,
    "invalid_request",
  );
  const unknown = '{"prompt":{"1":{"class_type":"X","inputs":{"a":["toString",0]}}}}';
  await expectError(await post(api_key, unknown), 422, "invalid_prompt");
  const response = await post(api_key, '{"prompt":{"__proto__":{"class_type":""}}}');
  expect(await response.text()).toContain('"node_errors":{"__proto__":[{');
});

it("lets a bad body go no further than its verdict", async () => {
  const account = await newAccount("free");
  const bodies = [
    "{",
    '{"prompt":7}',
    '{"prompt":{}}',
    `{"prompt":${JSON.stringify(HELLO)},"webhook_url":"http://x.y"}`,
  ];
  for (const body of bodies) await post(account.api_key, body);
  const list = await api(account.api_key, "/v1/jobs");
  expect(list.headers.get("x-ratelimit-remaining")).toBe(String(60 - bodies.length - 1));
  expect(await list.json()).toEqual({ jobs: [], has_more: false });
  expect(await jobCount(account)).toBe(0);
});

it("answers a request of an exhausted key before it looks at anything else", async () => {
  const { api_key } = await newAccount("free");
  await Promise.all(Array.from({ length: 60 }, () => api(api_key, "/v1/jobs?limit=1")));
  for (const body of ["{", JSON.stringify({ prompt: {} })]) {
    await expectError(await post(api_key, body), 429, "rate_limit_exceeded");
  }
  await expectError(await api(api_key, "/v1/nope"), 429, "rate_limit_exceeded");
});

it("keeps a large prompt in R2 as it was sent, and removes the prompt of a refused job", async () => {
  const account = await newAccount("free");
  const prompt = `{"1":{"class_type":"X","inputs":{"seed":18446744073709551615,"text":"${"é".repeat(70_000)}"}}}`;
  const body = `{"x":"\\"prompt\\":", "prompt" : ${prompt}\n, "priority":1}`;
  const response = await post(account.api_key, body);
  expect(response.status).toBe(202);
  const { job_id } = (await response.json()) as { job_id: string };
  const stored = await env.STORE.get(`prompts/${account.account_id}/${job_id}`);
  expect(await stored?.text()).toBe(prompt);

  await Promise.all(Array.from({ length: 6 }, () => submit(account.api_key)));
  const refused = await Promise.all(Array.from({ length: 3 }, () => post(account.api_key, body)));
  for (const one of refused) await expectError(one, 429, "queue_full");
  await vi.waitFor(async () => {
    const { objects } = await env.STORE.list({ prefix: `prompts/${account.account_id}/` });
    expect(objects.map(({ key }) => key)).toEqual([`prompts/${account.account_id}/${job_id}`]);
  });
});

it("keeps a small prompt in a row as it was sent", async () => {
  const account = await newAccount();
  const prompt = '{ "1" : {"class_type":"X","inputs":{"seed":18446744073709551615,"cfg":7.10}} }';
  expect((await post(account.api_key, `{"prompt":{}, "prompt":${prompt}}`)).status).toBe(202);
  const rows = await runInDurableObject(accountObject(account), (_, state) =>
    state.storage.sql.exec("SELECT body FROM prompts").toArray(),
  );
  expect(rows).toEqual([{ body: prompt }]);
});
