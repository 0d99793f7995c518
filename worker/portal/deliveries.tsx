import { Hono } from "hono";
import * as v from "valibot";
import type { OwnerDelivery, OwnerRedeliver, OwnerRedeliverFailed } from "../account/owner-types.ts";
import { askAccount, fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page, Token } from "./layout.tsx";
import { failureWords, JobLink, Pages, query, State, Time } from "./words.tsx";

/** What became of the account's webhooks (contract section 5). */

const PAGE = 50;
/** Failed deliveries that one press of the button begins again. */
const AT_ONCE = 100;

const DeliveryState = v.picklist(["pending", "delivered", "failed"]);

const Query = v.object({
  state: v.fallback(v.optional(DeliveryState), undefined),
  before: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))), undefined),
});

function outcome({ last_failure, last_status, state, attempts }: OwnerDelivery): string {
  if (last_failure !== undefined) return failureWords(last_failure, last_status);
  if (state === "delivered") return `answered ${last_status ?? "2xx"}`;
  return attempts === 0 ? "not tried yet" : "";
}

function Row({ row, csrf, back }: { row: OwnerDelivery; csrf: string; back: string }) {
  return (
    <tr>
      <td>
        <JobLink id={row.job_id} />
      </td>
      <td>
        <State of={row.job_status} />
      </td>
      <td>
        <State of={row.state} />
      </td>
      <td>{outcome(row)}</td>
      <td class="number">{row.attempts}</td>
      <td class="tight">{row.last_attempt_at === undefined ? "" : <Time at={row.last_attempt_at} />}</td>
      <td>{row.target}</td>
      <td>
        {row.state === "pending" ? null : (
          <form method="post" action="/portal/deliveries/redeliver">
            <input type="hidden" name="csrf" value={csrf} />
            <input type="hidden" name="job" value={row.job_id} />
            <input type="hidden" name="request" value={`${row.job_id}.${row.round}`} />
            <input type="hidden" name="back" value={back} />
            <button class="quiet" type="submit" aria-label={`Deliver again: job ${row.job_id}`}>
              Deliver again
            </button>
          </form>
        )}
      </td>
    </tr>
  );
}

const NOTICES: Readonly<Record<string, string>> = {
  reopened: "It is being delivered again.",
  not_redeliverable: "There was nothing to deliver again: it is being delivered right now.",
};

function begunNotice(begun: string | undefined, left: string | undefined): string | undefined {
  if (begun === undefined) return undefined;
  const rest = Number(left) > 0 ? ` ${Number(left)} failed ones are left; press again in a moment.` : "";
  return Number(begun) === 0
    ? "There was no failed delivery."
    : `${Number(begun)} failed deliveries are being made again.${rest}`;
}

async function list(c: PortalContext) {
  const session = sessionOf(c);
  const { state, before } = v.parse(Query, c.req.query());
  const filter = { ...(state === undefined ? {} : { state }), ...(before === undefined ? {} : { before }) };
  const { deliveries, has_more } = await askAccount(c, (account, epoch) =>
    account.ownerDeliveries(epoch, filter, PAGE),
  );
  const notice = NOTICES[c.req.query("done") ?? ""] ?? begunNotice(c.req.query("begun"), c.req.query("left"));
  const last = deliveries.at(-1);
  const here = `/portal/deliveries${query({ state })}`;
  return page(c, {
    title: "Deliveries",
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          Webhooks of the jobs that were submitted with <code>webhook_url</code>, the latest first. Each is tried four
          times within 36 seconds; a job's page has the log of every attempt.
        </p>
        <div class="row">
          <form class="row" method="get" action="/portal/deliveries">
            <label>
              State
              <select name="state">
                <option value="">all</option>
                {DeliveryState.options.map((one) => (
                  <option value={one} selected={one === state}>
                    {one}
                  </option>
                ))}
              </select>
            </label>
            <button class="quiet" type="submit">
              Show
            </button>
          </form>
          <form class="row" method="post" action="/portal/deliveries/redeliver-failed">
            <Token session={session} />
            <input type="hidden" name="request" value={crypto.randomUUID()} />
            <button class="quiet" type="submit">
              Deliver all failed again
            </button>
          </form>
        </div>
        <div id="deliveries" data-live={before === undefined ? "/portal/live" : undefined}>
          {deliveries.length === 0 ? (
            <p class="empty">
              {state === undefined
                ? "No webhook was owed yet. Give webhook_url with a job, and what became of it stands here."
                : `No delivery is ${state}.`}
            </p>
          ) : (
            <div class="table">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Job</th>
                    <th scope="col">Ended</th>
                    <th scope="col">Delivery</th>
                    <th scope="col">What happened</th>
                    <th scope="col" class="number">
                      Attempts
                    </th>
                    <th scope="col">Last attempt</th>
                    <th scope="col">Receiver</th>
                    <th scope="col">
                      <span class="hint">Action</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {deliveries.map((row) => (
                    <Row row={row} csrf={session.csrf} back={here} />
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </div>
        <Pages
          first={before === undefined ? undefined : here}
          next={has_more && last ? `/portal/deliveries${query({ state, before: last.event })}` : undefined}
        />
      </>
    ),
  });
}

type Refused = Exclude<OwnerRedeliver | OwnerRedeliverFailed, { kind: "reopened" | "begun" | "not_redeliverable" }>;

function refuse(answer: Refused): never {
  if (answer.kind === "not_found") throw new PortalError(404, "No such job", "This account has no such job.");
  if (answer.kind === "account_suspended")
    throw new PortalError(403, "Account suspended", "The account is suspended. Contact support.");
  const seconds = Math.max(1, Math.ceil((answer.reset_at - Date.now()) / 1000));
  throw new PortalError(429, "Too many at once", `Ten redeliveries a minute are allowed. Try again in ${seconds} s.`);
}

/** Only to where such a form stands. */
const backTo = (text: string | undefined): string =>
  text !== undefined && /^\/portal\/(deliveries(\?state=\w+)?|jobs\/[0-9a-f-]{36})$/.test(text)
    ? text
    : "/portal/deliveries";

/** A name that makes a form that is sent twice one request. */
function requestOf(text: string | undefined): string {
  if (text === undefined || !/^[\w.-]{1,80}$/.test(text))
    throw new PortalError(400, "Form incomplete", "Open the page again and send the form from there.");
  return text;
}

export const deliveryPages = new Hono<PortalEnv>()
  .get("/", list)
  .post("/redeliver", async (c) => {
    const { job = "", back, request } = await fieldsOf(c);
    const which = { job_id: job, request: requestOf(request) };
    const answer = await askAccount(c, (account, epoch) => account.ownerRedeliver(epoch, which));
    if (answer.kind !== "reopened" && answer.kind !== "not_redeliverable") refuse(answer);
    const to = backTo(back);
    return c.redirect(`${to}${to.includes("?") ? "&" : "?"}done=${answer.kind}`, 303);
  })
  .post("/redeliver-failed", async (c) => {
    const request = requestOf((await fieldsOf(c)).request);
    const answer = await askAccount(c, (account, epoch) => account.ownerRedeliverFailed(epoch, request, AT_ONCE));
    if (answer.kind !== "begun") refuse(answer);
    return c.redirect(`/portal/deliveries${query({ begun: answer.begun, left: answer.left })}`, 303);
  });
