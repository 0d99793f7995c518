import { Hono } from "hono";
import * as v from "valibot";
import { JobId } from "../../schemas/ids.ts";
import { JobStatus } from "../../schemas/job.ts";
import type { OwnerJob, OwnerKey } from "../account/owner-types.ts";
import { askAccount, type PortalContext, type PortalEnv, PortalError } from "./guard.ts";
import { jobPage } from "./job.tsx";
import { page } from "./layout.tsx";
import { duration, JobLink, Pages, query, State, Time } from "./words.tsx";

/** The account's jobs: a list that follows what happens, and one job in full. */

const PAGE = 50;

const Query = v.object({
  status: v.fallback(v.optional(JobStatus), undefined),
  key: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^[\w-]{43}$/))), undefined),
  before: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))), undefined),
});

function progressOf({ record }: OwnerJob) {
  const { status, progress, queue_position, execution_time_ms, error } = record;
  if (status === "running" && progress)
    return (
      <>
        <progress max={1} value={progress.value} aria-label="Progress" /> {Math.round(progress.value * 100)} %
      </>
    );
  if (queue_position !== undefined) return `number ${queue_position} in its queue`;
  if (status === "queued") return "waits for a runner";
  if (execution_time_ms !== undefined) return `${duration(execution_time_ms)} in the engine`;
  return error?.message ?? "";
}

function Row({ job, keys }: { job: OwnerJob; keys: ReadonlyMap<string, OwnerKey> }) {
  const { record } = job;
  const key = keys.get(job.key_hash);
  return (
    <tr>
      <td>
        <JobLink id={record.job_id} />
      </td>
      <td>
        <State of={record.status} />
      </td>
      <td>{progressOf(job)}</td>
      <td class="tight">
        <Time at={record.created_at} />
      </td>
      <td class="name" title={key?.name}>
        {key?.name ?? ""}
      </td>
      <td>{record.webhook ? <State of={record.webhook.status} /> : ""}</td>
    </tr>
  );
}

async function list(c: PortalContext) {
  const { status, key, before } = v.parse(Query, c.req.query());
  const filter = {
    ...(status === undefined ? {} : { status }),
    ...(key === undefined ? {} : { key_hash: key }),
    ...(before === undefined ? {} : { before }),
  };
  const [{ jobs, has_more }, keys] = await Promise.all([
    askAccount(c, (account, epoch) => account.ownerJobs(epoch, filter, PAGE)),
    askAccount(c, (account, epoch) => account.ownerKeys(epoch)),
  ]);
  const byHash = new Map(keys.map((one) => [one.key_hash, one]));
  const last = jobs.at(-1);
  const filtered = status !== undefined || key !== undefined;
  return page(c, {
    title: "Jobs",
    children: (
      <>
        <form class="row" method="get" action="/portal/jobs">
          <label>
            Status
            <select name="status">
              <option value="">all</option>
              {JobStatus.options.map((one) => (
                <option value={one} selected={one === status}>
                  {one}
                </option>
              ))}
            </select>
          </label>
          <label>
            Key
            <select name="key">
              <option value="">all</option>
              {keys.map((one) => (
                <option value={one.key_hash} selected={one.key_hash === key}>
                  {`${one.name.slice(0, 40)} (${one.prefix}…)`}
                </option>
              ))}
            </select>
          </label>
          <button class="quiet" type="submit">
            Show
          </button>
        </form>
        <div id="jobs" data-live={before === undefined ? "/portal/live" : undefined}>
          {jobs.length === 0 ? (
            <p class="empty">
              {filtered ? (
                "No job of this kind."
              ) : (
                <>
                  There is no job yet. <a href="/portal/keys">Create a key</a>, then submit a workflow; it appears here
                  at once.
                </>
              )}
            </p>
          ) : (
            <div class="table">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Job</th>
                    <th scope="col">Status</th>
                    <th scope="col">How it goes</th>
                    <th scope="col">Submitted</th>
                    <th scope="col">Key</th>
                    <th scope="col">Webhook</th>
                  </tr>
                </thead>
                <tbody>
                  {jobs.map((job) => (
                    <Row job={job} keys={byHash} />
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </div>
        <Pages
          first={before === undefined ? undefined : `/portal/jobs${query({ status, key })}`}
          next={has_more && last ? `/portal/jobs${query({ status, key, before: last.seq })}` : undefined}
        />
      </>
    ),
  });
}

export const NO_SUCH_JOB = new PortalError(
  404,
  "No such job",
  "This account has no such job. It may have expired or been deleted.",
);

function jobIdOf(c: PortalContext): string {
  const job_id = c.req.param("job_id");
  if (!v.is(JobId, job_id)) throw NO_SUCH_JOB;
  return job_id;
}

export const jobPages = new Hono<PortalEnv>()
  .get("/", list)
  .get("/:job_id", async (c) => {
    const job_id = jobIdOf(c);
    const detail = await askAccount(c, (account, epoch) => account.ownerJob(epoch, job_id));
    if (!detail) throw NO_SUCH_JOB;
    return jobPage(c, detail);
  })
  .post("/:job_id/cancel", async (c) => {
    const job_id = jobIdOf(c);
    const view = await askAccount(c, (account, epoch) => account.ownerCancel(epoch, job_id));
    if (!view) throw NO_SUCH_JOB;
    return c.redirect(`/portal/jobs/${job_id}`, 303);
  });
