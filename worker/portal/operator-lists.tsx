import { Hono } from "hono";
import * as v from "valibot";
import { AccountId } from "../../schemas/ids.ts";
import { type AuditEntry, listAudit } from "../directory/audit.ts";
import { type FailedDelivery, listFailedDeliveries } from "../directory/failed-deliveries.ts";
import type { PortalContext, PortalEnv } from "./guard.ts";
import { page } from "./layout.tsx";
import { type Column, Table } from "./operator-table.tsx";
import { failureWords, Pages, query, State, Time } from "./words.tsx";

/** What failed, and what operators did: the latest first. */

const PAGE = 50;

const Query = v.object({
  account: v.fallback(v.optional(AccountId), undefined),
  before: v.fallback(v.optional(v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))), undefined),
});

/** One page of rows, and where the next one begins. */
function cut<T extends { readonly id: number }>(rows: readonly T[]): { shown: readonly T[]; next?: number } {
  const shown = rows.slice(0, PAGE);
  const last = shown.at(-1);
  return rows.length > PAGE && last ? { shown, next: last.id } : { shown };
}

const FAILED: readonly Column[] = [
  { name: "When", kind: "tight" },
  { name: "Account" },
  { name: "Job" },
  { name: "Receiver", kind: "long" },
  { name: "What failed" },
];

const failedCells = ({ at, account_id, job_id, round, target, failure, status }: FailedDelivery) => [
  <Time at={at} />,
  <a href={`/portal/operator/accounts/${account_id}`}>
    <code>{account_id}</code>
  </a>,
  <>
    <code>{job_id}</code>
    {round > 1 ? <span class="hint"> round {round}</span> : null}
  </>,
  target,
  failure === null ? "" : failureWords(failure, status ?? undefined),
];

async function deliveries(c: PortalContext) {
  const { account, before } = v.parse(Query, c.req.query());
  const filter = {
    ...(account === undefined ? {} : { account_id: account }),
    ...(before === undefined ? {} : { before }),
  };
  const { shown, next } = cut(await listFailedDeliveries(c.env.DIRECTORY, filter, PAGE + 1));
  const path = (from?: number): string => `/portal/operator/deliveries${query({ account, before: from })}`;
  return page(c, {
    title: "Failed deliveries",
    children: (
      <>
        <p>
          Webhooks that all four attempts of a round failed to deliver, of the last 30 days, at most 100 an hour for
          each account. Owners deliver them again; many of one receiver mean that it is down.
        </p>
        {account === undefined ? null : (
          <p>
            Of the account <code>{account}</code> only. <a href="/portal/operator/deliveries">Show all</a>
          </p>
        )}
        {shown.length === 0 ? (
          <p class="empty">No delivery has failed in the last 30 days. There is nothing to do.</p>
        ) : (
          <Table columns={FAILED} rows={shown.map(failedCells)} />
        )}
        <Pages first={before === undefined ? undefined : path()} next={next === undefined ? undefined : path(next)} />
      </>
    ),
  });
}

const AUDIT: readonly Column[] = [
  { name: "When", kind: "tight" },
  { name: "Who", kind: "long" },
  { name: "What" },
  { name: "To what", kind: "long" },
];

const auditCells = ({ at, actor, action, subject, failed }: AuditEntry) => [
  <Time at={at} />,
  actor,
  <>
    {action} {failed === 1 ? <State of="failed" /> : null}
  </>,
  subject,
];

async function audit(c: PortalContext) {
  const { before } = v.parse(Query, c.req.query());
  const { shown, next } = cut(await listAudit(c.env.DIRECTORY, before, PAGE + 1));
  return page(c, {
    title: "Audit",
    children: (
      <>
        <p>What operators did, with this console or with the script.</p>
        {shown.length === 0 ? (
          <p class="empty">Nothing was done yet. Whatever an operator changes stands here from then on.</p>
        ) : (
          <Table columns={AUDIT} rows={shown.map(auditCells)} />
        )}
        <Pages
          first={before === undefined ? undefined : "/portal/operator/audit"}
          next={next === undefined ? undefined : `/portal/operator/audit${query({ before: next })}`}
        />
      </>
    ),
  });
}

export const operatorLists = new Hono<PortalEnv>().get("/deliveries", deliveries).get("/audit", audit);
