import { writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ERROR_STATUS, type ErrorEnvelope } from "../../schemas/error.ts";
import type { JobList, JobRecord } from "../../schemas/job.ts";
import type { JobEventList, WebhookDelivery } from "../../schemas/webhook.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import type { DevelopmentAccount } from "../../scripts/local/state.ts";
import { OddReceivers } from "./odd-receivers.ts";
import { type Prism, startPrism } from "./prism.ts";
import { newFolder, QUICK_PROMPT, removeFolder, SLOW_PROMPT, type Started, start, waitFor } from "./stack.ts";

/** The service's answers held against the document that it serves itself: nothing may be in them that is not in there. */

type Json = Record<string, unknown>;

interface Answer {
  readonly $ref?: string;
  readonly content?: {
    readonly "application/json"?: { readonly examples?: Readonly<Record<string, { value: ErrorEnvelope }>> };
  };
}
interface Document {
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { operationId: string; responses: Record<string, Answer> }>>>
  >;
  readonly components: { readonly schemas: Record<string, Json>; readonly responses: Record<string, Answer> };
}

let folder: string;
let started: Started;
let document: Document;
/** Lets no bad request and no bad answer pass. */
let strict: Prism;
/** Lets bad requests pass, and tells of bad answers. */
let lenient: Prism;

const met = new Set<string>();
const REQUESTS = ["Submission", "PromptNode"];

/** The same document, in which no answer has a field beyond those that it names. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, closed(inner)]));
  const open = copy.type === "object" && copy.properties !== undefined && copy.additionalProperties === undefined;
  return open ? { ...copy, additionalProperties: false } : copy;
}

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
  const { base_url } = started.local;
  document = (await (await fetch(`${base_url}/openapi.json`)).json()) as Document;
  const { schemas } = document.components;
  const answers = Object.entries(schemas).map(([name, schema]) => [
    name,
    REQUESTS.includes(name) ? schema : closed(schema),
  ]);
  const path = join(folder, "openapi.json");
  await writeFile(
    path,
    JSON.stringify({ ...document, components: { ...document.components, schemas: Object.fromEntries(answers) } }),
  );
  [strict, lenient] = await Promise.all([startPrism(path, base_url, true), startPrism(path, base_url, false)]);
});

afterAll(async () => {
  await Promise.all([strict?.stop(), lenient?.stop()]);
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

interface Violation {
  readonly location: readonly string[];
  readonly message: string;
}

const violationsIn = (response: Response): Violation[] =>
  JSON.parse(response.headers.get("sl-violations") ?? "[]") as Violation[];

const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });
const mine = (): Record<string, string> => bearer(started.local.api_key);

/** A request as the document wants it, with the status of its answer. */
async function right(status: number, path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(strict.url + path, { ...init, headers: { ...mine(), ...init.headers } });
  const problem = response.headers.get("content-type")?.startsWith("application/problem+json");
  const said = { violations: violationsIn(response), problem: problem ? await response.text() : undefined };
  expect({ path, ...said, status: response.status }).toEqual({ path, violations: [], problem: undefined, status });
  return response;
}

const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: typeof body === "string" ? body : JSON.stringify(body),
});

const submission = (prompt: string, more: Json = {}): string =>
  JSON.stringify({ prompt: JSON.parse(prompt) as unknown, ...more });

async function submitted(prompt: string, more: Json = {}): Promise<JobRecord> {
  const response = await right(202, "/v1/jobs", post(submission(prompt, more)));
  return (await response.json()) as JobRecord;
}

const inWords = (text: string): string => text.replace(/\d+/g, "0");

/** The examples of an operation's refusals with this status. */
function examplesOf(operationId: string, status: number): ErrorEnvelope["error"][] {
  const operation = Object.values(document.paths)
    .flatMap((path) => Object.values(path))
    .find((one) => one.operationId === operationId);
  const answer = operation?.responses[status];
  const shared = document.components.responses[answer?.$ref?.split("/").at(-1) ?? ""];
  const examples = (shared ?? answer)?.content?.["application/json"]?.examples ?? {};
  return Object.values(examples).map(({ value }) => value.error);
}

