import type { Execution, Heartbeat, RunnerDescription } from "../schemas/runner-protocol.ts";
import type { Edge, EdgeAnswer } from "./edge.ts";
import type { Log } from "./log.ts";
import { jittered, pause } from "./pause.ts";
import type { Timings } from "./timings.ts";

/** Bounds on what an answer may ask for: a runner that is silent for 15 s counts as lost. */
const SHORTEST_MS = 100;
const LONGEST_MS = 12_000;
/** Until it has the description, the fleet can give this runner no work. */
const DESCRIBE_WITHIN_MS = 1_000;

export interface HeartbeatHost {
  readonly edge: Pick<Edge, "heartbeat">;
  readonly log: Log;
  readonly timings: Pick<Timings, "beat_retry_ms" | "answer_ms">;
  /** The current credential. */
  credential(): string;
  /** Stores a fresh credential in its place. */
  renewed(credential: string): void;
  /** What the runner can do now: the same object as long as nothing of it has changed. */
  description(): RunnerDescription;
  /** The next beat, numbered by the table. */
  beat(): Heartbeat;
  beatAnswered(boot: number): void;
  stop(execution: Execution): void;
  /** An operator has taken this runner out of service. May be called with every beat. */
  drain(): void;
  /** The edge no longer knows this runner. Called once; no beat follows. */
  revoked(message: string): void;
}

export interface Heartbeats {
  /** Resolves with the first answer, which gives the boot number; never, where there is none before the end. */
  readonly first: Promise<void>;
  /** Beats at once, or as soon as the beat under way is answered. */
  nudge(): void;
  /** One last beat, which says that this process ends, then silence. Nothing after a revocation. */
  end(): Promise<void>;
  /** Ends at once. Idempotent. */
  silence(): Promise<void>;
}

const isRevocation = (answer: EdgeAnswer<unknown> & { ok: false }): boolean =>
  (answer.status === 401 || answer.status === 403) && /revoked/i.test(`${answer.code} ${answer.message}`);

/** Beats until ended: one request at a time, so that a later number is always a later request. */
export function startHeartbeats(host: HeartbeatHost): Heartbeats {
  const { log, timings } = host;
  const first = Promise.withResolvers<void>();
  const ended = new AbortController();
  /** The description that the fleet has. */
  let told: RunnerDescription | undefined;
  let opening: RunnerDescription | undefined;
  let outage = false;
  let revoked = false;
  let nudged = new AbortController();

  /** One beat; the answer is how long to wait for the next, undefined where none may follow. */
  async function beatOnce(signal: AbortSignal, leaving = false): Promise<number | undefined> {
    nudged = new AbortController();
    const heartbeat = host.beat();
    if (leaving) heartbeat.leaving = true;
    // Of a first beat that comes twice the fleet reads one: its repeat must say the same.
    opening ??= host.description();
    const said = heartbeat.beat ? host.description() : opening;
    if (said !== told) heartbeat.describe = said;
    const sent = await host.edge.heartbeat(heartbeat, host.credential(), signal);
    if (sent.ok) {
      const { boot, stop, describe, next_in_ms, credential, drain } = sent.answer;
      if (outage) log.info("the edge answers again");
      outage = false;
      told = describe ? undefined : said;
      host.beatAnswered(boot);
      first.resolve();
      for (const execution of stop) host.stop(execution);
      if (drain) host.drain();
      if (credential !== undefined && credential !== host.credential()) host.renewed(credential);
      const longest = told === host.description() ? LONGEST_MS : DESCRIBE_WITHIN_MS;
      return Math.min(Math.max(next_in_ms, SHORTEST_MS), longest);
    }
    if (isRevocation(sent)) {
      revoked = true;
      host.revoked(sent.message);
      return undefined;
    }
    if (!outage && !signal.aborted) {
      const status = sent.status === undefined ? "" : ` (${sent.status})`;
      log.warn(`the edge does not take the heartbeat${status}: ${sent.message}; trying on`);
      outage = true;
    }
    return jittered(timings.beat_retry_ms);
  }

  const loop = async () => {
    while (!ended.signal.aborted) {
      const wait = await beatOnce(ended.signal);
      if (wait === undefined) return;
      await pause(wait, AbortSignal.any([nudged.signal, ended.signal]));
    }
  };
  const looping = loop().catch((error: unknown) => log.error("fault of the heartbeat", error));

  async function silence(): Promise<void> {
    ended.abort();
    await looping;
  }

  return {
    first: first.promise,
    nudge: () => nudged.abort(),
    silence,
    async end() {
      await silence();
      if (!revoked) await beatOnce(AbortSignal.timeout(timings.answer_ms), true);
    },
  };
}
