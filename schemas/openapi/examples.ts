import type { JobList, JobRecord } from "../job.ts";
import { type KeyLimits, TIER_LIMITS } from "../limits.ts";
import { type JobEventList, type WebhookDelivery, webhookPayload } from "../webhook.ts";

/** The job of the document's examples, in every state. */

const BASE = "https://darkroom.example.com";
const JOB_ID = "01994f3a-58f0-7c3e-9d55-0f6f1c8a2b41";
const SELF = `${BASE}/v1/jobs/${JOB_ID}`;

export const SUBMISSION = {
  prompt: {
    "1": { class_type: "EmptyImage", inputs: { width: 256, height: 256, batch_size: 1, color: 3486831 } },
    "2": { class_type: "SaveImage", inputs: { images: ["1", 0], filename_prefix: "hello" } },
  },
};

export const FULL_SUBMISSION = {
  ...SUBMISSION,
  webhook_url: "https://hooks.example.com/darkroom",
  metadata: { order: 7 },
  timeout_s: 120,
  queue_timeout_s: 900,
  priority: 5,
};

/** What every state has; `more` in between, so that an example reads as a real answer does. */
const record = (status: JobRecord["status"], more: Partial<JobRecord>): JobRecord => ({
  job_id: JOB_ID,
  status,
  created_at: "2026-03-01T12:00:00.000Z",
  ...more,
  metadata: { order: 7 },
  urls: { self: SELF, cancel: `${SELF}/cancel` },
});

export const QUEUED = record("queued", {
  queue_position: 3,
  webhook: { status: "pending", attempts: 0 },
});

export const RUNNING = record("running", {
  started_at: "2026-03-01T12:00:04.120Z",
  progress: { value: 0.4, node_id: "1", node_class: "EmptyImage", step: 8, steps: 20, nodes_done: 0, nodes_total: 2 },
  attempt: 1,
  webhook: { status: "pending", attempts: 0 },
});

export const OUTPUT_URL = `${BASE}/outputs/d7/acc_0123456789abcdefghij/${JOB_ID}/1/0/hello_00001_.png?expires=1772971209&signature=V2hhdCBhIGxvdmVseSBwaWN0dXJlIHRoYXQgaXMgISE`;

export const COMPLETED = record("completed", {
  started_at: "2026-03-01T12:00:04.120Z",
  completed_at: "2026-03-01T12:00:09.480Z",
  execution_time_ms: 5103,
  outputs: {
    images: [OUTPUT_URL],
    files: [
      {
        url: OUTPUT_URL,
        node_id: "2",
        filename: "hello_00001_.png",
        kind: "image",
        content_type: "image/png",
        size_bytes: 812,
        sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      },
    ],
  },
  attempt: 1,
  timing: { queue_ms: 4120, download_ms: 0, execution_ms: 5103, upload_ms: 181 },
  webhook: { status: "delivered", attempts: 1, last_status: 204 },
  expires_at: "2026-03-08T12:00:09.480Z",
});

export const FAILED = record("failed", {
  started_at: "2026-03-01T12:00:04.120Z",
  completed_at: "2026-03-01T12:00:05.090Z",
  error: {
    code: "execution_failed",
    message: "SaveImage: filename_prefix leads out of the output folder.",
    node_id: "2",
  },
  attempt: 1,
  timing: { queue_ms: 4120, download_ms: 0, execution_ms: 790, upload_ms: 0 },
  webhook: { status: "failed", attempts: 4, last_status: 500 },
  expires_at: "2026-03-08T12:00:05.090Z",
});

export const CANCELLED = record("cancelled", {
  cancelled_at: "2026-03-01T12:00:02.300Z",
  timing: { queue_ms: 2300, download_ms: 0, execution_ms: 0, upload_ms: 0 },
  webhook: { status: "delivered", attempts: 1, last_status: 200 },
  expires_at: "2026-03-08T12:00:02.300Z",
});

export const LIST: JobList = { jobs: [COMPLETED], has_more: true, next_cursor: "MTI4" };

export const LIMITS: KeyLimits = { tier: "pro", limits: TIER_LIMITS.pro, running: 3, queued: 0 };

export const NOTIFICATIONS = {
  "job.completed": webhookPayload(COMPLETED),
  "job.failed": webhookPayload(FAILED),
  "job.cancelled": webhookPayload(CANCELLED),
};

export const DELIVERY: WebhookDelivery = {
  job_id: JOB_ID,
  event_id: `evt_${JOB_ID}`,
  target: "https://hooks.example.com",
  status: "pending",
  attempts: 1,
  last_status: 503,
  message: "The last attempt failed; the next one is due.",
  next_attempt_at: "2026-03-01T12:00:10.630Z",
  log: [
    {
      round: 1,
      attempt: 1,
      at: "2026-03-01T12:00:09.502Z",
      delivered: false,
      message:
        "The receiver answered 503 after 128 ms. It says that it is not available. Check that the application is running.",
      failure: "http_5xx",
      status: 503,
      duration_ms: 128,
      answer: "upstream is restarting",
      webhook_id: "4b8f0b3e-52a7-4b0e-9d0b-5a4d9b5e8f6c",
    },
  ],
};

export const EVENTS: JobEventList = {
  events: [
    {
      id: `evt_${JOB_ID}`,
      type: "job.completed",
      occurred_at: "2026-03-01T12:00:09.480Z",
      job: webhookPayload(COMPLETED) as JobEventList["events"][number]["job"],
    },
  ],
  has_more: false,
  next_after: "ZTEyOA",
};
