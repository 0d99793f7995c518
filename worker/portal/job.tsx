import type { OwnerJobDetail } from "../account/owner-types.ts";
import { presentJob } from "../outputs/present.ts";
import { promptKey } from "../account/outbox.ts";
import { explain } from "../webhooks/explain.ts";
import { type PortalContext, sessionOf } from "./guard.ts";
import { Notice, page, Token } from "./layout.tsx";
import { duration, State, Time } from "./words.tsx";

/** One job: from queued to delivered, with its pictures or its error. */

interface Moment {
  readonly at: number;
  readonly what: string;
  readonly more?: string;
  readonly bad?: boolean;
}

function moments({ record, timeline, webhook }: OwnerJobDetail): Moment[] {
  const { timing, error, status } = record;
  const found: Moment[] = [{ at: timeline.created_at, what: "submitted" }];
  if (timeline.placed_at !== undefined) found.push({ at: timeline.placed_at, what: "given to a runner" });
  if (timeline.started_at !== undefined) {
    const waited = duration(timeline.started_at - timeline.created_at);
    const again =
      timeline.losses > 0
        ? `attempt ${record.attempt ?? timeline.losses + 1}: ${timeline.losses} before it did not end.`
        : "";
    found.push({ at: timeline.started_at, what: `started after ${waited}`, ...(again === "" ? {} : { more: again }) });
  }
  if (timeline.ended_at !== undefined) {
    const spent =
      timing && status === "completed"
        ? `${duration(timing.execution_ms)} in the engine, ${duration(timing.upload_ms)} to store the outputs`
        : error?.message;
    found.push({
      at: timeline.ended_at,
      what: status,
      bad: status === "failed",
      ...(spent === undefined ? {} : { more: spent }),
    });
  }
  for (const attempt of webhook?.attempts ?? [])
    found.push({
      at: attempt.at,
      what: attempt.ok ? "webhook delivered" : "webhook not delivered",
      bad: !attempt.ok,
      more: `${explain(attempt).replace(/^Delivered\. /, "")}${attempt.answer ? ` It said: “${attempt.answer.slice(0, 200)}”` : ""}`,
    });
  return found;
}

