import { Hono } from "hono";
import { askAccount, type PortalEnv } from "./guard.ts";
import { Notice, page } from "./layout.tsx";

/** What the account may use, and how much of it is in use (spec section 8.1). */

const TIERS = { free: "Free", pro: "Pro", enterprise: "Enterprise" } as const;

function Tile({ name, value }: { name: string; value: string | number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

export const limitPages = new Hono<PortalEnv>().get("/", async (c) => {
  const [overview, keys] = await Promise.all([
    askAccount(c, (account, epoch) => account.ownerOverview(epoch)),
    askAccount(c, (account, epoch) => account.ownerKeys(epoch)),
  ]);
  const { tier, limits, suspended, pool } = overview;
  const live = keys.filter(({ revoked_at }) => revoked_at === undefined);
  return page(c, {
    title: "Limits",
    children: (
      <>
        {suspended ? (
          <Notice kind="error">
            This account is suspended: its keys are refused, its queued jobs wait. Contact support.
          </Notice>
        ) : null}
        <dl class="tiles">
          <Tile name="Tier" value={TIERS[tier]} />
          <Tile name="Running or ready, all keys" value={overview.slots} />
          <Tile name="Waiting in queues, all keys" value={overview.places} />
          <Tile name="Keys" value={`${overview.keys.counting} of ${overview.keys.allowed}`} />
          <Tile name="Keys made in 24 h" value={`${overview.new_keys.made} of ${overview.new_keys.allowed}`} />
          <Tile name="Pool" value={pool} />
        </dl>
        <h2>Each key may</h2>
        <ul>
          <li>send {limits.requests_per_minute} requests a minute,</li>
          <li>have {limits.concurrent_jobs} jobs at work at the same time,</li>
          <li>and {limits.queue_depth} more waiting in its queue.</li>
        </ul>
        <h2>In use now</h2>
        {live.length === 0 ? (
          <p class="empty">
            No key is active. <a href="/portal/keys">Create one</a> to use the API.
          </p>
        ) : (
          <div class="table" tabindex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">Key</th>
                  <th scope="col" class="number">
                    Requests left
                  </th>
                  <th scope="col" class="number">
                    At work
                  </th>
                  <th scope="col" class="number">
                    Waiting
                  </th>
                </tr>
              </thead>
              <tbody>
                {live.map((row) => (
                  <tr>
                    <td>
                      {row.name} <code>{row.prefix}…</code>
                    </td>
                    <td class="number">{`${row.window.remaining} of ${row.window.limit}`}</td>
                    <td class="number">{`${row.slots} of ${limits.concurrent_jobs}`}</td>
                    <td class="number">{`${row.places} of ${limits.queue_depth}`}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </>
    ),
  });
});
