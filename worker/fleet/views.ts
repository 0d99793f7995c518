import { seatsTaken } from "./matching.ts";
import type { Pool } from "./pool.ts";
import type { RosterEntry } from "./roster.ts";

/** The fleet as operators see it. */

export interface RunnerView {
  readonly runner_id: string;
  readonly name: string;
  readonly url: string;
  readonly state: RosterEntry["state"];
  readonly boot: number;
  readonly seats: number;
  readonly seats_taken: number;
  readonly suspended: boolean;
  readonly engine: { readonly name: string; readonly version: string } | null;
  readonly gpu: { readonly name: string; readonly memory_bytes: number } | null;
  readonly classes: number;
  readonly enrolled_at: string;
  readonly last_heartbeat_at: string | null;
  readonly executions: readonly {
    readonly account: string;
    readonly job: string;
    readonly fence: number;
    readonly running_ms: number;
  }[];
}

export interface FleetStatus {
  readonly runners: Readonly<Record<RosterEntry["state"], number>>;
  readonly seats: number;
  readonly seats_taken: number;
  readonly tickets_waiting: number;
  /** Accounts with tickets or seats at this fleet. */
  readonly accounts: number;
}

export function viewRunners(pool: Pool, now: number): RunnerView[] {
  return [...pool.runners.values()].map((runner) => {
    const { runner_id, name, url, state, boot, max_seats, description, enrolled_at } = runner.entry;
    return {
      runner_id,
      name,
      url,
      state: runner.draining && state === "active" ? "draining" : state,
      boot,
      seats: Math.min(runner.seats, max_seats),
      seats_taken: seatsTaken(runner),
      suspended: now < runner.suspended_until,
      engine: description?.engine ?? null,
      gpu: description?.gpu ?? null,
      classes: description?.classes.length ?? 0,
      enrolled_at: new Date(enrolled_at).toISOString(),
      last_heartbeat_at: runner.seen_at === 0 ? null : new Date(runner.seen_at).toISOString(),
      executions: [...runner.listed.values()].map(({ execution, running_ms }) => ({ ...execution, running_ms })),
    };
  });
}

export function viewFleet(pool: Pool): FleetStatus {
  const runners = { active: 0, draining: 0, lost: 0, revoked: 0 };
  let seats = 0;
  for (const { entry, seats: offered } of pool.runners.values()) {
    runners[entry.state]++;
    if (entry.state === "active") seats += Math.min(offered, entry.max_seats);
  }
  let tickets_waiting = 0;
  for (const { tickets } of pool.seats.clients.values()) tickets_waiting += tickets.size;
  return {
    runners,
    seats,
    seats_taken: pool.seats.seated.size,
    tickets_waiting,
    accounts: pool.seats.clients.size,
  };
}
