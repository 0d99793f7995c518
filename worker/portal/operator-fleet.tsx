import { Hono } from "hono";
import * as v from "valibot";
import { DEFAULT_POOL, PoolName, RunnerId } from "../../schemas/ids.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { configOf } from "../config.ts";
import { listPools } from "../directory/directory.ts";
import { together } from "../fleet/history.ts";
import type { FleetStatus, RunnerView } from "../fleet/views.ts";
import { drainRunner, makeEnrolToken, revokeRunner } from "../operator/actions.ts";
import { enrolToken } from "../runners/enrol.ts";
import { fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page } from "./layout.tsx";
import { byOf, confirm, Fields, once, SENT_BEFORE, tokenOfForm } from "./operator-form.tsx";
import { Plots } from "./operator-plots.tsx";
import { type Column, Table } from "./operator-table.tsx";
import { duration, query, Secret, State, Time } from "./words.tsx";

/** The runners of a pool: who they are, what they do, and taking them in and out. */

/** Rows of one page; the script lists all. */
const MOST_RUNNERS = 200;
/** Executions of a runner that are shown before the rest is folded away. */
const MOST_JOBS = 4;
const MAX_SEATS = 64;

const poolText = (text: string | undefined): string => (text === undefined || text === "" ? DEFAULT_POOL : text);

function poolOf(text: string | undefined): string {
  const pool = poolText(text);
  if (v.is(PoolName, pool)) return pool;
  throw new PortalError(
    400,
    "No such pool",
    "A pool's name has 1 to 32 lower case letters, digits and hyphens, and begins with a letter.",
  );
}

const fleetPath = (pool: string, done?: string): string => `/portal/operator${query({ pool, done })}`;

const NOTICES: Readonly<Record<string, string>> = {
  drained: "The runner drains: it gets nothing new, and its process ends when its jobs have.",
  revoked: "The runner is revoked. What it held runs elsewhere.",
};

const SUSPENDED = {
  unreachable: "can't be reached",
  engine_faults: "its engine fails",
} as const;

function Tile({ name, value, more }: { name: string; value: string | number; more?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value} {more === undefined ? null : <span class="hint">{more}</span>}
      </dd>
    </div>
  );
}

function Tiles({ status, started }: { status: FleetStatus; started: number }) {
  const { active, draining, lost, stopped } = status.runners;
  const others = [
    draining > 0 ? `${draining} draining` : "",
    lost > 0 ? `${lost} lost` : "",
    stopped > 0 ? `${stopped} stopped` : "",
  ].filter((one) => one !== "");
  return (
    <dl class="tiles">
      <Tile name="Active runners" value={active} {...(others.length > 0 ? { more: others.join(", ") } : {})} />
      <Tile name="Seats taken" value={`${status.seats_taken} of ${status.seats}`} />
      <Tile name="Waiting tickets" value={status.tickets_waiting} />
      <Tile name="Accounts at work" value={status.accounts} />
      <Tile name="Started in the last hour" value={started} />
    </dl>
  );
}

