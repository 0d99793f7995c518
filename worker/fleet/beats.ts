import {
  type Beat,
  type Heartbeat,
  type HeartbeatAnswer,
  laterBeat,
  type RunnerDescription,
} from "../../schemas/runner-protocol.ts";
import { HEALTHY, reached } from "./health.ts";
import { record } from "./history.ts";
import { silentAt } from "./losses.ts";
import type { PoolState } from "./pool-state.ts";
import type { RosterEntry } from "./roster.ts";
import { type Runner, saysGone } from "./runner-state.ts";
import { executionName } from "./sync.ts";

/** What a runner's numbered heartbeats say (design section 5, "Beats" and "Loss"). Pure. */

export const BEAT_MS = 5_000;
/** An undecided dispatch that this many beats in a row leave out was never accepted. */
const UNLISTED_BEATS = 2;

/** More processes than can start while a copy of a first beat is still valid. */
const MAX_PROCESSES = 4;

/** Undefined: the runner is not enrolled here, or revoked. */
export function hearBeat(
  state: PoolState,
  runner_id: string,
  jkt: string,
  message: Heartbeat,
  now: number,
): HeartbeatAnswer | undefined {
  const runner = state.runners.get(runner_id);
  if (!runner || runner.entry.state === "revoked" || runner.entry.jkt !== jkt) return undefined;
  const beat = numberOf(runner, message);
  if (!beat) return answerOf(state, runner);
  if (beat.boot > runner.entry.boot) boots(state, runner, beat.boot, message.process, now);
  runner.beat = beat;
  runner.seen_at = now;
  state.lookAt(silentAt(runner, state.watch));
  runner.seats = message.seats;
  runner.draining = message.draining;
  runner.refusing = false;
  enters(state, runner, message);
  list(state, runner, message, now);
  if (message.leaving) leaves(state, runner, now);
  state.runners.changed(runner, now);
  state.assign(now);
  return answerOf(state, runner);
}

/** The beat's place in the runner's life; undefined for one that is older than what was heard. */
function numberOf(runner: Runner, { beat, process }: Heartbeat): Beat | undefined {
  const { boot, processes = [] } = runner.entry;
  if (beat) return beat.boot < boot || (runner.beat && !laterBeat(beat, runner.beat)) ? undefined : beat;
  if (!processes.includes(process)) return { boot: boot + 1, n: 0 };
  // The first beat of a process comes again: its number was given already, and another process may have followed it.
  return runner.beat || processes.at(-1) !== process ? undefined : { boot, n: 0 };
}

/** The first beat of a process: whatever an earlier one held is gone. */
function boots(state: PoolState, runner: Runner, boot: number, process: string, now: number): void {
  const processes = [...(runner.entry.processes ?? []).filter((other) => other !== process), process];
  state.put(runner, { ...runner.entry, boot, processes: processes.slice(-MAX_PROCESSES) });
  runner.listed = new Map();
  runner.health = HEALTHY;
  state.loseSeats(runner, now, (seat) => seat.boot < boot);
}

/** Key order is that of the schema, so equal descriptions have equal texts. */
const saysTheSame = (a: RunnerDescription | undefined, b: RunnerDescription): boolean =>
  JSON.stringify(a) === JSON.stringify(b);

/** It is here, whatever was thought of it, and may describe itself with any beat. What it has said before costs no write. */
function enters(state: PoolState, runner: Runner, { describe }: Heartbeat): void {
  let entry: RosterEntry = runner.entry;
  const stays = entry.drain_wanted ? "draining" : "active";
  if (entry.state !== stays) {
    const { lost_at: _, ...rest } = entry;
    entry = { ...rest, state: stays };
  }
  if (describe && !saysTheSame(entry.description, describe)) {
    entry = { ...entry, description: describe };
    const { kind } = runner;
    state.runners.describe(runner, describe.classes);
    if (runner.kind !== kind) state.catalogueChanged = true;
  }
  if (entry !== runner.entry) state.put(runner, entry);
}

/** Its process ends in order: nobody has to wait for its silence. */
function leaves(state: PoolState, runner: Runner, now: number): void {
  const { drain_wanted: _, ...entry } = runner.entry;
  state.put(runner, { ...entry, state: "stopped" });
  runner.listed = new Map();
  state.loseSeats(runner, now);
}

/** What a beat lists is held; what it leaves out after it was held is gone, and its seat free. */
function list(state: PoolState, runner: Runner, message: Heartbeat, now: number): void {
  const { seats } = state;
  const listed: Runner["listed"] = new Map();
  for (const { account, job, fence, running_ms } of message.held) {
    const name = executionName({ job, fence });
    if (state.freed.has(name)) continue;
    listed.set(name, { execution: { account, job, fence }, running_ms });
    const known = seats.seated.get(name);
    // Who lists it has it: a placement of the same fence elsewhere was made out of ignorance.
    const elsewhere = known !== undefined && known.runner !== runner.entry.runner_id;
    if (elsewhere) state.unseat(known, known.at, now);
    const here = elsewhere ? undefined : known;
    const seat = here ?? state.seat(account, { job, fence }, runner, now - running_ms, now);
    seat.confirmed_at = now;
    runner.health = reached(runner.health);
    if (seat.dropped) seat.unlisted = 0;
    else delete seat.unlisted;
    delete seat.gone_at;
    runner.placed.add(name);
    if (runner.beat) seats.held(seat, runner.beat);
  }
  runner.listed = listed;
  for (const name of [...runner.placed]) if (!listed.has(name)) leftOut(state, runner, name, now);
}

function leftOut(state: PoolState, runner: Runner, name: string, now: number): void {
  const seat = state.seats.seated.get(name);
  if (!seat) {
    runner.placed.delete(name);
    return;
  }
  const gone = seat.beat !== undefined && saysGone(runner, seat.ref, seat.beat);
  const absent = !gone && seat.unlisted !== undefined && ++seat.unlisted >= UNLISTED_BEATS;
  if (seat.dropped) {
    if (!gone && !absent) return;
    state.unseat(seat, now, now);
    // What was never accepted was no execution.
    if (gone) record(state.history, { kind: "ended" }, now);
  } else if (gone) {
    state.goes(seat, now);
  } else if (absent) {
    state.strike(runner, now);
    state.judged(seat, "refused", seat.at, now);
  }
}

function answerOf(state: PoolState, runner: Runner): HeartbeatAnswer {
  const stop: HeartbeatAnswer["stop"] = [];
  for (const [name, { runner: id, account, ref }] of state.unwanted) {
    if (id !== runner.entry.runner_id) continue;
    if (runner.listed.has(name)) stop.push({ account, job: ref.job, fence: ref.fence });
    else if (!state.seats.seated.has(name)) state.unwanted.delete(name);
  }
  return {
    boot: runner.entry.boot,
    stop,
    describe: runner.entry.description === undefined,
    ...(runner.entry.state === "draining" ? { drain: true } : {}),
    next_in_ms: BEAT_MS,
  };
}
