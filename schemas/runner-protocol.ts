import * as v from "valibot";
import { AccountId, JobId, PoolName, RunnerId } from "./ids.ts";
import { JsonObject } from "./json.ts";
import { JobErrorCode, OutputDescription, Progress } from "./job.ts";
import { MAX_OUTPUT_BYTES, MAX_OUTPUT_FILES } from "./limits.ts";

/**
 * What edge and runner say to each other. Every request is signed (signed-request.ts).
 *
 * Edge -> runner, below the runner's own URL:
 *   POST /v1/executions  Order          202 Accepted | 401 | 409 another boot | 410 stopped or ended | 413 | 429 full | 503 draining
 *   POST /v1/stops       Stop           204, whether it held the fence or not
 *   POST /v1/proof       ProofRequest   200 Proof
 *   GET  /healthz                       200, unsigned, says nothing but `ok`
 * Runner -> edge, below the service's base URL:
 *   POST /runners/enrol                 Enrolment   200 Enrolled        (authorised by the one-time token inside)
 *   POST /runners/heartbeat             Heartbeat   200 HeartbeatAnswer (credential)
 *   POST /runners/progress              ProgressReport 200 ProgressAnswer (lease)
 *   PUT  /runners/outputs/{n}           the bytes   201                 (lease), digest in the proof; headers below
 *   POST /runners/end                   EndReport   200 EndAnswer       (lease) | 404 | 409 fenced | 410 gone
 */

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));
const Milliseconds = v.pipe(v.number(), v.minValue(0));

/** Rises with every placement of a job; (job, fence) names one execution. */
export const Fence = v.pipe(v.number(), v.integer(), v.minValue(1));

/** A moment in a runner's life that fleet and accounts can order: `n` counts within a boot, boots rise. */
export const Beat = v.object({ boot: Count, n: Count });
export type Beat = v.InferOutput<typeof Beat>;

export const laterBeat = (a: Beat, b: Beat): boolean => a.boot > b.boot || (a.boot === b.boot && a.n > b.n);

export const Execution = v.object({ account: AccountId, job: JobId, fence: Fence });
export type Execution = v.InferOutput<typeof Execution>;

/** One execution to start. The prompt follows as raw JSON: see encodeOrder. */
export const Order = v.object({
  ...Execution.entries,
  /** The boot that the placement was made for; another boot refuses with 409. */
  boot: Count,
  /** The engine's time, counted by the runner's own clock from the start of the execution. */
  timeout_ms: v.pipe(Milliseconds, v.minValue(1)),
  /** The only authority to change this execution from outside (design section 7). */
  lease: v.string(),
  prompt: v.looseObject({}),
});
export type Order = v.InferOutput<typeof Order>;

/** The bytes of an order. The prompt's own text is kept: numbers beyond 2^53 survive. */
export function encodeOrder(order: Omit<Order, "prompt">, prompt: string): string {
  return `${JSON.stringify(order).slice(0, -1)},"prompt":${prompt}}`;
}

/** Proof that an execution is held. `beat` is the latest one listed before the runner took it: any later one lists it. */
export const Accepted = v.object({ beat: Beat, running_ms: Milliseconds });
export type Accepted = v.InferOutput<typeof Accepted>;

export const Stop = Execution;

export const ProofRequest = v.object({ nonce: v.pipe(v.string(), v.minLength(16), v.maxLength(128)) });
/** A JWT (`typ: proof+jwt`) over `{nonce, iss: runner's URL, aud: edge's base URL}` by the runner's own key. */
export const Proof = v.object({ proof: v.string() });

export const PublicJwk = v.object({
  kty: v.literal("OKP"),
  crv: v.literal("Ed25519"),
  x: v.pipe(v.string(), v.maxLength(64)),
});
export type PublicJwk = v.InferOutput<typeof PublicJwk>;