/** What is still to come, in one sentence. */
function expectation({ record, timeline, webhook }: OwnerJobDetail) {
  const { status } = record;
  if (status === "queued" && timeline.queue_until !== undefined)
    return (
      <>
        It waits for {record.queue_position === undefined ? "a runner" : "its turn"} until{" "}
        <Time at={timeline.queue_until} /> at the latest.
      </>
    );
  if (status === "running") return <>It runs.</>;
  if (webhook?.delivery?.status === "pending")
    return (
      <>
        The next attempt of its webhook is due <Time at={webhook.delivery.due_at} />.
      </>
    );
  return timeline.expires_at === undefined ? null : (
    <>
      The record and its outputs are kept until <Time at={timeline.expires_at} />.
    </>
  );
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The submission while its prompt exists, else how to read the job. */
async function curlOf(c: PortalContext, { record, prompt, options }: OwnerJobDetail): Promise<string> {
  const base = c.env.PUBLIC_BASE_URL;
  const header = '-H "Authorization: Bearer $KEY"';
  const { account = "" } = sessionOf(c);
  const stored =
    prompt.in === "r2" ? await (await c.env.STORE.get(promptKey(account, record.job_id)))?.text() : undefined;
  const text = prompt.in === "row" ? prompt.text : stored;
  if (text === undefined) return `curl -s ${base}/v1/jobs/${record.job_id} ${header}`;
  const { timeout_s, queue_timeout_s, priority } = options;
  const rest = JSON.stringify({
    timeout_s,
    queue_timeout_s,
    priority,
    ...(record.metadata === undefined ? {} : { metadata: record.metadata }),
  }).slice(1);
  return `curl -s ${base}/v1/jobs ${header} -H "Content-Type: application/json" -d ${quoted(`{"prompt":${text},${rest}`)}`;
}

/** More than this is no page any more; the API has it all. */
const SHOWN_CURL = 20_000;

export async function jobPage(c: PortalContext, detail: OwnerJobDetail) {
  const session = sessionOf(c);
  const record = await presentJob(c.env, detail);
  const { status, error, outputs, progress } = record;
  const open = status === "queued" || status === "running";
  const curl = await curlOf(c, detail);
  const files = outputs?.files ?? [];
  const notice = c.req.query("done") === "reopened" ? "The webhook is being delivered again." : undefined;
  return page(c, {
    title: `Job …${record.job_id.slice(-6)}`,
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          <code id="job-id">{record.job_id}</code>
        </p>
        <div id="job" data-live={`/portal/live?job=${record.job_id}`}>
          <div class="row">
            <State of={status} />
            {progress && status === "running" ? (
              <span>
                <progress max={1} value={progress.value} aria-label="Progress" /> {Math.round(progress.value * 100)} %
                {progress.node_class === undefined ? "" : ` · ${progress.node_class}`}
              </span>
            ) : null}
            {detail.key ? <span class="hint">by key “{detail.key.name}”</span> : null}
          </div>
          {error ? (
            <Notice kind="error">
              <strong>{error.code}</strong>
              {error.node_id === undefined ? "" : ` at node ${error.node_id}`}: {error.message}
            </Notice>
          ) : null}
          {files.length > 0 ? (
            <>
              <h2>Outputs</h2>
              <div class="pictures">
                {files
                  .filter(({ kind }) => kind === "image")
                  .map(({ url, filename }) => (
                    <a href={url} rel="noreferrer">
                      <img src={url} alt={filename} loading="lazy" />
                    </a>
                  ))}
              </div>
              <ul>
                {files.map(({ url, filename, content_type, size_bytes, node_id }) => (
                  <li>
                    <a href={url} rel="noreferrer">
                      {filename}
                    </a>{" "}
                    <span class="hint">
                      {content_type}, {size_bytes.toLocaleString("en")} bytes, node {node_id}
                    </span>
                  </li>
                ))}
              </ul>
            </>
          ) : null}
          {status === "completed" && files.length === 0 ? <p class="empty">It ended without outputs.</p> : null}
          <h2>What happened</h2>
          <ol class="timeline">
            {moments(detail).map(({ at, what, more, bad }) => (
              <li class={bad ? "bad" : ""}>
                <span class="when">
                  <Time at={at} />
                </span>
                {what}
                {more === undefined ? "" : `: ${more}`}
              </li>
            ))}
          </ol>
          <p class="hint">{expectation(detail)}</p>
          <div class="row">
            {open ? (
              <form method="post" action={`/portal/jobs/${record.job_id}/cancel`}>
                <Token session={session} />
                <button class="danger" type="submit">
                  Cancel the job
                </button>
              </form>
            ) : null}
            {detail.webhook?.delivery && detail.webhook.delivery.status !== "pending" ? (
              <form method="post" action="/portal/deliveries/redeliver">
                <Token session={session} />
                <input type="hidden" name="job" value={record.job_id} />
                <input type="hidden" name="request" value={`${record.job_id}.${detail.webhook.delivery.round}`} />
                <input type="hidden" name="back" value={`/portal/jobs/${record.job_id}`} />
                <button class="quiet" type="submit">
                  Deliver the webhook again
                </button>
              </form>
            ) : null}
          </div>
        </div>
        <h2>By the API</h2>
        {curl.length > SHOWN_CURL ? (
          <p class="hint">The workflow is too large to be shown here.</p>
        ) : (
          <>
            <p class="hint">
              {curl.includes(" -d ")
                ? "Submits the same job again, without its webhook:"
                : "Its workflow is not kept once it has ended. Reads the record:"}
            </p>
            <pre tabindex={0} id="curl">
              {curl}
            </pre>
            <button type="button" class="quiet" data-copy="curl" hidden>
              Copy
            </button>
          </>
        )}
        {record.metadata === undefined ? null : (
          <>
            <h2>Metadata</h2>
            <pre tabindex={0}>{JSON.stringify(record.metadata, null, 2)}</pre>
          </>
        )}
      </>
    ),
  });
}
