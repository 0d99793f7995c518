import { dumps, type Json } from "./python-json.ts";

export interface Reply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface Call {
  readonly method: string;
  /** Without `/api` and without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
  /** What the route's pattern caught. */
  readonly caught: readonly string[];
}

const TEXT = { "content-type": "text/plain; charset=utf-8" };

export const json = (body: Json, status = 200): Reply => ({
  status,
  headers: { "content-type": "application/json; charset=utf-8" },
  body: dumps(body),
});

export const empty = (status = 200): Reply => ({ status });

export const text = (status: number, body: string, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status,
  headers: { ...TEXT, ...headers },
  body,
});

/** What becomes of an exception that no handler caught. */
export const trouble = (): Reply =>
  text(500, "500 Internal Server Error\n\nServer got itself in trouble", { connection: "close" });