export const Enrolment = v.object({
  /** `dre_<pool>_<43 characters>`, one time, one hour. */
  token: v.pipe(v.string(), v.maxLength(128)),
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(100)),
  public_jwk: PublicJwk,
  /** Where the edge reaches this runner; fixed from now on. */
  url: v.pipe(v.string(), v.url(), v.maxLength(2048)),
});
export type Enrolment = v.InferOutput<typeof Enrolment>;

export const Enrolled = v.object({ runner_id: RunnerId, pool: PoolName, max_seats: Count, credential: v.string() });
export type Enrolled = v.InferOutput<typeof Enrolled>;

/** How much a description may say. */
export const DESCRIPTION_LIMITS = {
  /** Names in each of its lists: classes, models, and the classes of all closed groups together. */
  names: 20_000,
  class_length: 200,
  model_length: 255,
  closed_groups: 300,
  /** Classes of one closed group. */
  group_classes: 2_000,
  group_length: 100,
  reason_length: 300,
  opened_by_length: 200,
  /** As JSON in UTF-8: the fleet object keeps it in one row, and a row holds 2 MB. */
  bytes: 1_800_000,
} as const;

const ClassName = v.pipe(v.string(), v.maxLength(DESCRIPTION_LIMITS.class_length));

/** Node classes that are installed on a runner and may not run, for one reason. For operators only. */
export const ClosedClasses = v.object({
  group: v.pipe(v.string(), v.maxLength(DESCRIPTION_LIMITS.group_length)),
  classes: v.pipe(v.array(ClassName), v.maxLength(DESCRIPTION_LIMITS.group_classes)),
  reason: v.pipe(v.string(), v.maxLength(DESCRIPTION_LIMITS.reason_length)),
  /** The setting that opens them. */
  opened_by: v.optional(v.pipe(v.string(), v.maxLength(DESCRIPTION_LIMITS.opened_by_length))),
});
export type ClosedClasses = v.InferOutput<typeof ClosedClasses>;

/** Bytes of a value as JSON. */
export const jsonBytes = (value: unknown): number => new TextEncoder().encode(JSON.stringify(value)).length;

export const countClosed = (closed: readonly { readonly classes: readonly string[] }[] = []): number =>
  closed.reduce((sum, { classes }) => sum + classes.length, 0);

/** What a runner can do, sent with the first beat of a boot, whenever it has changed, and whenever the answer asks for it. */
export const RunnerDescription = v.pipe(
  v.object({
    version: v.pipe(v.string(), v.maxLength(50)),
    engine: v.object({ name: v.pipe(v.string(), v.maxLength(50)), version: v.pipe(v.string(), v.maxLength(50)) }),
    classes: v.pipe(v.array(ClassName), v.maxLength(DESCRIPTION_LIMITS.names)),
    models: v.pipe(
      v.array(v.pipe(v.string(), v.maxLength(DESCRIPTION_LIMITS.model_length))),
      v.maxLength(DESCRIPTION_LIMITS.names),
    ),
    gpu: v.optional(v.object({ name: v.pipe(v.string(), v.maxLength(200)), memory_bytes: Count })),
    closed: v.optional(
      v.pipe(
        v.array(ClosedClasses),
        v.maxLength(DESCRIPTION_LIMITS.closed_groups),
        v.check((closed) => countClosed(closed) <= DESCRIPTION_LIMITS.names, "too many names"),
      ),
    ),
  }),
  v.check((description) => jsonBytes(description) <= DESCRIPTION_LIMITS.bytes, "too long as a whole"),
);
export type RunnerDescription = v.InferOutput<typeof RunnerDescription>;

export const Heartbeat = v.object({
  /** Absent in the first beat of a process: the answer gives the number. */
  beat: v.optional(Beat),
  /** Names the process, so that a first beat that comes twice is one boot. Random, made at its start. */
  process: v.pipe(v.string(), v.minLength(8), v.maxLength(64)),
  /** As many executions as it takes now. Each beat may say another number; 0 is a runner that is there and takes nothing for now. */
  seats: v.pipe(Count, v.maxValue(64)),
  draining: v.boolean(),
  /** The last beat of a process that ends in order. */
  leaving: v.optional(v.boolean()),
  /** Every execution from before its 202 was sent until its end report was acknowledged. */
  held: v.pipe(v.array(v.object({ ...Execution.entries, running_ms: Milliseconds })), v.maxLength(1024)),
  describe: v.optional(RunnerDescription),
});
export type Heartbeat = v.InferOutput<typeof Heartbeat>;

