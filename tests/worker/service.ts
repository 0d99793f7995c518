import { exports } from "cloudflare:workers";
import type { Tier } from "../../schemas/limits.ts";
import { OPERATOR_TOKEN, TEST_BINDINGS } from "./bindings.ts";

/** The service under test, called as its clients call it. */

export const BASE = TEST_BINDINGS.PUBLIC_BASE_URL;

export function call(path: string, init: RequestInit = {}): Promise<Response> {
  return exports.default.fetch(new Request(`${BASE}${path}`, init));
}

export interface TestAccount {
  readonly account_id: string;
  readonly api_key: string;
  readonly webhook_secret: string;
}

export async function operator<T>(path: string, body?: Record<string, unknown>): Promise<T> {
  const response = await call(`/operator${path}`, {
    method: body ? "POST" : "GET",
    headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

export const newAccount = (tier: Tier = "pro"): Promise<TestAccount> =>
  operator("/accounts", { email: "test@example.com", tier });

export function api(key: string, path: string, init: RequestInit = {}): Promise<Response> {
  return call(path, { ...init, headers: { authorization: `Bearer ${key}`, ...init.headers } });
}

/** A graph that any engine with core nodes runs. */
export const HELLO = {
  "1": { class_type: "EmptyImage", inputs: { width: 8, height: 8, batch_size: 1, color: 255 } },
  "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "hello" } },
};

export function submit(key: string, body: unknown = { prompt: HELLO }): Promise<Response> {
  return api(key, "/v1/jobs", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}
