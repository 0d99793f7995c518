import type { Tier } from "../../schemas/limits.ts";
import { type ClosedClasses, countClosed } from "../../schemas/runner-protocol.ts";
import type { PoolState } from "./pool-state.ts";
import type { RunnerState } from "./roster.ts";
import { type Runner, seatsOf, seatsTaken } from "./runner-state.ts";

/** The fleet as operators see it. */

export interface RunnerView {
  readonly runner_id: string;
  readonly name: string;
  readonly url: string;
  readonly state: RunnerState;
  readonly boot: number;
  /** That it offers now, and at most. */
  readonly seats: number;
  readonly max_seats: number;
  readonly seats_taken: number;
  /** Why it gets nothing new, or little, although it is active. */
  readonly suspended: {
    readonly reason: "unreachable" | "engine_faults";
    /** Until then it gets nothing; after that one execution at a time until one succeeds. */
    readonly until: string;
  } | null;
  readonly engine: { readonly name: string; readonly version: string } | null;
  readonly gpu: { readonly name: string; readonly memory_bytes: number } | null;
  readonly classes: number;
  /** Installed there and not to be run. */
  readonly closed_classes: number;
  readonly enrolled_at: string;
  readonly last_heartbeat_at: string | null;
  readonly executions: readonly {
    readonly account: string;
    readonly job: string;
    readonly fence: number;
    readonly running_ms: number;
  }[];
}

/** One runner with all that it says of itself. */
export interface RunnerDetails extends RunnerView {
  /** Of the runner itself; null before it has described itself. */
  readonly version: string | null;
  readonly models: readonly string[];
  readonly closed: readonly ClosedClasses[];
}

export interface FleetStatus {
  readonly runners: Readonly<Record<RunnerState, number>>;
  /** Of all runners that are there. */
  readonly seats: number;
  readonly seats_taken: number;
  readonly tickets_waiting: number;
  /** Accounts with tickets or seats at this fleet. */
  readonly accounts: number;
  /** Accounts that get one seat at a time because their graphs killed engines. */
  readonly limited_accounts: readonly string[];
  /** Seats that one account of each tier may have while others wait. */
  readonly caps: Readonly<Record<Tier, number>>;
}

/** A runner drains by its own decision too. */
const stateOf = ({ entry, draining }: Runner): RunnerState =>
  draining && entry.state === "active" ? "draining" : entry.state;

const timeOf = (ms: number): string => new Date(ms).toISOString();

function viewRunner(runner: Runner): RunnerView {
  const { runner_id, name, url, boot, max_seats, description, enrolled_at } = runner.entry;
  const { probation, reason, suspended_until } = runner.health;
  return {
    runner_id,
    name,
    url,
    state: stateOf(runner),
    boot,
    seats: seatsOf(runner),
    max_seats,
    seats_taken: seatsTaken(runner),
    suspended: probation && reason ? { reason, until: timeOf(suspended_until) } : null,
    engine: description?.engine ?? null,
    gpu: description?.gpu ?? null,
    classes: description?.classes.length ?? 0,
    closed_classes: countClosed(description?.closed),
    enrolled_at: timeOf(enrolled_at),
    last_heartbeat_at: runner.beat ? timeOf(runner.seen_at) : null,
    executions: [...runner.listed.values()].map(({ execution, running_ms }) => ({ ...execution, running_ms })),
  };
}

export const viewRunners = ({ runners }: PoolState): RunnerView[] => [...runners.values()].map(viewRunner);

/** Null: there is no such runner. */
export function viewDetails({ runners }: PoolState, runner_id: string): RunnerDetails | null {
  const runner = runners.get(runner_id);
  if (!runner) return null;
  const { version = null, models = [], closed = [] } = runner.entry.description ?? {};
  return { ...viewRunner(runner), version, models, closed };
}

export function viewFleet({ runners, seats, caps }: PoolState): FleetStatus {
  const states = { active: 0, draining: 0, stopped: 0, lost: 0, revoked: 0 };
  for (const runner of runners.values()) states[stateOf(runner)]++;
  const clients = [...seats.clients.values()];
  const { free, pro, enterprise } = seats.active;
  return {
    runners: states,
    seats: runners.capacity,
    seats_taken: seats.seated.size,
    tickets_waiting: clients.reduce((sum, { tickets }) => sum + tickets.size, 0),
    accounts: free + pro + enterprise,
    limited_accounts: clients.filter(({ limited }) => limited).map(({ account }) => account),
    caps: caps.account,
  };
}
