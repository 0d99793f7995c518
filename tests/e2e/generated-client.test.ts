import { execFile } from "node:child_process";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { OddReceivers } from "./odd-receivers.ts";
import { newFolder, QUICK_PROMPT, ROOT, removeFolder, type Started, start } from "./stack.ts";

const run = promisify(execFile);

let folder: string;
let started: Started;
const receivers = new OddReceivers();

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
});

afterAll(async () => {
  await receivers.close();
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

/** What a customer might write against the generated client: the main job, with nothing cast. */
const PROGRAM = `
import { Api, type ErrorEnvelope, type JobEventList, JobStatus, type Submission } from "./client.js";

const [baseUrl = "", key = "", prompt = "{}", webhook_url = ""] = process.argv.slice(2);
const stranger = new Api({ baseUrl });
const api = new Api<string>({
  baseUrl,
  securityWorker: (token) => ({ headers: { authorization: \`Bearer \${token}\` } }),
});
api.setSecurityData(key);

const alive: boolean = (await stranger.healthz.getHealth()).data.ok;
const refused = await stranger.v1.getLimits().catch(({ error }: { error: ErrorEnvelope }) => error);
const submission: Submission = { prompt: JSON.parse(prompt), webhook_url, metadata: { order: 7 }, timeout_s: 60 };
const submitted = (await api.v1.submitJob(submission)).data;
const job = (await api.v1.getJob(submitted.job_id, { wait: 30 })).data;
const images: string[] = job.status === JobStatus.Completed ? (job.outputs?.images ?? []) : [];
const { jobs, has_more } = (await api.v1.listJobs({ limit: 10, status: JobStatus.Completed })).data;
const cancelled = (await api.v1.cancelJob(job.job_id)).data;
const { running } = (await api.v1.getLimits()).data;
const events: JobEventList = (await api.v1.listEvents({ limit: 10 })).data;
const pictures = events.events.map(({ job }) => (job.status === "completed" ? job.outputs.images.length : 0));
const later = (await api.v1.listEvents({ after: events.next_after })).data;
let delivery = (await api.v1.getJobWebhook(job.job_id)).data;
const attempts = async (rounds: number): Promise<string[]> => {
  while (delivery.status !== "delivered" || delivery.log.length < rounds)
    delivery = (await api.v1.getJobWebhook(job.job_id)).data;
  return delivery.log.map(({ round, status, failure, message }) => [round, status, failure ?? message].join(" "));
};
const first = await attempts(1);
const reopened = (await api.v1.redeliverJobWebhook(job.job_id)).data;
const log = await attempts(2);
const gone = await api.v1.deleteJob(job.job_id);
console.log(
  JSON.stringify({
    alive,
    refused,
    submitted: submitted.status,
    job: job.status,
    images: images.length,
    listed: jobs.map(({ job_id }) => job_id === job.job_id),
    has_more,
    cancelled: cancelled.status,
    running,
    events: events.events.map(({ id, type }) => [id === delivery.event_id, type]),
    pictures,
    later: later.events.length,
    first: first.length,
    reopened: reopened.webhook?.status,
    log,
    gone: gone.status,
  }),
);
`;

const TSCONFIG = {
  compilerOptions: {
    target: "ES2024",
    module: "NodeNext",
    lib: ["ES2024", "DOM", "DOM.Iterable"],
    types: ["node"],
    strict: true,
    noUncheckedIndexedAccess: true,
    noImplicitOverride: true,
    outDir: "out",
  },
  files: ["main.ts"],
};

it("gives a generated client that compiles strictly and runs the main job", async () => {
  const { base_url, api_key } = started.local;
  const client = join(folder, "client");
  await mkdir(client);
  const document = join(client, "openapi.json");
  await writeFile(document, await (await fetch(`${base_url}/openapi.json`)).text());
  const generator = join(ROOT, "node_modules", "swagger-typescript-api", "dist", "cli.mjs");
  await run(process.execPath, [generator, "generate", "--path", document, "--output", client, "--name", "client.ts"], {
    cwd: client,
  });
  const path = join(client, "client.ts");
  // The generator asks the compiler to look away; here it must look.
  await writeFile(path, (await readFile(path, "utf8")).replace("// @ts-nocheck", ""));
  await writeFile(join(client, "main.ts"), PROGRAM);
  await writeFile(join(client, "tsconfig.json"), JSON.stringify(TSCONFIG));
  await writeFile(join(client, "package.json"), '{"type":"module"}');
  await symlink(join(ROOT, "node_modules"), join(client, "node_modules"));

  const compiled = await run(process.execPath, [
    join(ROOT, "node_modules", "typescript", "bin", "tsc"),
    "-p",
    client,
  ]).then(
    () => "",
    ({ stdout }: { stdout: string }) => stdout,
  );
  expect(compiled).toBe("");
  const { url } = await receivers.behaving("200", "204");
  const program = join(client, "out", "main.js");
  const { stdout } = await run(process.execPath, [program, base_url, api_key, QUICK_PROMPT, url]);
  expect(JSON.parse(stdout)).toEqual({
    alive: true,
    refused: {
      error: { code: "missing_auth", message: expect.any(String), request_id: expect.any(String) },
    },
    submitted: "queued",
    job: "completed",
    images: 1,
    listed: [true],
    has_more: false,
    cancelled: "completed",
    running: 0,
    events: [[true, "job.completed"]],
    pictures: [1],
    later: 0,
    first: 1,
    reopened: "pending",
    log: [expect.stringMatching(/^1 200 Delivered/), expect.stringMatching(/^2 204 Delivered/)],
    gone: 204,
  });
});
