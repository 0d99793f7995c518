import { Hono } from "hono";
import * as v from "valibot";
import { AccountId } from "../../schemas/ids.ts";
import { Tier } from "../../schemas/limits.ts";
import type { OperatorView } from "../account/owner-types.ts";
import { type DirectoryAccount, findAccount, searchAccounts } from "../directory/directory.ts";
import { type Owner, ownersOf } from "../directory/identities.ts";
import { changeTier, setSuspended } from "../operator/actions.ts";
import { MAX_NOTE } from "../operator/invitations.ts";
import { fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page } from "./layout.tsx";
import { byOf, confirm, Fields, once } from "./operator-form.tsx";
import { type Column, Table } from "./operator-table.tsx";
import { Pages, query, State, Time } from "./words.tsx";

/** The accounts of the directory, and what an operator may change about one. */

const PAGE = 50;

const stateOf = (suspended: boolean) => (suspended ? "suspended" : "active");

/** Names the last account of a page: `<created at>.<account id>`. */
const cursorOf = ({ created_at, account_id }: DirectoryAccount): string => `${created_at}.${account_id}`;

function readCursor(text: string | undefined) {
  const [, created_at, account_id] = /^(\d{1,15})\.(acc_[0-9a-z]{20})$/.exec(text ?? "") ?? [];
  return created_at === undefined || account_id === undefined
    ? undefined
    : { created_at: Number(created_at), account_id };
}

const COLUMNS: readonly Column[] = [
  { name: "Address", kind: "long" },
  { name: "Account" },
  { name: "Tier" },
  { name: "State" },
  { name: "Pool" },
  { name: "Created", kind: "tight" },
];

const cellsOf = ({ account_id, email, tier, suspended, pool, created_at }: DirectoryAccount) => [
  <a href={`/portal/operator/accounts/${account_id}`}>{email || "no address"}</a>,
  <code>{account_id}</code>,
  tier ?? "",
  <State of={stateOf(suspended === 1)} />,
  pool,
  <Time at={created_at} />,
];

async function list(c: PortalContext) {
  const text = (c.req.query("q") ?? "").trim().slice(0, 254);
  const before = readCursor(c.req.query("before"));
  const found = await searchAccounts(c.env.DIRECTORY, { text, ...(before ? { before } : {}) }, PAGE + 1);
  const accounts = found.slice(0, PAGE);
  const last = accounts.at(-1);
  return page(c, {
    title: "Accounts",
    children: (
      <>
        <search>
          <form class="row" method="get" action="/portal/operator/accounts">
            <label>
              Address or account id
              <input name="q" type="search" value={text} maxlength={254} autocomplete="off" />
            </label>
            <button class="quiet" type="submit">
              Search
            </button>
          </form>
        </search>
        {accounts.length === 0 ? (
          <p class="empty">
            {text === "" ? (
              <>
                There is no account yet. <a href="/portal/operator/invitations">Invite somebody</a>, or make one with{" "}
                <code>npm run --silent admin -- accounts create</code>.
              </>
            ) : (
              `No account has “${text}” in its address or id.`
            )}
          </p>
        ) : (
          <Table columns={COLUMNS} rows={accounts.map(cellsOf)} />
        )}
        <Pages
          first={before === undefined ? undefined : `/portal/operator/accounts${query({ q: text })}`}
          next={
            found.length > PAGE && last
              ? `/portal/operator/accounts${query({ q: text, before: cursorOf(last) })}`
              : undefined
          }
        />
      </>
    ),
  });
}

const NO_SUCH_ACCOUNT = new PortalError(404, "No such account", "The directory has no account with this id.");

async function accountNamed(c: PortalContext): Promise<DirectoryAccount> {
  const account_id = c.req.param("account");
  const account = v.is(AccountId, account_id) ? await findAccount(c.env.DIRECTORY, account_id) : null;
  if (!account) throw NO_SUCH_ACCOUNT;
  return account;
}

const NOTICES: Readonly<Record<string, string>> = {
  tier: "The tier is changed. Jobs that were accepted before go on.",
  suspended: "The account is suspended: its keys are refused with 403 from now on.",
  resumed: "The account is active again; its queued jobs go on.",
};

