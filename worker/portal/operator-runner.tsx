import { Hono } from "hono";
import * as v from "valibot";
import { RunnerId } from "../../schemas/ids.ts";
import type { ClosedClasses } from "../../schemas/runner-protocol.ts";
import type { RunnerDetails } from "../fleet/views.ts";
import { drainRunner, revokeRunner } from "../operator/actions.ts";
import { fieldsOf, type PortalContext, type PortalEnv, PortalError } from "./guard.ts";
import { page } from "./layout.tsx";
import { byOf, confirm, once } from "./operator-form.tsx";
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
import { Time } from "./words.tsx";

/** One runner: what it can do, what it keeps closed, and taking it out of service. */

/** Model files that the page names; a machine may have thousands. */
const MOST_MODELS = 1_000;

/** Names that strangers chose, folded away. */
function Names({ names, summary }: { names: readonly string[]; summary: string }) {
  if (names.length === 0) return summary;
  return (
    <details>
      <summary>{summary}</summary>
      <ul class="names">
        {names.map((name) => (
          <li>{name}</li>
        ))}
      </ul>
    </details>
  );
}

const CLOSED: readonly Column[] = [
  { name: "Group", kind: "long" },
  { name: "Why closed", kind: "long" },
  { name: "Opened by", kind: "long" },
  { name: "Classes", kind: "long" },
];

const closedCells = ({ group, reason, opened_by, classes }: ClosedClasses) => [
  group,
  reason,
  opened_by === undefined ? <span class="hint">nothing but opening everything</span> : <code>{opened_by}</code>,
  <Names names={classes} summary={counted(classes.length, "class", "classes")} />,
];

function Closed({ closed, closed_classes }: RunnerDetails) {
  if (closed.length === 0) return <p class="empty">Its engine keeps no node class closed.</p>;
  const groups = closed.length === 1 ? "one group" : `${closed.length} groups`;
  return (
    <>
      <p>
        {counted(closed_classes, "node class", "node classes")} in {groups}: installed on this machine, and not run for
        anybody. Jobs that name them go to other runners, or are refused. To open a group, give its setting to the
        runner and start it anew.
      </p>
      <Table columns={CLOSED} rows={closed.map(closedCells)} />
    </>
  );
}

function Models({ models }: RunnerDetails) {
  if (models.length === 0) return <p class="empty">Its engine names no model file.</p>;
  const rest = models.length - MOST_MODELS;
  return (
    <>
      <Names names={models.slice(0, MOST_MODELS)} summary={counted(models.length, "model file", "model files")} />
      {rest > 0 ? <p class="hint">{counted(rest, "more is", "more are")} not listed here.</p> : null}
    </>
  );
}

const NO_SUCH_RUNNER = new PortalError(404, "No such runner", "This pool has no such runner.");

async function runnerNamed(c: PortalContext, pool: string): Promise<RunnerDetails> {
  const runner_id = c.req.param("runner");
  const runner = v.is(RunnerId, runner_id) ? await fleetOf(c, pool).runner(runner_id) : null;
  if (!runner) throw NO_SUCH_RUNNER;
  return runner;
}

async function runnerPage(c: PortalContext) {
  const pool = poolOf(c.req.query("pool"));
  const runner = await runnerNamed(c, pool);
  const { name, runner_id, url, version, classes, models, closed_classes } = runner;
  return page(c, {
    title: `Runner ${name}`,
    children: (
      <>
        <p>
          <code>{runner_id}</code> in the pool <a href={fleetPath(pool)}>{pool}</a>, at <code>{url}</code>, enrolled{" "}
          <Time at={runner.enrolled_at} />
        </p>
        <dl class="tiles">
          <Tile name="State" value={<Standing of={runner} />} />
          <Tile name="Seats taken" value={<Seats of={runner} most />} />
          <Tile name="Last heartbeat" value={<Heartbeat at={runner.last_heartbeat_at} now={Date.now()} />} />
          <Tile
            name="Engine"
            value={engineWords(runner)}
            {...(version === null ? {} : { more: `runner ${version}` })}
          />
          <Tile name="GPU" value={gpuWords(runner)} />
          <Tile
            name="Node classes"
            value={classes.toLocaleString("en")}
            {...(closed_classes > 0 ? { more: `and ${closed_classes.toLocaleString("en")} closed` } : {})}
          />
          <Tile name="Model files" value={models.length.toLocaleString("en")} />
        </dl>
        <p class="row">
          <Actions of={runner} pool={pool} />
        </p>
        <h2>Runs</h2>
        <Running executions={runner.executions} />
        <h2>Closed node classes</h2>
        <Closed {...runner} />
        <h2>Models</h2>
        <Models {...runner} />
      </>
    ),
  });
}

const jobs = ({ executions: { length } }: RunnerDetails): string =>
  length === 0 ? "nothing" : length === 1 ? "one job" : `${length} jobs`;

async function act(c: PortalContext, deed: typeof drainRunner, done: string) {
  const pool = poolOf((await fieldsOf(c)).pool);
  const runner = c.req.param("runner");
  if (!v.is(RunnerId, runner)) throw NO_SUCH_RUNNER;
  const outcome = await once(deed(c.env, await byOf(c), pool, runner));
  if (outcome?.ok === false) throw NO_SUCH_RUNNER;
  return c.redirect(fleetPath(pool, done), 303);
}

export const runnerPages = new Hono<PortalEnv>()
  .get("/:runner", runnerPage)
  .get("/:runner/drain", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner = await runnerNamed(c, pool);
    return confirm(c, {
      title: `Drain “${runner.name}”?`,
      action: `/portal/operator/runners/${runner.runner_id}/drain`,
      fields: { pool },
      button: "Drain the runner",
      back: runnerPath(pool, runner.runner_id),
      children: (
        <p>
          It gets nothing new, and runs {jobs(runner)} now. What is not done within its time of grace goes back to the
          queue; then its process ends. Start it again to have it back.
        </p>
      ),
    });
  })
  .post("/:runner/drain", (c) => act(c, drainRunner, "drained"))
  .get("/:runner/revoke", async (c) => {
    const pool = poolOf(c.req.query("pool"));
    const runner = await runnerNamed(c, pool);
    return confirm(c, {
      title: `Revoke “${runner.name}”?`,
      action: `/portal/operator/runners/${runner.runner_id}/revoke`,
      fields: { pool },
      button: "Revoke the runner",
      back: runnerPath(pool, runner.runner_id),
      children: (
        <p>
          At once and for good. It runs {jobs(runner)} now: all that it holds starts again elsewhere, and nothing that
          it says counts any more. To come back it needs a new token.
        </p>
      ),
    });
  })
  .post("/:runner/revoke", (c) => act(c, revokeRunner, "revoked"));