function Running({ executions }: Pick<RunnerView, "executions">) {
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

const gib = (bytes: number): string => `${Math.round(bytes / 1024 ** 3)} GiB`;

function Heartbeat({ at, now }: { at: string | null; now: number }) {
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

const COLUMNS: readonly Column[] = [
  { name: "Runner", kind: "long" },
  { name: "State" },
  { name: "Seats taken", kind: "number" },
  { name: "Runs" },
  { name: "Last heartbeat" },
  { name: "GPU and engine", kind: "long" },
  { name: "Actions", kind: "actions" },
];

function cellsOf(runner: RunnerView, pool: string, now: number) {
  const { runner_id, name, state, suspended, engine, gpu } = runner;
  const path = `/portal/operator/runners/${runner_id}`;
  return [
    <>
      {name}
      <br />
      <span class="hint id">{runner_id}</span>
    </>,
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
    </>,
    `${runner.seats_taken} of ${runner.seats}`,
    <Running executions={runner.executions} />,
    <Heartbeat at={runner.last_heartbeat_at} now={now} />,
    <>
      {gpu === null ? "no GPU" : `${gpu.name}, ${gib(gpu.memory_bytes)}`}
      <br />
      <span class="hint">{engine === null ? "not described yet" : `${engine.name} ${engine.version}`}</span>
    </>,
    <>
      {state === "active" || state === "lost" ? (
        <a class="button quiet" href={`${path}/drain${query({ pool })}`} aria-label={`Drain ${name}`}>
          Drain
        </a>
      ) : null}
      <a class="button quiet" href={`${path}/revoke${query({ pool })}`} aria-label={`Revoke ${name}`}>
        Revoke
      </a>
    </>,
  ];
}

function Runners({ runners, pool, now }: { runners: readonly RunnerView[]; pool: string; now: number }) {
  if (runners.length === 0)
    return (
      <p class="empty">
        No runner is enrolled in the pool {pool}. Make a token below, and start a runner with it on a machine with a
        GPU.
      </p>
    );
  const rest = runners.length - MOST_RUNNERS;
  return (
    <>
      <Table columns={COLUMNS} rows={runners.slice(0, MOST_RUNNERS).map((runner) => cellsOf(runner, pool, now))} />
      {rest > 0 ? (
        <p class="hint">
          And {rest} more: <code>npm run --silent admin -- runners list --pool {pool}</code> lists all.
        </p>
      ) : null}
    </>
  );
}

function Revoked({ runners }: { runners: readonly RunnerView[] }) {
  if (runners.length === 0) return null;
  return (
    <details>
      <summary>{runners.length === 1 ? "One revoked runner" : `${runners.length} revoked runners`}</summary>
      <ul class="plain">
        {runners.slice(0, MOST_RUNNERS).map(({ name, runner_id, enrolled_at }) => (
          <li>
            {name} <code>{runner_id}</code>, enrolled <Time at={enrolled_at} />
          </li>
        ))}
      </ul>
    </details>
  );
}

const ORDER: readonly string[] = ["lost", "active", "draining", "stopped", "revoked"];

const sorted = (runners: readonly RunnerView[]): RunnerView[] =>
  [...runners].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.name.localeCompare(b.name, "en"));

/** What operators ask of a pool. One that nobody has used yet is an empty one. */
const fleetOf = (c: PortalContext, pool: string) => c.env.FLEET.getByName(pool);

async function fleetPage(c: PortalContext) {
  const pool = poolOf(c.req.query("pool"));
  const fleet = fleetOf(c, pool);
  const [status, runners, history, pools] = await Promise.all([
    fleet.status(),
    fleet.runners(),
    fleet.history(),
    listPools(c.env.DIRECTORY),
  ]);
  const now = Date.now();
  const known = [...new Set([DEFAULT_POOL, ...configOf(c.env).pools, ...pools, pool])];
  const there = sorted(runners.filter(({ state }) => state !== "revoked"));
  const notice = NOTICES[c.req.query("done") ?? ""];
  return page(c, {
    title: "Fleet",
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <form class="row" method="get" action="/portal/operator">
          <label>
            Pool
            <input name="pool" value={pool} list="pools" required maxlength={32} autocomplete="off" />
          </label>
          <datalist id="pools">
            {known.map((one) => (
              <option value={one} />
            ))}
          </datalist>
          <button class="quiet" type="submit">
            Show
          </button>
        </form>
        <div id="fleet" data-live={`/portal/operator/live${query({ pool })}`}>
          <Tiles status={status} started={together(history.hour).started} />
          {status.limited_accounts.length === 0 ? null : (
            <Notice kind="warning">
              One seat at a time, because their graphs crashed engines:{" "}
              {status.limited_accounts.map((account) => (
                <>
                  <a href={`/portal/operator/accounts/${account}`}>{account}</a>{" "}
                </>
              ))}
            </Notice>
          )}
          <Runners runners={there} pool={pool} now={now} />
        </div>
        <Revoked runners={sorted(runners.filter(({ state }) => state === "revoked"))} />
        <h2>Add a runner</h2>
        <form class="row" method="post" action="/portal/operator/enrol">
          <Fields session={sessionOf(c)} />
          <label>
            Its pool
            <input name="pool" value={pool} list="pools" required maxlength={32} autocomplete="off" />
          </label>
          <label>
            Most seats
            <input name="seats" type="number" min={1} max={MAX_SEATS} value="1" required />
          </label>
          <button type="submit">Make an enrolment token</button>
        </form>
        <p class="hint">
          A seat is one execution at a time. With ComfyUI a machine has a seat for each of its servers.
        </p>
        <h2>Throughput and waiting time</h2>
        <Plots history={history} />
      </>
    ),
  });
}

