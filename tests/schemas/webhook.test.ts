import { expect, test } from "vitest";
import type { JobRecord } from "../../schemas/job.ts";
import { webhookPayload } from "../../schemas/webhook.ts";

/** A record with every field that one may have, whatever its status. */
const full: Omit<JobRecord, "status"> = {
  job_id: "01890a5d-ac96-774b-8000-000000000001",
  created_at: "2026-01-15T12:00:00.000Z",
  started_at: "2026-01-15T12:00:01.000Z",
  completed_at: "2026-01-15T12:00:02.000Z",
  cancelled_at: "2026-01-15T12:00:02.500Z",
  execution_time_ms: 900,
  outputs: { images: ["https://o.example/1.png"], files: [] },
  error: { code: "execution_failed", message: "It failed.", node_id: "3", details: { trace: "…" } },
  queue_position: 2,
  progress: { value: 1 },
  attempt: 1,
  timing: { queue_ms: 1, download_ms: 2, execution_ms: 3, upload_ms: 4 },
  webhook: { status: "pending", attempts: 1 },
  expires_at: "2026-01-16T12:00:02.000Z",
  urls: { self: "https://d.example/v1/jobs/1", cancel: "https://d.example/v1/jobs/1/cancel" },
};
const { job_id, created_at, started_at, completed_at, cancelled_at } = full;
const without = (field: keyof typeof full, status: JobRecord["status"]): JobRecord => {
  const { [field]: _, ...rest } = full;
  return { ...rest, status } as JobRecord;
};

test("a completed job says when, how long and which images, and nothing else", () => {
  expect(webhookPayload({ ...full, status: "completed" })).toEqual({
    job_id,
    status: "completed",
    created_at,
    started_at,
    completed_at,
    execution_time_ms: 900,
    outputs: { images: ["https://o.example/1.png"] },
  });
});

test("a completed job without an image has an empty list", () => {
  expect(webhookPayload(without("outputs", "completed")).outputs).toEqual({ images: [] });
});

test("a failed job says code, message and node of its error, and nothing else", () => {
  expect(webhookPayload({ ...full, status: "failed" })).toEqual({
    job_id,
    status: "failed",
    created_at,
    started_at,
    completed_at,
    error: { code: "execution_failed", message: "It failed.", node_id: "3" },
  });
});

test("an error without a node has no node_id, not an empty one", () => {
  const payload = webhookPayload({ ...full, status: "failed", error: { code: "timeout", message: "Late." } });
  expect(payload.error).toStrictEqual({ code: "timeout", message: "Late." });
});

test("a failed job that never started has no started_at", () => {
  expect(webhookPayload(without("started_at", "failed"))).not.toHaveProperty("started_at");
});

test("a cancelled job says when it was cancelled, and when it started if it did", () => {
  const payload = { job_id, status: "cancelled", created_at, cancelled_at };
  expect(webhookPayload({ ...full, status: "cancelled" })).toStrictEqual({ ...payload, started_at });
  expect(webhookPayload(without("started_at", "cancelled"))).toStrictEqual(payload);
});

test("a job with metadata carries it in every shape", () => {
  for (const status of ["completed", "failed", "cancelled"] as const) {
    expect(webhookPayload({ ...full, status, metadata: { order: 7 } }).metadata).toEqual({ order: 7 });
  }
});