async function judgeRefusal(operationId: string, code: keyof typeof ERROR_STATUS, response: Response): Promise<void> {
  const { error } = (await response.json()) as ErrorEnvelope;
  met.add(error.code);
  expect({ code: error.code, status: response.status }).toEqual({ code, status: ERROR_STATUS[code] });
  expect(error.request_id).toBe(response.headers.get("x-request-id"));
  const examples = examplesOf(operationId, response.status).filter((example) => example.code === code);
  expect(examples.map(({ message }) => inWords(message))).toContain(inWords(error.message));
}

/** A request that is refused with this code, in words that the document has as an example. */
async function wrong(
  operationId: string,
  code: keyof typeof ERROR_STATUS,
  path: string,
  init: RequestInit = {},
): Promise<void> {
  const response = await fetch(lenient.url + path, { ...init, headers: { ...mine(), ...init.headers } });
  const violations = violationsIn(response).filter(({ location }) => location[0] === "response");
  expect({ path, violations }).toEqual({ path, violations: [] });
  await judgeRefusal(operationId, code, response);
}

const account = (tier: string): Promise<DevelopmentAccount> =>
  callOperator(started.local.base_url, started.local.operator_token, "POST", "/accounts", { email: "a@b.c", tier });

describe("right requests", () => {
  it("finds the public addresses as documented, and its own address in the document", async () => {
    expect(document.servers[0]?.url).toBe(started.local.base_url);
    for (const path of ["/healthz", "/openapi.json", "/docs", "/.well-known/jwks.json"]) await right(200, path);
    expect(await (await right(200, "/v1/limits")).json()).toMatchObject({ tier: "pro", running: 0, queued: 0 });
  });

  it("serves every file that the document's page is made of", async () => {
    const page = await (await fetch(`${started.local.base_url}/docs`)).text();
    const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(files).toHaveLength(6);
    for (const path of files)
      expect({ path, status: (await fetch(started.local.base_url + path)).status }).toEqual({ path, status: 200 });
  });

  it("submits, waits, reads, fetches, lists and deletes", async () => {
    const full = { metadata: { order: 7 }, timeout_s: 60, queue_timeout_s: 60, priority: 1, webhook_url: null };
    const done = await right(200, "/v1/jobs", post(submission(QUICK_PROMPT, full), { prefer: "wait=30" }));
    expect(done.headers.get("preference-applied")).toBe("wait=30");
    const record = (await done.json()) as JobRecord;
    expect(record.status).toBe("completed");

    const keyed = post(submission(QUICK_PROMPT, { webhook_url: "http://127.0.0.1:9/nobody" }), {
      "idempotency-key": "walk-1",
    });
    const first = (await (await right(202, "/v1/jobs", keyed)).json()) as JobRecord;
    const again = await right(202, "/v1/jobs", keyed);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(((await again.json()) as JobRecord).job_id).toBe(first.job_id);
    const read = await right(200, `/v1/jobs/${first.job_id}?wait=30`);
    expect(await read.json()).toMatchObject({ status: "completed", webhook: { attempts: expect.any(Number) } });

    const output = new URL(record.outputs?.images[0] ?? "");
    const address = output.pathname + output.search;
    const whole = await right(200, address);
    await right(206, address, { headers: { range: "bytes=0-3" } });
    await right(304, address, { headers: { "if-none-match": whole.headers.get("etag") ?? "" } });
    await right(412, address, { headers: { "if-match": '"another"' } });
    await right(416, address, { headers: { range: "bytes=999999-" } });

    const since = new Date(Date.parse(record.created_at) - 1000).toISOString();
    const page = await right(200, `/v1/jobs?limit=1&status=completed&created_after=${since}`);
    const { jobs, has_more, next_cursor } = (await page.json()) as JobList;
    expect({ ids: jobs.map(({ job_id }) => job_id), has_more }).toEqual({ ids: [first.job_id], has_more: true });
    const rest = await right(200, `/v1/jobs?limit=100&cursor=${next_cursor}&created_before=2100-01-01T00:00:00Z`);
    expect(((await rest.json()) as JobList).jobs.map(({ job_id }) => job_id)).toEqual([record.job_id]);

    await right(204, `/v1/jobs/${record.job_id}`, { method: "DELETE" });
    await wrong("getJob", "job_not_found", `/v1/jobs/${record.job_id}`);
    await wrong("getOutput", "not_found", address);
  });

  it("shows a running, a cancelled and a failed job as documented", async () => {
    const slow = await submitted(SLOW_PROMPT);
    await waitFor("progress", async () => {
      const record = (await (await right(200, `/v1/jobs/${slow.job_id}`)).json()) as JobRecord;
      return record.progress;
    });
    await wrong("deleteJob", "job_not_finished", `/v1/jobs/${slow.job_id}`, { method: "DELETE" });
    const cancelled = await right(200, `/v1/jobs/${slow.job_id}/cancel`, { method: "POST" });
    expect(await cancelled.json()).toMatchObject({ status: "cancelled" });

    const broken = JSON.stringify({
      "1": { class_type: "LoadImage", inputs: { image: "no-such-picture.png" } },
      "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "x" } },
    });
    const { job_id } = await submitted(broken);
    const failed = await right(200, `/v1/jobs/${job_id}?wait=30`);
    expect(await failed.json()).toMatchObject({ status: "failed", error: { code: "invalid_prompt", node_id: "1" } });
  });

  it("shows a delivery that came, one that was asked for and fails, and the feed of all", async () => {
    const receivers = new OddReceivers();
    try {
      const { url } = await receivers.behaving("200", "500");
      const { job_id } = await submitted(QUICK_PROMPT, { webhook_url: url });
      const delivery = (status: string): Promise<WebhookDelivery> =>
        waitFor(`the delivery to be ${status}`, async () => {
          const webhook = (await (await right(200, `/v1/jobs/${job_id}/webhook`)).json()) as WebhookDelivery;
          return webhook.status === status && webhook.log.length > 0 ? webhook : undefined;
        });
      expect(await delivery("delivered")).toMatchObject({ event_id: `evt_${job_id}`, log: [{ answer: "thanks" }] });
      const reopened = await right(202, `/v1/jobs/${job_id}/webhook/redeliver`, { method: "POST" });
      expect(await reopened.json()).toMatchObject({ job_id, webhook: { status: "pending", attempts: 0 } });
      const waiting = await waitFor("the next attempt to be due", async () => {
        const webhook = await delivery("pending");
        return webhook.next_attempt_at === undefined || webhook.log.length < 2 ? undefined : webhook;
      });
      expect(waiting.log[1]).toMatchObject({ round: 2, attempt: 1, failure: "http_5xx", status: 500, answer: "boom" });

      const events = async (query: string): Promise<JobEventList> =>
        (await (await right(200, `/v1/events?${query}`)).json()) as JobEventList;
      const { events: ends } = await events("limit=100");
      expect(new Set(ends.map(({ type }) => type))).toEqual(new Set(["job.completed", "job.failed", "job.cancelled"]));
      const page = await events("limit=1");
      expect(page).toMatchObject({ events: [{ id: ends[0]?.id }], has_more: true });
      expect((await events(`after=${page.next_after}`)).events).toEqual(ends.slice(1));
      expect(await events(`after=evt_${job_id}`)).toMatchObject({ events: [], has_more: false });
    } finally {
      await receivers.close();
    }
  });
});

