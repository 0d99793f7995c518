import type { Accepted, Beat, Execution, Heartbeat } from "../schemas/runner-protocol.ts";

/**
 * The runner's one table of executions: what is held, what has ended, what was stopped. "Have it", the list in the beat and the
 * 410 for a dispatch that a stop overtook all read it. Pure: every verb takes the table and a monotonic `now` in milliseconds
 * and gives back the next table.
 */

/** An end or a stop is kept longer than any dispatch of its fence can still arrive (60 s of repeats, 60 s of clock skew). */
export const REMEMBER_MS = 5 * 60_000;

/** As many executions as one heartbeat may list. */
export const MAX_LISTED = 1024;

interface Held {
  readonly execution: Execution;
  /** The latest beat whose list was taken before this execution was accepted: any later one lists it. */
  readonly beat: Beat;
  readonly since: number;
  /** The engine still works on it. An ended execution stays listed until its report is acknowledged, and takes no seat. */
  readonly seated: boolean;
  /** Nobody wants it any more; a repeated dispatch is refused. */
  readonly stopped: boolean;
}

export interface Table {
  /** A name of this process, sent with each beat. */
  readonly process: string;
  /** Offered now; fewer than what runs is legal, and so is none. */
  readonly seats: number;
  /** The most that configuration and enrolment allow. */
  readonly most_seats: number;
  readonly draining: boolean;
  /** Given by the answer to the first beat; nothing is accepted before. */
  readonly boot?: number;
  /** Number of the latest beat. */
  readonly n: number;
  readonly held: ReadonlyMap<string, Held>;
  /** Ended or stopped executions, with the time from which they may be forgotten. */
  readonly gone: ReadonlyMap<string, number>;
}

export type Offer =
  | { readonly outcome: "accepted"; readonly accepted: Accepted; readonly repeated: boolean }
  | { readonly outcome: "another_boot" | "full" | "draining" | "gone" };

/** Names one execution; the same for every message about it. */
export const executionKey = ({ account, job, fence }: Execution): string => `${account}/${job}/${fence}`;

export const emptyTable = (seats: number, process: string): Table => ({
  process,
  seats,
  most_seats: seats,
  draining: false,
  n: 0,
  held: new Map(),
  gone: new Map(),
});

function without<T>(map: ReadonlyMap<string, T>, key: string): ReadonlyMap<string, T> {
  const copy = new Map(map);
  copy.delete(key);
  return copy;
}

function remember(gone: Table["gone"], key: string, now: number): Table["gone"] {
  const copy = new Map([...gone].filter(([, until]) => until > now));
  copy.set(key, now + REMEMBER_MS);
  return copy;
}

const acceptedOf = (row: Held, now: number): Accepted => ({ beat: row.beat, running_ms: Math.max(0, now - row.since) });

/**
 * Offers an execution that was placed for `order.boot`. A fence that is held is answered as it was the first time, whatever else
 * holds; a fence that was stopped, or whose end was acknowledged, is `gone`; so no fence ever runs twice.
 */
export function offer(
  table: Table,
  order: Execution & { readonly boot: number },
  now: number,
): { readonly table: Table; readonly offer: Offer } {
  const key = executionKey(order);
  const row = table.held.get(key);
  if (row && !row.stopped)
    return { table, offer: { outcome: "accepted", accepted: acceptedOf(row, now), repeated: true } };
  if (row || (table.gone.get(key) ?? 0) > now) return { table, offer: { outcome: "gone" } };
  if (table.draining) return { table, offer: { outcome: "draining" } };
  if (table.boot === undefined || order.boot !== table.boot) return { table, offer: { outcome: "another_boot" } };
  const seated = [...table.held.values()].filter((held) => held.seated).length;
  if (seated >= table.seats || table.held.size >= MAX_LISTED) return { table, offer: { outcome: "full" } };

  const { account, job, fence } = order;
  const held: Held = {
    execution: { account, job, fence },
    beat: { boot: table.boot, n: table.n },
    since: now,
    seated: true,
    stopped: false,
  };
  return {
    table: { ...table, held: new Map(table.held).set(key, held) },
    offer: { outcome: "accepted", accepted: acceptedOf(held, now), repeated: false },
  };
}

/** Nobody wants this execution any more. Remembered also where it is unknown: the dispatch that it overtook is then refused. */
export function stop(table: Table, execution: Execution, now: number): Table {
  const key = executionKey(execution);
  const row = table.held.get(key);
  return row
    ? { ...table, held: new Map(table.held).set(key, { ...row, stopped: true }) }
    : { ...table, gone: remember(table.gone, key, now) };
}

/** The engine is idle again: the seat is free. The execution stays listed until `acknowledged`. */
export function ended(table: Table, execution: Execution): Table {
  const key = executionKey(execution);
  const row = table.held.get(key);
  return row ? { ...table, held: new Map(table.held).set(key, { ...row, seated: false }) } : table;
}

/** The edge knows how it ended, or no longer wants to: it leaves the list, and is remembered as gone. */
export function acknowledged(table: Table, execution: Execution, now: number): Table {
  const key = executionKey(execution);
  if (!table.held.has(key)) return table;
  return { ...table, held: without(table.held, key), gone: remember(table.gone, key, now) };
}

/** Takes the next beat's snapshot. It has no `beat` until the edge has given this process its boot number. */
export function beat(table: Table, now: number): { readonly table: Table; readonly heartbeat: Heartbeat } {
  const n = table.boot === undefined ? 0 : table.n + 1;
  const held = [...table.held.values()].map((row) => ({
    ...row.execution,
    running_ms: Math.max(0, now - row.since),
  }));
  const heartbeat: Heartbeat = { process: table.process, seats: table.seats, draining: table.draining, held };
  if (table.boot !== undefined) heartbeat.beat = { boot: table.boot, n };
  return { table: { ...table, n }, heartbeat };
}

/** A beat was answered with this boot number. The first one counts, and later only a higher one: boots rise. */
export function beatAnswered(table: Table, boot: number): Table {
  return table.boot === undefined || boot > table.boot ? { ...table, boot } : table;
}

/** Nothing new from now on. Final. */
export const drain = (table: Table): Table => ({ ...table, draining: true });

/** The seats that the enrolment allows, where they are fewer than asked for. Never more than before. */
export function limitSeats(table: Table, allowed: number): Table {
  const most_seats = Math.min(table.most_seats, allowed);
  return { ...table, most_seats, seats: Math.min(table.seats, most_seats) };
}

/** As many seats as the engine has now, never more than are allowed. What runs beyond them goes on; only new offers are refused. */
export const setSeats = (table: Table, seats: number): Table => ({
  ...table,
  seats: Math.max(0, Math.min(seats, table.most_seats)),
});

/** What every message about a held execution says; undefined once it has left the table. */
export function acceptance(table: Table, execution: Execution, now: number): Accepted | undefined {
  const row = table.held.get(executionKey(execution));
  return row && acceptedOf(row, now);
}
