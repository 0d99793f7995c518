import type { Child } from "hono/jsx";
import type { RunnerView } from "../fleet/views.ts";
import { runnerPath } from "./operator-pool.ts";
import { duration, State, Time } from "./words.tsx";

/** What the fleet's page and a runner's own say of a runner in the same way. */

/** Executions of a runner that are shown before the rest is folded away. */
const MOST_JOBS = 4;

const SUSPENDED = {
  unreachable: "can't be reached",
  engine_faults: "its engine fails",
} as const;

export const counted = (count: number, one: string, many: string): string =>
  count === 1 ? `1 ${one}` : `${count.toLocaleString("en")} ${many}`;

export function Tile({ name, value, more }: { name: string; value: Child; more?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value} {more === undefined ? null : <span class="hint">{more}</span>}
      </dd>
    </div>
  );
}

export function Standing({ of: { state, suspended } }: { of: RunnerView }) {
  return (
    <>
      <State of={state} />
      {suspended === null ? null : (
        <>
          <br />
          <span class="hint">
            suspended, {SUSPENDED[suspended.reason]}; tried again <Time at={suspended.until} />
          </span>
        </>
      )}
    </>
  );
}

/** Its engine may have fewer seats for a while than the runner is enrolled for, and none. */
const offersNone = ({ seats, state }: RunnerView): boolean =>
  seats === 0 && (state === "active" || state === "draining");

/** @param most the most that it may have are said too */
export function Seats({ of: runner, most = false }: { of: RunnerView; most?: boolean }) {
  const more = [
    ...(offersNone(runner) ? ["offers none now"] : []),
    ...(most && runner.seats < runner.max_seats ? [`at most ${runner.max_seats}`] : []),
  ];
  return (
    <>
      {`${runner.seats_taken} of ${runner.seats}`}
      {more.length === 0 ? null : (
        <>
          <br />
          <span class="hint">{more.join(", ")}</span>
        </>
      )}
    </>
  );
}

export function Running({ executions }: Pick<RunnerView, "executions">) {
  if (executions.length === 0) return <span class="hint">nothing</span>;
  const line = ({ account, job, running_ms }: RunnerView["executions"][number]) => (
    <li>
      <a href={`/portal/operator/accounts/${account}`} title={`Job ${job} of account ${account}`}>
        <code>{`${job.slice(0, 8)}…${job.slice(-6)}`}</code>
      </a>{" "}
      {duration(running_ms)}
    </li>
  );
  const rest = executions.slice(MOST_JOBS);
  return (
    <ul class="plain">
      {executions.slice(0, MOST_JOBS).map(line)}
      {rest.length === 0 ? null : <li>and {rest.length} more</li>}
    </ul>
  );
}

export function Heartbeat({ at, now }: { at: string | null; now: number }) {
  if (at === null) return <span class="hint">not heard yet</span>;
  const ago = now - Date.parse(at);
  return (
    <>
      {ago < 1_000 ? "just now" : `${duration(ago)} ago`}
      <br />
      <span class="hint">
        <Time at={at} />
      </span>
    </>
  );
}

const gib = (bytes: number): string => `${Math.round(bytes / 1024 ** 3)} GiB`;

export const gpuWords = ({ gpu }: RunnerView): string =>
  gpu === null ? "no GPU" : `${gpu.name}, ${gib(gpu.memory_bytes)}`;

export const engineWords = ({ engine }: RunnerView): string =>
  engine === null ? "not described yet" : `${engine.name} ${engine.version}`;

export function Actions({ of: { runner_id, name, state }, pool }: { of: RunnerView; pool: string }) {
  return (
    <>
      {state === "active" || state === "lost" ? (
        <a class="button quiet" href={runnerPath(pool, runner_id, "drain")} aria-label={`Drain ${name}`}>
          Drain
        </a>
      ) : null}
      {state === "revoked" ? null : (
        <a class="button quiet" href={runnerPath(pool, runner_id, "revoke")} aria-label={`Revoke ${name}`}>
          Revoke
        </a>
      )}
    </>
  );
}
