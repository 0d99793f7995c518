import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { expect, vi } from "vitest";
import { TIER_LIMITS, type Tier } from "../../schemas/limits.ts";
import type { EndReport } from "../../schemas/runner-protocol.ts";
import type { Job } from "../../worker/account/jobs.ts";
import type { AccountObject } from "../../worker/account/object.ts";
import { expectRecord } from "./account.ts";
import { pass } from "./clock.ts";
import { NOTHING, RUNNER, WORD } from "./played-fleet.ts";

/** One account object under random commands, and what must hold of it after each (design section 3). */

interface KeyUse {
  readonly slots: number;
  readonly places: number;
}

/** The rows as they are between two verbs. */
export interface Snapshot {
  readonly tier: Tier;
  readonly jobs: ReadonlyMap<string, Job>;
  readonly use: ReadonlyMap<string, KeyUse>;
}

/** All that the model remembers: what was seen last, and how each job ended. */
export interface Model {
  last: Snapshot;
  readonly ends: Map<string, string>;
}

export interface Real {
  readonly stub: DurableObjectStub<AccountObject>;
  keys: string[];
  submitted: number;
}

const POOL = "model";

let accounts = 0;
let keys = 0;

async function newKey(stub: Real["stub"]): Promise<string> {
  const key_hash = `hash-${++keys}`;
  await stub.addKey({ key_hash, prefix: `sk_live_${String(keys).padStart(4, "0")}`, name: "model" });
  return key_hash;
}

export async function newReal(tier: Tier): Promise<{ model: Model; real: Real }> {
  const account_id = `acc_model${++accounts}`;
  const stub = env.ACCOUNT.getByName(account_id);
  await stub.create({ account_id, tier, suspended: false, pool: POOL, webhook_secret: "0".repeat(64) });
  const real = { stub, keys: [await newKey(stub), await newKey(stub)], submitted: 0 };
  return { model: { last: { tier, jobs: new Map(), use: new Map() }, ends: new Map() }, real };
}

type Command = fc.AsyncCommand<Model, Real>;

function command(text: string, act: (real: Real, model: Model) => Promise<unknown>): Command {
  return {
    check: () => true,
    toString: () => text,
    run: async (model, real) => {
      await act(real, model);
      await expectInvariants(model, real);
    },
  };
}

/** A command about one job: the newest is 0. Nothing happens where there is none. */
const about = (text: string, nth: number, act: (real: Real, job: Job) => Promise<unknown>): Command =>
  command(`${text}(${nth})`, async (real, { last }) => {
    const job = [...last.jobs.values()].at(-1 - nth);
    if (job) await act(real, job);
  });

/** A report that is not of the current execution changes neither its fence, nor its losses, nor its end. */
async function harmless(real: Real, job: Job, fence: number, act: () => Promise<unknown>): Promise<void> {
  await act();
  if (fence === job.fence) return;
  const after = (await snapshot(real)).jobs.get(job.job_id);
  expect([after?.fence, after?.losses, after?.end]).toEqual([job.fence, job.losses, job.end]);
}

const TIMES = { download_ms: 1, execution_ms: 2, upload_ms: 3 };
const CODES = [
  "execution_failed",
  "missing_node",
  "out_of_memory",
  "stalled",
  "engine_crashed",
  "output_upload_failed",
  "internal_error",
] as const;

const report = (real: Real, job: Job, shift: number, end: EndReport): Promise<void> =>
  harmless(real, job, job.fence + shift, () =>
    real.stub.endExecution(job.job_id, job.fence + shift, { pool: POOL, runner: RUNNER.runner }, end),
  );

const nth = fc.nat(8);
const shift = fc.constantFrom(0, 0, 0, 0, -1, 1);

async function submit(real: Real, key: number, priority: number): Promise<void> {
  const job_id = `01900000-0000-7000-8000-${String(++real.submitted).padStart(12, "0")}`;
  const options = { timeout_s: 600, queue_timeout_s: 3600, priority };
  const needs = { classes: ["EmptyImage"], models: [] };
  const { gate, value } = await real.stub.submit(real.keys[key] ?? "", { job_id, prompt: "{}", needs, options });
  if (!gate.ok || value?.kind !== "stored") return;
  // A 2xx means that it is in storage.
  expect((await snapshot(real)).jobs.has(job_id)).toBe(true);
}