describe("wrong requests", () => {
  const bad = (code: keyof typeof ERROR_STATUS, body: unknown, headers: Record<string, string> = {}): Promise<void> =>
    wrong("submitJob", code, "/v1/jobs", post(body, headers));

  it("refuses submissions in the document's words", async () => {
    const prompt = JSON.parse(QUICK_PROMPT) as Record<string, Json>;
    const graph = (inputs: Json, class_type = "SaveImage"): Json => ({ ...prompt, "2": { class_type, inputs } });
    const linked = { images: ["1", 0], filename_prefix: "x" };
    await bad("invalid_request", []);
    await bad("invalid_request", { prompt: "a workflow" });
    await bad("invalid_request", { prompt, timeout_s: 4000 });
    await bad("invalid_request", `${"[".repeat(101)}${"]".repeat(101)}`);
    await bad("invalid_request", { prompt }, { "idempotency-key": "two words" });
    await bad("invalid_webhook_url", { prompt, webhook_url: "https://10.0.0.1/" });
    await bad("unsupported_media_type", { prompt }, { "content-type": "text/plain" });
    await bad("unsupported_media_type", { prompt }, { "content-encoding": "gzip" });
    await bad("invalid_prompt", { prompt: graph({ ...linked, images: ["7", 0] }) });
    await bad("invalid_prompt", { prompt: graph(linked, "SaveImages") });
    await bad("idempotency_key_reused", { prompt, priority: 3 }, { "idempotency-key": "walk-1" });
  });

  /** The answer to the head of a submission with a body of this length, before any of that is sent. */
  const announced = (length: number): Promise<Response> =>
    new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": length, ...mine() };
      const request = httpRequest(`${started.local.base_url}/v1/jobs`, { method: "POST", headers }, async (answer) => {
        const body = await text(answer);
        request.destroy();
        const answered = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
        resolve(new Response(body, { status: answer.statusCode ?? 0, headers: answered }));
      });
      request.once("error", reject);
      request.flushHeaders();
    });

  it("refuses, without a proxy in between, what a proxy would not pass on", async () => {
    const direct = (body: string): Promise<Response> =>
      fetch(`${started.local.base_url}/v1/jobs`, { ...post(body), headers: { ...post(body).headers, ...mine() } });
    await judgeRefusal("submitJob", "invalid_json", await direct("{"));
    await judgeRefusal("submitJob", "payload_too_large", await announced(10 * 1024 * 1024 + 1));
  });

  it("refuses reads and methods in the document's words", async () => {
    const nobody = "01994f3a-58f0-7c3e-9d55-0f6f1c8a2b41";
    for (const query of ["limit=0", "cursor=nonsense", "status=lost", "created_after=yesterday"])
      await wrong("listJobs", "invalid_request", `/v1/jobs?${query}`);
    await wrong("getJob", "invalid_request", `/v1/jobs/${nobody}?wait=61`);
    await wrong("getJob", "job_not_found", "/v1/jobs/nonsense");
    await wrong("getJob", "job_not_found", `/v1/jobs/${nobody}`);
    await wrong("deleteJob", "job_not_found", `/v1/jobs/${nobody}`, { method: "DELETE" });
    await wrong("cancelJob", "job_not_found", `/v1/jobs/${nobody}/cancel`, { method: "POST" });
    await wrong("submitJob", "method_not_allowed", "/v1/jobs", { method: "PUT" });
    await wrong("getJob", "method_not_allowed", `/v1/jobs/${nobody}`, { method: "PATCH" });
    await wrong("cancelJob", "method_not_allowed", `/v1/jobs/${nobody}/cancel`);
    await wrong("getLimits", "method_not_allowed", "/v1/limits", { method: "POST" });
  });

  it("refuses what there is not of notifications in the document's words", async () => {
    const nobody = "01994f3a-58f0-7c3e-9d55-0f6f1c8a2b41";
    const { job_id } = await submitted(QUICK_PROMPT);
    const redeliver = (job: string): readonly [string, RequestInit] => [
      `/v1/jobs/${job}/webhook/redeliver`,
      { method: "POST" },
    ];
    await wrong("getJobWebhook", "not_found", `/v1/jobs/${job_id}/webhook`);
    await wrong("redeliverJobWebhook", "webhook_not_redeliverable", ...redeliver(job_id));
    for (const job of ["nonsense", nobody]) {
      await wrong("getJobWebhook", "job_not_found", `/v1/jobs/${job}/webhook`);
      await wrong("redeliverJobWebhook", "job_not_found", ...redeliver(job));
    }
    for (const query of ["limit=0", "after=nonsense", "after=", `after=evt_${nobody}`])
      await wrong("listEvents", "invalid_request", `/v1/events?${query}`);
    await wrong("getJobWebhook", "method_not_allowed", `/v1/jobs/${nobody}/webhook`, { method: "DELETE" });
    await wrong("redeliverJobWebhook", "method_not_allowed", `/v1/jobs/${nobody}/webhook/redeliver`);
    await wrong("listEvents", "method_not_allowed", "/v1/events", { method: "POST" });
  });

  it("refuses keys in the document's words, at every operation", async () => {
    const { base_url, operator_token } = started.local;
    const operator = (path: string, body: Json = {}): Promise<{ api_key: string }> =>
      callOperator(base_url, operator_token, "POST", path, body);
    const suspended = await account("free");
    await operator(`/accounts/${suspended.account_id}/suspend`);
    const owner = await account("free");
    const revoked = await operator(`/accounts/${owner.account_id}/keys`, { name: "old" });
    await operator(`/accounts/${owner.account_id}/keys/revoke`, { key: revoked.api_key.slice(0, 12) });
    const operations = [
      ["submitJob", "/v1/jobs", post({ prompt: {} })],
      ["listJobs", "/v1/jobs", {}],
      ["getJob", "/v1/jobs/x", {}],
      ["deleteJob", "/v1/jobs/x", { method: "DELETE" }],
      ["cancelJob", "/v1/jobs/x/cancel", { method: "POST" }],
      ["getJobWebhook", "/v1/jobs/x/webhook", {}],
      ["redeliverJobWebhook", "/v1/jobs/x/webhook/redeliver", { method: "POST" }],
      ["listEvents", "/v1/events", {}],
      ["getLimits", "/v1/limits", {}],
    ] as const;
    for (const [operationId, path, init] of operations) {
      const asks = (code: keyof typeof ERROR_STATUS, authorization: string): Promise<void> =>
        wrong(operationId, code, path, {
          ...init,
          headers: { ...("headers" in init ? init.headers : {}), authorization },
        });
      await asks("invalid_auth_format", "Basic eDp5");
      await asks("invalid_api_key", `Bearer sk_live_${"x".repeat(43)}`);
      await asks("invalid_api_key", `Bearer sk_test_${"x".repeat(43)}`);
      await asks("revoked_api_key", `Bearer ${revoked.api_key}`);
      await asks("account_suspended", `Bearer ${suspended.api_key}`);
    }
    const none = await fetch(`${lenient.url}/v1/jobs`);
    expect(violationsIn(none).filter(({ location }) => location[0] === "response")).toEqual([]);
    await judgeRefusal("listJobs", "missing_auth", none);
  });

  it("refuses beyond the limits in the document's words", async () => {
    const { api_key } = await account("free");
    const { base_url } = started.local;
    const call = (path: string, init: RequestInit = {}): Promise<Response> =>
      fetch(base_url + path, { ...init, headers: { ...init.headers, ...bearer(api_key) } });
    const slow = post(submission(SLOW_PROMPT));
    const taken: JobRecord[] = [];
    for (let n = 0; n < 7; n++) taken.push((await (await call("/v1/jobs", slow)).json()) as JobRecord);
    await wrong("submitJob", "queue_full", "/v1/jobs", { ...slow, headers: { ...slow.headers, ...bearer(api_key) } });
    const waiting = await right(200, `/v1/jobs/${taken[6]?.job_id}`, { headers: bearer(api_key) });
    expect(await waiting.json()).toMatchObject({ status: "queued", queue_position: 5 });
    await Promise.all(taken.map(({ job_id }) => call(`/v1/jobs/${job_id}/cancel`, { method: "POST" })));
    for (let n = 0; n < 60; n++) await call("/v1/limits");
    await wrong("getLimits", "rate_limit_exceeded", "/v1/limits", { headers: bearer(api_key) });
    await wrong("submitJob", "rate_limit_exceeded", "/v1/jobs", {
      ...slow,
      headers: { ...slow.headers, ...bearer(api_key) },
    });
  });

  it("refuses the eleventh redelivery of a minute in the document's words", async () => {
    const receivers = new OddReceivers();
    try {
      const { url } = await receivers.behaving("204");
      const headers = bearer((await account("pro")).api_key);
      const job = await right(202, "/v1/jobs", post(submission(QUICK_PROMPT, { webhook_url: url }), headers));
      const path = `/v1/jobs/${((await job.json()) as JobRecord).job_id}`;
      const delivered = (): Promise<true> =>
        waitFor("the delivery", async () => {
          await new Promise((resolve) => setTimeout(resolve, 100));
          const { webhook } = (await (await right(200, path, { headers })).json()) as JobRecord;
          return webhook?.status === "delivered" || undefined;
        });
      for (let n = 0; n < 10; n++) {
        await delivered();
        await right(202, `${path}/webhook/redeliver`, { method: "POST", headers });
      }
      await delivered();
      await wrong("redeliverJobWebhook", "rate_limit_exceeded", `${path}/webhook/redeliver`, {
        method: "POST",
        headers,
      });
    } finally {
      await receivers.close();
    }
  });

  it("has met every refusal that can be had from a service in good health", () => {
    const unmet = Object.keys(ERROR_STATUS).filter((code) => !met.has(code));
    expect(unmet.sort()).toEqual(["internal_error", "service_unavailable"]);
  });
});