export const HeartbeatAnswer = v.object({
  boot: Count,
  /** Executions that nobody wants any more. */
  stop: v.array(Execution),
  /** The fleet does not have this runner's description. */
  describe: v.boolean(),
  /** An operator wants this process to drain and end, as SIGTERM would. */
  drain: v.optional(v.boolean()),
  next_in_ms: Milliseconds,
  /** A fresh credential in place of one whose signing key is being retired. */
  credential: v.optional(v.string()),
});
export type HeartbeatAnswer = v.InferOutput<typeof HeartbeatAnswer>;

export const ProgressReport = v.object({ ...Accepted.entries, progress: v.optional(Progress) });
export type ProgressReport = v.InferOutput<typeof ProgressReport>;

export const ProgressAnswer = v.object({
  /** True: this execution lost its fence. Stop it and report nothing more. */
  fenced: v.boolean(),
  next_in_ms: Milliseconds,
});
export type ProgressAnswer = v.InferOutput<typeof ProgressAnswer>;

/** Headers of an output upload; `x-output` is base64url of OutputHeader as JSON. */
export const OUTPUT_HEADER = "x-output";
export const OutputHeader = OutputDescription;

/** Of an error's details as JSON: they lie in the job's record. */
export const MAX_DETAILS_LENGTH = 8192;

const ExecutionTimes = v.object({ download_ms: Milliseconds, execution_ms: Milliseconds, upload_ms: Milliseconds });

const Outcome = v.variant("outcome", [
  v.object({
    outcome: v.literal("completed"),
    outputs: v.pipe(
      v.array(OutputDescription),
      v.maxLength(MAX_OUTPUT_FILES),
      v.check((files) => files.reduce((sum, file) => sum + file.size_bytes, 0) <= MAX_OUTPUT_BYTES, "too many bytes"),
    ),
    times: ExecutionTimes,
  }),
  v.object({
    outcome: v.literal("failed"),
    error: v.object({
      code: JobErrorCode,
      message: v.pipe(v.string(), v.maxLength(2048)),
      node_id: v.optional(v.pipe(v.string(), v.maxLength(200))),
      details: v.optional(
        v.pipe(
          JsonObject,
          v.check((details) => JSON.stringify(details).length <= MAX_DETAILS_LENGTH, "details too long"),
        ),
      ),
    }),
    times: ExecutionTimes,
  }),
  /** A draining runner gives the job back unfinished; it costs no attempt. */
  v.object({ outcome: v.literal("handed_back") }),
  /** The edge asked for the stop; the seat is free again. */
  v.object({ outcome: v.literal("stopped") }),
]);

export const EndReport = v.intersect([Accepted, Outcome]);
export type EndReport = v.InferOutput<typeof EndReport>;

export const EndAnswer = v.object({ ok: v.literal(true) });

/** The paths above, so that both sides spell them the same. */
export const RUNNER_PATHS = {
  executions: "/v1/executions",
  stops: "/v1/stops",
  proof: "/v1/proof",
  health: "/healthz",
} as const;
export const EDGE_PATHS = {
  enrol: "/runners/enrol",
  heartbeat: "/runners/heartbeat",
  progress: "/runners/progress",
  outputs: "/runners/outputs",
  end: "/runners/end",
  jwks: "/.well-known/jwks.json",
} as const;

/** Answers to a repeated end report that end the repeating (design section 6, step 4); so does any refusal after the lease's expiry. */
export const END_REPORT_FINAL: readonly number[] = [200, 404, 409, 410];