export const COMMANDS = [
  fc
    .tuple(fc.nat(1), fc.integer({ min: -2, max: 2 }))
    .map(([key, priority]) => command(`submit(${key}, ${priority})`, (real) => submit(real, key, priority))),
  fc
    .tuple(fc.nat(1), fc.integer({ min: 3, max: 9 }))
    .map(([key, n]) =>
      command(`burst(${key}, ${n})`, (real) => Promise.all(Array.from({ length: n }, () => submit(real, key, 0)))),
    ),
  nth.map((n) => about("cancel", n, ({ stub, keys: [first = ""] }, job) => stub.cancelJob(first, job.job_id))),
  nth.map((n) => about("delete", n, ({ stub, keys: [first = ""] }, job) => stub.deleteJob(first, job.job_id))),
  fc
    .tuple(nth, fc.constantFrom(1, 1, 1, 0, 2))
    .map(([n, ahead]) =>
      about(`place+${ahead}`, n, ({ stub }, job) =>
        stub.fleetNews(POOL, { ...NOTHING, placed: [{ job: job.job_id, fence: job.fence + ahead, ...RUNNER }] }),
      ),
    ),
  fc.constant(
    command("placeAll()", ({ stub }, { last }) =>
      stub.fleetNews(POOL, {
        ...NOTHING,
        placed: [...last.jobs.values()].map(({ job_id, fence }) => ({ job: job_id, fence: fence + 1, ...RUNNER })),
      }),
    ),
  ),
  fc
    .tuple(nth, shift)
    .map(([n, by]) =>
      about(`finish${by}`, n, (real, job) =>
        report(real, job, by, { ...WORD, outcome: "completed", outputs: [], times: TIMES }),
      ),
    ),
  fc
    .tuple(nth, shift, fc.constantFrom(...CODES))
    .map(([n, by, code]) =>
      about(`fail${by}:${code}`, n, (real, job) =>
        report(real, job, by, { ...WORD, outcome: "failed", error: { code, message: "x" }, times: TIMES }),
      ),
    ),
  fc
    .tuple(nth, shift)
    .map(([n, by]) =>
      about(`handBack${by}`, n, (real, job) => report(real, job, by, { ...WORD, outcome: "handed_back" })),
    ),
  fc.tuple(nth, shift, fc.constantFrom("lost" as const, "held" as const, "refused" as const)).map(([n, by, verdict]) =>
    about(`${verdict}${by}`, n, (real, job) =>
      harmless(real, job, job.fence + by, () =>
        real.stub.fleetNews(POOL, {
          ...NOTHING,
          verdicts: [{ job: job.job_id, fence: job.fence + by, verdict, ...WORD }],
        }),
      ),
    ),
  ),
  fc
    .tuple(nth, shift)
    .map(([n, by]) =>
      about(`progress${by}`, n, (real, job) =>
        harmless(real, job, job.fence + by, () =>
          real.stub.progress(job.job_id, job.fence + by, { ...WORD, progress: { value: 0.5 } }),
        ),
      ),
    ),
  nth.map((n) =>
    about("impossible", n, ({ stub }, job) =>
      stub.fleetNews(POOL, { ...NOTHING, impossible: [{ job: job.job_id, fence: job.fence + 1, hopeless: true }] }),
    ),
  ),
  fc.nat(1).map((key) =>
    command(`rotate(${key})`, async (real) => {
      const hash = real.keys[key] ?? "";
      await real.stub.revokeKey(`sk_live_${hash.slice("hash-".length).padStart(4, "0")}`);
      expect((await real.stub.count(hash)).ok).toBe(false);
      real.keys[key] = await newKey(real.stub);
    }),
  ),
  fc
    .constantFrom("free" as const, "pro" as const)
    .map((tier) => command(`setTier(${tier})`, ({ stub }) => stub.setTier(tier))),
  fc.boolean().map((suspended) => command(`suspended(${suspended})`, ({ stub }) => stub.setSuspended(suspended))),
  fc.constantFrom(1_000, 61_000, 130_000, 3_700_000, 5_000_000, 90_000_000).map((ms) =>
    command(`pass(${ms})`, async ({ stub }) => {
      pass(ms);
      await runDurableObjectAlarm(stub);
    }),
  ),
  fc.constant(command("evict()", ({ stub }) => evictDurableObject(stub))),
];

