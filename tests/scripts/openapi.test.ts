import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { ERROR_STATUS, ErrorEnvelope } from "../../schemas/error.ts";
import { JobErrorCode, SubmissionOptions } from "../../schemas/job.ts";
import { TIER_LIMITS } from "../../schemas/limits.ts";
import { NAMED } from "../../schemas/openapi/components.ts";
import { openApiDocument } from "../../schemas/openapi/document.ts";
import { CANCELLED, COMPLETED, FAILED } from "../../schemas/openapi/examples.ts";
import { checkPrompt } from "../../schemas/prompt.ts";
import { checkTarget } from "../../schemas/targets.ts";
import { webhookPayload } from "../../schemas/webhook.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..");
const DOCUMENT = join(ROOT, "worker", "assets", "openapi.json");

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;

interface Found {
  readonly at: string;
  readonly schema: string;
  readonly value: unknown;
}

/** Every example of a body in the document, with the name of its schema. */
function examplesIn(value: unknown, at: string): Found[] {
  if (!isObject(value)) return [];
  const { schema, example, examples } = value;
  const reference = isObject(schema) ? schema.$ref : undefined;
  const name = typeof reference === "string" ? reference.replace("#/components/schemas/", "") : undefined;
  const all = isObject(examples) ? Object.entries(examples) : [];
  const values = all.map(([key, one]): [string, unknown] => [key, isObject(one) ? one.value : one]);
  if (example !== undefined) values.push(["example", example]);
  if (name !== undefined && values.length > 0)
    return values.map(([key, body]) => ({ at: `${at}/${key}`, schema: name, value: body }));
  return Object.entries(value).flatMap(([key, inner]) => examplesIn(inner, `${at}/${key}`));
}

const document = openApiDocument();
const found = examplesIn({ ...document, components: { responses: document.components.responses } }, "");
const named = (name: string): v.GenericSchema | undefined => Object.entries(NAMED).find(([key]) => key === name)?.[1];

describe("the committed document", () => {
  it("is what the schemas say", async () => {
    await run(process.execPath, ["scripts/openapi.ts", "--check"], { cwd: ROOT });
  });

  it("passes the strict lint without a warning", async () => {
    const folder = await mkdtemp(join(tmpdir(), "darkroom-lint-"));
    try {
      const { stdout } = await run(
        process.execPath,
        [join(ROOT, "node_modules", "@redocly", "cli", "bin", "cli.js"), "lint", DOCUMENT, "--format", "json"],
        {
          cwd: ROOT,
          env: {
            ...process.env,
            HOME: folder,
            REDOCLY_TELEMETRY: "off",
            REDOCLY_SUPPRESS_UPDATE_NOTICE: "true",
            NO_COLOR: "1",
          },
        },
      );
      expect(JSON.parse(stdout)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

it("tells apart a document that is not what the schemas say", async () => {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-openapi-"));
  try {
    const old = join(folder, "openapi.json");
    await writeFile(old, (await readFile(DOCUMENT, "utf8")).replace("Submit a job", "Submit it"));
    await expect(run(process.execPath, ["scripts/openapi.ts", "--check", old], { cwd: ROOT })).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("npm run openapi"),
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

it("has examples that the service's own schemas take as they are", () => {
  const judged = found.filter(({ schema }) => named(schema));
  expect(judged.length).toBeGreaterThan(50);
  for (const { at, schema, value } of judged) {
    const judge = named(schema);
    // A schema drops what it does not know: what comes out must be all that went in.
    if (judge) expect({ at, value: v.parse(judge, value) }).toEqual({ at, value });
  }
});

it("has examples of submissions that the service would accept", () => {
  const submissions = found.filter(({ schema }) => schema === "Submission");
  expect(submissions).toHaveLength(2);
  for (const { value } of submissions) {
    const { prompt, webhook_url, ...options } = value as { prompt: Json; webhook_url?: string };
    expect(checkPrompt(prompt)).toMatchObject({ ok: true });
    expect(v.parse(SubmissionOptions, options)).toMatchObject(options);
    if (webhook_url !== undefined)
      expect(checkTarget(webhook_url, { ownHosts: [], loopback: false })).toMatchObject({ ok: true });
  }
});

it("shows every error code, under its own status", () => {
  const shown = found.filter(({ schema }) => schema === "ErrorEnvelope");
  const codes = new Set<string>();
  for (const { at, value } of shown) {
    const { error } = v.parse(ErrorEnvelope, value);
    codes.add(error.code);
    const shared = /^\/components\/responses\/(\w+)/.exec(at)?.[1];
    const status = /\/responses\/(\d{3})\//.exec(at)?.[1];
    if (shared === undefined) expect({ at, status }).toEqual({ at, status: String(ERROR_STATUS[error.code]) });
  }
  expect([...codes].sort()).toEqual(Object.keys(ERROR_STATUS).sort());
});

it("refers to shared refusals under their own status", () => {
  const { responses } = document.components;
  const operations = Object.values(document.paths).flatMap((path) => Object.values(path));
  for (const operation of operations) {
    for (const [status, answer] of Object.entries(operation.responses)) {
      if (!("$ref" in answer)) continue;
      const shared = Object.entries(responses).find(([name]) => answer.$ref === `#/components/responses/${name}`)?.[1];
      const [example] = examplesIn(shared, "");
      const { error } = v.parse(ErrorEnvelope, example?.value);
      expect({ ref: answer.$ref, status }).toEqual({ ref: answer.$ref, status: String(ERROR_STATUS[error.code]) });
    }
  }
});

it("explains every code of a failed job, and every tier's limits", () => {
  const { description } = document.components.schemas.JobErrorCode ?? {};
  for (const code of JobErrorCode.options) expect(description).toContain(`\`${code}\``);
  for (const [tier, limits] of Object.entries(TIER_LIMITS)) {
    const row = [limits.requests_per_minute, limits.concurrent_jobs, limits.queue_depth].join(" | ");
    expect(document.info.description.toLowerCase()).toContain(`| ${tier} | ${row} |`);
  }
});

it("describes notifications as they are sent", () => {
  const { CompletedNotification, FailedNotification, CancelledNotification } = NAMED;
  for (const [schema, record] of [
    [CompletedNotification, COMPLETED],
    [FailedNotification, FAILED],
    [CancelledNotification, CANCELLED],
  ] as const) {
    const payload = webhookPayload(record);
    expect(v.parse(schema, payload)).toEqual(payload);
  }
});