async function enrol(c: PortalContext) {
  const { pool: wanted, seats } = await fieldsOf(c);
  const pool = poolOf(wanted);
  const max_seats = Number(seats);
  if (!Number.isInteger(max_seats) || max_seats < 1 || max_seats > MAX_SEATS)
    throw new PortalError(400, "Seats?", `A runner has 1 to ${MAX_SEATS} seats.`);
  const by = await byOf(c);
  const random = await tokenOfForm(c, `enrolment ${pool} ${max_seats}`, by.form);
  const token = enrolToken(pool, random);
  const made = await once(makeEnrolToken(c.env, by, { pool, max_seats, random }));
  if (!made && !(await fleetOf(c, pool).token(await sha256(token), ""))) throw SENT_BEFORE;
  const command = `node_modules/.bin/node gpu-runner/main.ts --edge ${configOf(c.env).baseUrl} --url https://RUNNER.EXAMPLE.NET --seats ${max_seats} --token ${token}`;
  return page(c, {
    title: "A new runner",
    status: 201,
    children: (
      <>
        <Notice kind="warning">
          Copy the token now. It is shown this once, is good for an hour and enrols one runner in the pool {pool}.
        </Notice>
        <Secret id="token" value={token} label="The enrolment token" />
        <p>
          On the machine with the GPU, in this project's folder, with the address at which this service reaches the
          runner in the place of <code>https://RUNNER.EXAMPLE.NET</code>:
        </p>
        <Secret id="command" value={command} label="The command that starts the runner" />
        <p>The runner appears in the fleet as soon as it has proven that it answers at its address.</p>
        <p>
          <a class="button" href={fleetPath(pool)}>
            To the fleet
          </a>
        </p>
      </>
    ),
  });
}

const NO_SUCH_RUNNER = new PortalError(404, "No such runner", "This pool has no such runner.");

async function runnerNamed(c: PortalContext, pool: string): Promise<RunnerView> {
  const runners = await fleetOf(c, pool).runners();
  const runner = runners.find(({ runner_id }) => runner_id === c.req.param("runner"));
  if (!runner) throw NO_SUCH_RUNNER;
  return runner;
}

const jobs = ({ executions: { length } }: RunnerView): string =>
  length === 0 ? "nothing" : length === 1 ? "one job" : `${length} jobs`;

async function act(c: PortalContext, deed: typeof drainRunner, done: string) {
  const pool = poolOf((await fieldsOf(c)).pool);
  const runner = c.req.param("runner");
  if (!v.is(RunnerId, runner)) throw NO_SUCH_RUNNER;
  const outcome = await once(deed(c.env, await byOf(c), pool, runner));
  if (outcome?.ok === false) throw NO_SUCH_RUNNER;
  return c.redirect(fleetPath(pool, done), 303);
}

export const fleetPages = new Hono<PortalEnv>()
  .get("/", fleetPage)
  .post("/enrol", enrol)
  .get("/runners/:runner/drain", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner = await runnerNamed(c, pool);
    return confirm(c, {
      title: `Drain “${runner.name}”?`,
      action: `/portal/operator/runners/${runner.runner_id}/drain`,
      fields: { pool },
      button: "Drain the runner",
      back: fleetPath(pool),
      children: (
        <p>
          It gets nothing new, and runs {jobs(runner)} now. What is not done within its time of grace goes back to the
          queue; then its process ends. Start it again to have it back.
        </p>
      ),
    });
  })
  .post("/runners/:runner/drain", (c) => act(c, drainRunner, "drained"))
  .get("/runners/:runner/revoke", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner = await runnerNamed(c, pool);
    return confirm(c, {
      title: `Revoke “${runner.name}”?`,
      action: `/portal/operator/runners/${runner.runner_id}/revoke`,
      fields: { pool },
      button: "Revoke the runner",
      back: fleetPath(pool),
      children: (
        <p>
          At once and for good. It runs {jobs(runner)} now: all that it holds starts again elsewhere, and nothing that
          it says counts any more. To come back it needs a new token.
        </p>
      ),
    });
  })
  .post("/runners/:runner/revoke", (c) => act(c, revokeRunner, "revoked"));
