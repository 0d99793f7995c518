import { join } from "node:path";
import { SignJWT } from "jose";
import { createGate, edgeKeys } from "./auth.ts";
import type { RunnerConfig } from "./config.ts";
import { type Description, describeEngine } from "./description.ts";
import { createEdge } from "./edge.ts";
import type { Engine } from "./engine.ts";
import { ensureEnrolled } from "./enrol.ts";
import { createExecutions } from "./executions.ts";
import { type Heartbeats, startHeartbeats } from "./heartbeat.ts";
import { openIdentity } from "./identity.ts";
import type { Log } from "./log.ts";
import { aborted, within } from "./pause.ts";
import { startRun } from "./run.ts";
import { createApp, listen } from "./server.ts";
import { clearScratch, type SpoolLimits } from "./spool.ts";
import { StartError } from "./start-error.ts";
import { TIMINGS, type Timings } from "./timings.ts";

export interface RunnerOptions {
  readonly config: RunnerConfig;
  readonly engine: Engine;
  readonly log: Log;
  /** The runner's own version, told to the fleet. */
  readonly version: string;
  readonly timings?: Partial<Timings>;
  readonly limits?: SpoolLimits;
  /** Ends a start that still waits for the edge. */
  readonly signal?: AbortSignal;
}

export interface Runner {
  readonly runner_id: string;
  /** The most at a time. The engine may have fewer for a while, and none. */
  readonly seats: number;
  /** Resolves, with the edge's words, when the edge has revoked this runner; it takes nothing new from then on. */
  readonly revoked: Promise<string>;
  /** Resolves when an operator has taken this runner out of service: it is to be drained. */
  readonly drainOrdered: Promise<void>;
  /**
   * Takes nothing new, lets running jobs finish for `grace_ms`, gives the others back, beats a last time and closes everything.
   * Idempotent.
   */
  drain(): Promise<void>;
  /** Closes everything at once; what still runs is interrupted and nobody is told. Idempotent. */
  close(): Promise<void>;
}

/** What is left of an interrupted run's report once its repeating was given up. */
const LAST_WORDS_MS = 1_000;

/**
 * Starts a runner: engine, listener, enrolment, first beat, in this order. Resolves when the fleet knows it; until then an edge that
 * is down is waited for. Rejects with a StartError for what its operator can change. The engine is closed with the runner, and
 * after a start that failed.
 */
export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { config, engine, log } = options;
  const timings: Timings = { ...TIMINGS, ...options.timings };
  const signal = options.signal ?? new AbortController().signal;
  const closing: (() => Promise<unknown>)[] = [() => engine.close()];
  let closed: Promise<void> | undefined;
  const close = () => {
    closed ??= (async () => {
      for (const end of closing.toReversed())
        await end().catch((error: unknown) => log.error("fault at the end", error));
    })();
    return closed;
  };

  let heartbeats: Heartbeats | undefined;
  const nudge = () => heartbeats?.nudge();
  const describe = (): Promise<Description> =>
    describeEngine(engine, { version: options.version, log, changed: nudge }).catch((error: unknown) => {
      throw new StartError("the engine can't work", { cause: error });
    });

  try {
    const description = await describe();
    const identity = await openIdentity(config.data);
    const scratch = join(config.data, "scratch");
    const edge = createEdge({ base: config.edge, signer: identity.signer, timings });
    const executions = createExecutions({
      seats: config.seats,
      start: (order, prompt, host) =>
        startRun(order, prompt, {
          engine,
          edge,
          log,
          timings,
          scratch,
          ...(options.limits ? { limits: options.limits } : {}),
          ...host,
        }),
      seatsChanged: nudge,
      log,
    });
    const prove = (nonce: string) =>
      new SignJWT({ nonce })
        .setProtectedHeader({ alg: "EdDSA", typ: "proof+jwt" })
        .setIssuer(config.url)
        .setAudience(config.edge)
        .setIssuedAt()
        .sign(identity.signer.privateKey);
    const gate = createGate({ url: config.url, keys: edgeKeys(config.edge) });
    const served = { offer: executions.offer, stop: executions.stop, prove };
    const listener = await listen(createApp({ gate, served, log }), config.listen, log);
    closing.push(() => listener.close());
    // The address is this process's alone now, so nobody else uses the folder.
    await clearScratch(scratch);

    const enrol = async (anew: boolean) => {
      const allowed = await ensureEnrolled({
        config,
        identity,
        edge,
        log,
        retry_ms: timings.beat_retry_ms,
        signal,
        anew,
      });
      if (allowed.max_seats < config.seats)
        log.warn(`the enrolment allows ${allowed.max_seats} of the ${config.seats} seats asked for`);
      executions.limitSeats(allowed.max_seats);
      return allowed;
    };
    let enrolment = await enrol(false);
    if (engine.watch) {
      let offered = 0;
      let follow = (seats: number): void => {
        offered = seats;
      };
      engine.watch({
        seats: (seats) => follow(seats),
        described() {
          if (!closed) description.again();
        },
      });
      // Nothing is offered that the engine has not said.
      executions.setSeats(offered);
      follow = executions.setSeats;
      // An enrolment may take its time; what has changed meanwhile was told to nobody.
      description.again();
    }

    const revoked = Promise.withResolvers<string>();
    const drainOrdered = Promise.withResolvers<void>();
    /** Beats until the fleet knows this process, or says that it does not want to. */
    const begin = async (): Promise<"ready" | "revoked" | "stopped"> => {
      const refused = Promise.withResolvers<void>();
      let known = false;
      const beating = startHeartbeats({
        edge,
        log,
        timings,
        description: description.current,
        credential: () => enrolment.credential,
        renewed(credential) {
          enrolment = { ...enrolment, credential };
          identity.enrolled(enrolment).then(
            () => log.info("the credential was renewed"),
            (error: unknown) => log.error("the renewed credential can't be stored", error),
          );
        },
        beat: executions.beat,
        beatAnswered: executions.beatAnswered,
        stop: executions.stop,
        drain: drainOrdered.resolve,
        revoked(message) {
          log.error(`the edge has revoked this runner: ${message}`);
          refused.resolve();
          if (!known) return;
          executions.drain();
          revoked.resolve(message);
        },
      });
      heartbeats = beating;
      const begun = await Promise.race([
        beating.first.then(() => "ready" as const),
        refused.promise.then(() => "revoked" as const),
        aborted(signal).then(() => "stopped" as const),
      ]);
      known = begun === "ready";
      return begun;
    };

    async function drain(): Promise<void> {
      log.info(`draining: nothing new, running jobs have ${config.grace_ms / 1000} s`);
      executions.drain();
      nudge();
      await within(config.grace_ms, executions.idle());
      executions.handBack();
      await within(timings.hand_back_ms, executions.idle());
      executions.abandon();
      await within(LAST_WORDS_MS, executions.idle());
      await heartbeats?.end();
      await close();
    }
    let draining: Promise<void> | undefined;

    closing.push(async () => {
      executions.handBack();
      executions.abandon();
      await heartbeats?.silence();
    });
    let begun = await begin();
    if (begun === "revoked" && config.token !== undefined) {
      log.info("enrolling anew with the token");
      enrolment = await enrol(true);
      begun = await begin();
    }
    if (begun === "revoked") throw new StartError("the edge has revoked this runner");
    if (begun === "stopped") throw new StartError("stopped before the first beat");
    return {
      runner_id: enrolment.runner_id,
      seats: Math.min(config.seats, enrolment.max_seats),
      revoked: revoked.promise,
      drainOrdered: drainOrdered.promise,
      drain: () => {
        draining ??= drain();
        return draining;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
