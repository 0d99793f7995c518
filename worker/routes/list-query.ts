import { base64url } from "jose";
import * as v from "valibot";
import type { Refusal } from "../../schemas/error.ts";
import { JobStatus } from "../../schemas/job.ts";
import type { PageFilter } from "../account/store.ts";

/** Query of `GET /v1/jobs` (contract section 2). */

const MAX_PAGE = 100;

/** What a cursor is of; one of another list is none. */
type CursorKind = "" | "e";

/** A cursor is opaque to clients: the sequence number of the last row they saw. */
export const encodeCursor = (seq: number, kind: CursorKind = ""): string => base64url.encode(`${kind}${seq}`);

export function decodeCursor(cursor: string, kind: CursorKind = ""): number | undefined {
  try {
    const text = new TextDecoder().decode(base64url.decode(cursor));
    const number = text.startsWith(kind) ? text.slice(kind.length) : "";
    return /^\d{1,15}$/.test(number) ? Number(number) : undefined;
  } catch {
    return undefined;
  }
}

const Time = v.pipe(
  v.string(),
  v.maxLength(40),
  v.regex(
    /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/,
    "must be an ISO 8601 time, such as 2026-01-31T09:00:00Z",
  ),
  v.transform((text) => Date.parse(text)),
  v.check((at) => !Number.isNaN(at), "must be an ISO 8601 time, such as 2026-01-31T09:00:00Z"),
);

/** `limit` of a list: beyond the largest page it is taken as that. */
export const Limit = v.optional(
  v.pipe(
    v.string(),
    v.regex(/^\d+$/, "must be an integer of at least 1"),
    v.transform(Number),
    v.minValue(1, "must be an integer of at least 1"),
    v.transform((limit) => Math.min(limit, MAX_PAGE)),
  ),
  "20",
);

const ListQuery = v.object({
  limit: Limit,
  cursor: v.optional(
    v.pipe(
      v.string(),
      v.transform((cursor) => decodeCursor(cursor)),
      v.number("is not one of this list's"),
    ),
  ),
  status: v.optional(v.picklist(JobStatus.options, `must be one of ${JobStatus.options.join(", ")}`)),
  created_after: v.optional(Time),
  created_before: v.optional(Time),
});

/** What is wrong with a query, in words for its sender. */
export function queryRefusal([issue]: readonly [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]): Refusal {
  const field = String(issue.path?.[0]?.key);
  return { code: "invalid_request", message: `${field} ${issue.message}.`, details: { field } };
}

export type ListPage =
  | { readonly ok: true; readonly page: PageFilter & { readonly limit: number } }
  | { readonly ok: false; readonly refusal: Refusal };

export function parseListQuery(query: Record<string, string>): ListPage {
  const parsed = v.safeParse(ListQuery, query);
  if (!parsed.success) return { ok: false, refusal: queryRefusal(parsed.issues) };
  const { limit, cursor, status, created_after, created_before } = parsed.output;
  return {
    ok: true,
    page: {
      limit,
      ...(cursor === undefined ? {} : { before: cursor }),
      ...(status === undefined ? {} : { status }),
      ...(created_after === undefined ? {} : { created_after }),
      ...(created_before === undefined ? {} : { created_before }),
    },
  };
}
