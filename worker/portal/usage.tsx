import { Hono } from "hono";
import * as v from "valibot";
import type { OwnerUsageRow, UsageCounts } from "../account/owner-types.ts";
import { askAccount, type PortalEnv } from "./guard.ts";
import { page } from "./layout.tsx";
import { Bars } from "./plot.tsx";
import { duration } from "./words.tsx";

/** Requests, jobs and GPU time a day, by key; kept 90 days (contract section 6). */

const SPANS = [7, 30, 90] as const;
const Days = v.fallback(v.pipe(v.string(), v.transform(Number), v.picklist(SPANS)), 30);
const DAY_MS = 86_400_000;

const NONE: UsageCounts = { requests: 0, jobs: 0, gpu_ms: 0 };

const sum = (rows: readonly OwnerUsageRow[]): UsageCounts =>
  rows.reduce(
    (all, { requests, jobs, gpu_ms }) => ({
      requests: all.requests + requests,
      jobs: all.jobs + jobs,
      gpu_ms: all.gpu_ms + gpu_ms,
    }),
    NONE,
  );

function daysFrom(from: string, to: string): string[] {
  const days: string[] = [];
  for (let at = Date.parse(from); at <= Date.parse(to); at += DAY_MS)
    days.push(new Date(at).toISOString().slice(0, 10));
  return days;
}

export const usagePages = new Hono<PortalEnv>().get("/", async (c) => {
  const span = v.parse(Days, c.req.query("days"));
  const { from, to, rows, keys } = await askAccount(c, (account, epoch) => account.ownerUsage(epoch, span));
  const byDay = Map.groupBy(rows, ({ day }) => day);
  const points = daysFrom(from, to).map((day) => ({ label: day, ...sum(byDay.get(day) ?? []) }));
  const byKey = Map.groupBy(rows, ({ key_hash }) => key_hash);
  const total = sum(rows);
  return page(c, {
    title: "Usage",
    children: (
      <>
        <form class="row" method="get" action="/portal/usage">
          <label>
            Span
            <select name="days">
              {SPANS.map((days) => (
                <option value={String(days)} selected={days === span}>{`${days} days`}</option>
              ))}
            </select>
          </label>
          <button class="quiet" type="submit">
            Show
          </button>
        </form>
        <p class="hint">Days are those of UTC.</p>
        {rows.length === 0 ? (
          <p class="empty">Nothing was used in these days.</p>
        ) : (
          <>
            <Bars
              title="Requests a day"
              unit="requests"
              points={points.map(({ label, requests }) => ({ label, value: requests }))}
            />
            <Bars title="Jobs a day" unit="jobs" points={points.map(({ label, jobs }) => ({ label, value: jobs }))} />
            <Bars
              title="GPU seconds a day"
              unit="seconds"
              points={points.map(({ label, gpu_ms }) => ({ label, value: Math.round(gpu_ms / 100) / 10 }))}
            />
            <h2>By key</h2>
            <div class="table" tabindex={0}>
              <table>
                <thead>
                  <tr>
                    <th scope="col">Key</th>
                    <th scope="col" class="number">
                      Requests
                    </th>
                    <th scope="col" class="number">
                      Jobs
                    </th>
                    <th scope="col" class="number">
                      GPU time
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {keys.map(({ key_hash, prefix, name }) => {
                    const used = sum(byKey.get(key_hash) ?? []);
                    return (
                      <tr>
                        <td>
                          {name} <code>{prefix}…</code>
                        </td>
                        <td class="number">{used.requests.toLocaleString("en")}</td>
                        <td class="number">{used.jobs.toLocaleString("en")}</td>
                        <td class="number">{duration(used.gpu_ms)}</td>
                      </tr>
                    );
                  })}
                </tbody>
                <tfoot>
                  <tr>
                    <th scope="row">All</th>
                    <td class="number">{total.requests.toLocaleString("en")}</td>
                    <td class="number">{total.jobs.toLocaleString("en")}</td>
                    <td class="number">{duration(total.gpu_ms)}</td>
                  </tr>
                </tfoot>
              </table>
            </div>
          </>
        )}
      </>
    ),
  });
});