function Tile({ name, value }: { name: string; value: string | number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Keys({ keys }: Pick<OperatorView, "keys">) {
  if (keys.length === 0) return <p class="empty">It has no key. Its owner creates one in the portal.</p>;
  return (
    <Table
      columns={[{ name: "Key" }, { name: "Name", kind: "long" }, { name: "Status" }]}
      rows={keys.map(({ prefix, name, status }) => [<code>{prefix}…</code>, name, <State of={status} />])}
    />
  );
}

function Owners({ owners, account_id, c }: { owners: readonly Owner[]; account_id: string; c: PortalContext }) {
  if (owners.length > 0)
    return (
      <ul class="plain">
        {owners.map(({ iss, sub, name }) => (
          <li>
            {name} <span class="hint">{`${sub} at ${iss}`}</span>
          </li>
        ))}
      </ul>
    );
  return (
    <>
      <p>Nobody signs in to this account yet. Its owner needs an invitation link, once:</p>
      <form class="row" method="post" action="/portal/operator/invitations">
        <Fields session={sessionOf(c)} />
        <input type="hidden" name="account" value={account_id} />
        <label>
          Note, for you
          <input name="note" maxlength={MAX_NOTE} autocomplete="off" placeholder="sent to a@example.com" />
        </label>
        <button type="submit">Make an invitation link</button>
      </form>
    </>
  );
}

async function accountPage(c: PortalContext) {
  const account = await accountNamed(c);
  const { account_id } = account;
  const [view, owners] = await Promise.all([
    c.env.ACCOUNT.getByName(account_id).operatorView(),
    ownersOf(c.env.DIRECTORY, account_id),
  ]);
  if (!view) throw new PortalError(404, "Empty account", "The directory has this account, but its object has nothing.");
  const path = `/portal/operator/accounts/${account_id}`;
  const notice = NOTICES[c.req.query("done") ?? ""];
  return page(c, {
    title: account.email || account_id,
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          <code>{account_id}</code> <State of={stateOf(view.suspended)} />
          <br />
          <span class="hint">
            Created <Time at={account.created_at} />, pool {view.pool}
          </span>
        </p>
        <dl class="tiles">
          <Tile name="Tier" value={view.tier} />
          <Tile name="Running jobs" value={view.jobs.running} />
          <Tile name="Queued jobs" value={view.jobs.queued} />
          <Tile
            name="Failed now, of 24 h"
            value={view.failed_deliveries >= 10_000 ? "10,000 or more" : view.failed_deliveries}
          />
        </dl>
        <p>
          <a href={`/portal/operator/deliveries${query({ account: account_id })}`}>Its failed deliveries</a>
        </p>
        <h2>Tier and state</h2>
        <div class="row">
          <form class="row" method="post" action={`${path}/tier`}>
            <Fields session={sessionOf(c)} />
            <label>
              Tier
              <select name="tier">
                {Tier.options.map((tier) => (
                  <option value={tier} selected={tier === view.tier}>
                    {tier}
                  </option>
                ))}
              </select>
            </label>
            <button type="submit">Set the tier</button>
          </form>
          {view.suspended ? (
            <form class="row" method="post" action={`${path}/resume`}>
              <Fields session={sessionOf(c)} />
              <button type="submit">Resume the account</button>
            </form>
          ) : (
            <div class="row">
              <a class="button quiet" href={`${path}/suspend`}>
                Suspend…
              </a>
            </div>
          )}
        </div>
        <h2>Who signs in</h2>
        <Owners owners={owners} account_id={account_id} c={c} />
        <h2>Keys</h2>
        <Keys keys={view.keys} />
      </>
    ),
  });
}

export const accountPages = new Hono<PortalEnv>()
  .get("/", list)
  .get("/:account", accountPage)
  .post("/:account/tier", async (c) => {
    const { account_id } = await accountNamed(c);
    const { tier } = await fieldsOf(c);
    if (!v.is(Tier, tier)) throw new PortalError(400, "No such tier", "Choose one of the tiers.");
    await once(changeTier(c.env, await byOf(c), account_id, tier));
    return c.redirect(`/portal/operator/accounts/${account_id}?done=tier`, 303);
  })
  .get("/:account/suspend", async (c) => {
    const { account_id, email } = await accountNamed(c);
    const path = `/portal/operator/accounts/${account_id}`;
    return confirm(c, {
      title: `Suspend ${email || account_id}?`,
      action: `${path}/suspend`,
      button: "Suspend the account",
      back: path,
      children: (
        <p>
          All of its keys are refused with 403 at once. Its running jobs finish, its queued jobs wait until it is
          resumed.
        </p>
      ),
    });
  })
  .post("/:account/suspend", async (c) => {
    const { account_id } = await accountNamed(c);
    await once(setSuspended(c.env, await byOf(c), account_id, true));
    return c.redirect(`/portal/operator/accounts/${account_id}?done=suspended`, 303);
  })
  .post("/:account/resume", async (c) => {
    const { account_id } = await accountNamed(c);
    await once(setSuspended(c.env, await byOf(c), account_id, false));
    return c.redirect(`/portal/operator/accounts/${account_id}?done=resumed`, 303);
  });