function useOf(jobs: Iterable<Job>): Map<string, KeyUse> {
  const use = new Map<string, KeyUse>();
  for (const { key_hash, phase } of jobs) {
    const { slots, places } = use.get(key_hash) ?? { slots: 0, places: 0 };
    if (phase === "waiting") use.set(key_hash, { slots, places: places + 1 });
    else if (phase !== "ended") use.set(key_hash, { slots: slots + 1, places });
  }
  return use;
}

interface Stored extends Snapshot {
  readonly timers: readonly { kind: string; ref: string; due_at: number }[];
  readonly prompts: readonly string[];
  readonly alarm: number | null;
  readonly now: number;
}

const snapshot = ({ stub }: Real): Promise<Stored> =>
  runInDurableObject(stub, async (_, { storage }) => {
    const { sql } = storage;
    const alarm = await storage.getAlarm();
    const bodies = sql.exec("SELECT body FROM jobs ORDER BY seq").toArray();
    const jobs = new Map(bodies.map(({ body }) => JSON.parse(String(body)) as Job).map((job) => [job.job_id, job]));
    const settings = JSON.parse(String(sql.exec("SELECT body FROM settings").one().body)) as { tier: Tier };
    return {
      tier: settings.tier,
      jobs,
      use: useOf(jobs.values()),
      timers: sql.exec<{ kind: string; ref: string; due_at: number }>("SELECT kind, ref, due_at FROM timers").toArray(),
      prompts: sql
        .exec("SELECT job_id FROM prompts")
        .toArray()
        .map(({ job_id }) => String(job_id)),
      alarm,
      now: Date.now(),
    };
  });

async function expectInvariants(model: Model, real: Real): Promise<void> {
  const seen = await snapshot(real);
  const { concurrent_jobs, queue_depth } = TIER_LIMITS[seen.tier];
  for (const [key, { slots, places }] of seen.use) {
    const before = model.last.use.get(key) ?? { slots: 0, places: 0 };
    expect(slots).toBeLessThanOrEqual(Math.max(concurrent_jobs, before.slots));
    expect(places).toBeLessThanOrEqual(Math.max(queue_depth, before.places));
    if (places > 0) expect(slots).toBeGreaterThanOrEqual(concurrent_jobs);
  }
  for (const [job_id, job] of seen.jobs) {
    const end = model.ends.get(job_id);
    if (end !== undefined) expect(JSON.stringify(job.end)).toBe(end);
    expect(job.phase === "ended").toBe(job.end !== undefined);
    if (job.end) model.ends.set(job_id, JSON.stringify(job.end));
    expect(job.fence).toBeGreaterThanOrEqual(model.last.jobs.get(job_id)?.fence ?? 0);
    expect(job.losses).toBeLessThanOrEqual(3);
  }
  const timed = seen.timers.filter(({ kind }) => kind === "job").map(({ ref }) => ref);
  expect(timed.sort()).toEqual([...seen.jobs.keys()].sort());
  const open = [...seen.jobs.values()].filter(({ phase }) => phase !== "ended");
  if (open.some(({ phase }) => phase !== "waiting")) expect(seen.timers.map(({ kind }) => kind)).toContain("sync");
  expect([...seen.prompts].sort()).toEqual(open.map(({ job_id }) => job_id).sort());
  await expectArmed(real);
  await expectRecords(real);
  model.last = await snapshot(real);
}

/** An alarm stands at or before the earliest timer, but for the moment in which one has just gone off. */
async function expectArmed(real: Real): Promise<void> {
  await vi.waitFor(
    async () => {
      const { alarm, timers, now } = await snapshot(real);
      if (timers.length === 0) return;
      expect(alarm).not.toBeNull();
      const earliest = Math.min(...timers.map(({ due_at }) => due_at));
      expect(alarm).toBeLessThanOrEqual(Math.max(earliest, now));
    },
    { timeout: 2_000, interval: 5 },
  );
}

/** What the API would show of every job. Skipped while no key may ask. */
async function expectRecords({ stub, keys: [first = ""] }: Real): Promise<void> {
  const { gate, value } = await stub.listJobs(first, { limit: 100 });
  if (!gate.ok || !value) return;
  const urls = { self: "https://x.example/", cancel: "https://x.example/" };
  for (const { record, outputs } of value.jobs) {
    expectRecord({ ...record, urls, ...(outputs ? { outputs: { images: [], files: [] } } : {}) });
  }
}
