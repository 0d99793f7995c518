import { Hono } from "hono";
import { DEFAULT_POOL } from "../../schemas/ids.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { configOf } from "../config.ts";
import { listPools } from "../directory/directory.ts";
import { together } from "../fleet/history.ts";
import type { FleetStatus, RunnerView } from "../fleet/views.ts";
import { makeEnrolToken } from "../operator/actions.ts";
import { enrolToken } from "../runners/enrol.ts";
import { fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page } from "./layout.tsx";
import { byOf, Fields, once, SENT_BEFORE, tokenOfForm } from "./operator-form.tsx";
import { Plots } from "./operator-plots.tsx";
import { fleetOf, fleetPath, poolOf, runnerPath } from "./operator-pool.ts";
import {
  Actions,
  counted,
  engineWords,
  gpuWords,
  Heartbeat,
  Running,
  Seats,
  Standing,
  Tile,
} from "./operator-runner-parts.tsx";
import { type Column, Table } from "./operator-table.tsx";
import { query, Secret, Time } from "./words.tsx";

/** The runners of a pool: who they are, what they do, and taking them in. */

/** Rows of one page; the script lists all. */
const MOST_RUNNERS = 200;
const MAX_SEATS = 64;

const NOTICES: Readonly<Record<string, string>> = {
  drained: "The runner drains: it gets nothing new, and its process ends when its jobs have.",
  revoked: "The runner is revoked. What it held runs elsewhere.",
};

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

const COLUMNS: readonly Column[] = [
  { name: "Runner", kind: "long" },
  { name: "State" },
  { name: "Seats taken", kind: "number" },
  { name: "Runs" },
  { name: "Last heartbeat" },
  { name: "GPU and engine", kind: "long" },
  { name: "Actions", kind: "actions" },
];

const cellsOf = (runner: RunnerView, pool: string, now: number) => [
  <>
    <a href={runnerPath(pool, runner.runner_id)}>{runner.name}</a>
    <br />
    <span class="hint id">{runner.runner_id}</span>
  </>,
  <Standing of={runner} />,
  <Seats of={runner} />,
  <Running executions={runner.executions} />,
  <Heartbeat at={runner.last_heartbeat_at} now={now} />,
  <>
    {gpuWords(runner)}
    <br />
    <span class="hint">{engineWords(runner)}</span>
    {runner.closed_classes === 0 ? null : (
      <>
        <br />
        <span class="hint">{counted(runner.closed_classes, "closed class", "closed classes")}</span>
      </>
    )}
  </>,
  <Actions of={runner} pool={pool} />,
];

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

export const fleetPages = new Hono<PortalEnv>().get("/", fleetPage).post("/enrol", enrol);
