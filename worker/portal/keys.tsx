import { Hono } from "hono";
import type { OwnerAddKey, OwnerKey } from "../account/owner-types.ts";
import { keyOf } from "../accounts.ts";
import { insertKey } from "../directory/directory.ts";
import type { Env } from "../env.ts";
import { askAccount, fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page, Token } from "./layout.tsx";
import { derive, random } from "./session.ts";
import { Secret, State, Time } from "./words.tsx";

/** API keys (spec sections 2.2 and 5.4). */

const MAX_NAME = 100;

const REFUSED: Readonly<Record<Extract<OwnerAddKey, { ok: false }>["reason"], string>> = {
  too_many_keys: "The account has as many keys as it may have: 20. Revoke one that is not needed any more.",
  too_many_new_keys: "The account made 20 keys within a day. Try again tomorrow.",
  account_suspended: "The account is suspended: it gets no new keys. Contact support.",
  invalid_name: `Give the key a name of 1 to ${MAX_NAME} characters.`,
};

/**
 * The key that one form makes. A form that is sent twice makes one key and shows it both times: the second answer is the one that
 * a browser shows after a double click.
 */
const keyOfForm = async (env: Env, account: string, form: string) =>
  keyOf(await derive(env, `api-key ${account} ${form}`));

/** Its open jobs, in words; nothing where there is none. */
function inUse({ slots, places }: OwnerKey): string {
  const parts = [slots > 0 ? `${slots} at work` : "", places > 0 ? `${places} waiting` : ""];
  return parts.filter((part) => part !== "").join(", ");
}

function openJobsGoOn({ slots, places }: OwnerKey): string {
  const open = slots + places;
  if (open === 0) return "";
  return open === 1
    ? " Its open job goes on, and your other keys can read it."
    : ` Its ${open} open jobs go on, and your other keys can read them.`;
}

function KeyRow({ row }: { row: OwnerKey }) {
  const revoked = row.revoked_at !== undefined;
  return (
    <tr>
      <td class="long">{row.name}</td>
      <td>
        <code>{row.prefix}…</code>
      </td>
      <td class="tight">
        <Time at={row.created_at} />
      </td>
      <td class="tight">{row.last_used_at === undefined ? "never" : <Time at={row.last_used_at} />}</td>
      <td>
        <State of={revoked ? "revoked" : "active"} />
      </td>
      <td>{inUse(row)}</td>
      <td>
        {revoked ? null : (
          <a class="button quiet" href={`/portal/keys/${row.key_hash}/revoke`} aria-label={`Revoke ${row.name}`}>
            Revoke
          </a>
        )}
      </td>
    </tr>
  );
}

const NOTICES: Readonly<Record<string, string>> = { revoked: "The key is revoked. It stopped working at once." };

async function list(c: PortalContext, problem?: string, name = "") {
  const session = sessionOf(c);
  const keys = await askAccount(c, (account, epoch) => account.ownerKeys(epoch));
  const notice = NOTICES[c.req.query("done") ?? ""];
  return page(c, {
    title: "API keys",
    status: problem === undefined ? 200 : 400,
    children: (
      <>
        {problem === undefined ? null : <Notice kind="error">{problem}</Notice>}
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          A key lets a program use this account: <code>Authorization: Bearer KEY</code>. Use one key for each system, so
          that you can revoke it alone.
        </p>
        <form class="row" method="post" action="/portal/keys">
          <Token session={session} />
          <input type="hidden" name="form" value={random(16)} />
          <label>
            Name of the new key
            <input
              name="name"
              required
              maxlength={MAX_NAME}
              value={name.slice(0, MAX_NAME)}
              placeholder="production server"
              autocomplete="off"
            />
          </label>
          <button type="submit">Create key</button>
        </form>
        {keys.length === 0 ? (
          <p class="empty">There is no key yet. Create one to use the API.</p>
        ) : (
          <div class="table" tabindex={0}>
            <table>
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Key</th>
                  <th scope="col">Created</th>
                  <th scope="col">Last used</th>
                  <th scope="col">Status</th>
                  <th scope="col">Jobs</th>
                  <th scope="col">
                    <span class="hint">Action</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {keys.map((row) => (
                  <KeyRow row={row} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </>
    ),
  });
}

async function create(c: PortalContext) {
  const { name = "", form = "" } = await fieldsOf(c);
  const { account = "" } = sessionOf(c);
  const trimmed = name.trim();
  if (trimmed === "" || trimmed.length > MAX_NAME) return list(c, REFUSED.invalid_name, trimmed);
  if (!/^[\w-]{16,64}$/.test(form))
    throw new PortalError(400, "Form incomplete", "Open the page again and send the form from there.");
  const { key, key_hash, prefix } = await keyOfForm(c.env, account, form);
  const added = await askAccount(c, (stub, epoch) => stub.ownerAddKey(epoch, { key_hash, prefix, name: trimmed }));
  if (!added.ok) return list(c, REFUSED[added.reason], trimmed);
  await insertKey(c.env.DIRECTORY, key_hash, account, Date.now());
  return page(c, {
    title: "Your new key",
    status: 201,
    children: (
      <>
        <Notice kind="warning">
          Copy the key now. It is shown this once and can't be shown again; if it gets lost, revoke it and create
          another.
        </Notice>
        <p>Key “{trimmed}”:</p>
        <Secret id="key" value={key} label="the new API key" />
        <p>Try it, with the key in the variable KEY:</p>
        <pre
          tabindex={0}
        >{`curl -s ${c.env.PUBLIC_BASE_URL}/v1/limits -H "Authorization: Bearer ${key.slice(0, 12)}..."`}</pre>
        <p>
          <a class="button" href="/portal/keys">
            I have copied it
          </a>
        </p>
      </>
    ),
  });
}

async function keyNamed(c: PortalContext): Promise<OwnerKey> {
  const keys = await askAccount(c, (account, epoch) => account.ownerKeys(epoch));
  const row = keys.find(({ key_hash }) => key_hash === c.req.param("key"));
  if (!row) throw new PortalError(404, "No such key", "This account has no such key.");
  return row;
}

export const keyPages = new Hono<PortalEnv>()
  .get("/", (c) => list(c))
  .post("/", create)
  .get("/:key/revoke", async (c) => {
    const row = await keyNamed(c);
    if (row.revoked_at !== undefined) return c.redirect("/portal/keys", 303);
    return page(c, {
      title: `Revoke “${row.name}”?`,
      children: (
        <>
          <p>
            <code>{row.prefix}…</code> stops working at once, for good.{openJobsGoOn(row)}
          </p>
          <form class="row" method="post" action={`/portal/keys/${row.key_hash}/revoke`}>
            <Token session={sessionOf(c)} />
            <button class="danger" type="submit">
              Revoke the key
            </button>
            <a class="button quiet" href="/portal/keys">
              Keep it
            </a>
          </form>
        </>
      ),
    });
  })
  .post("/:key/revoke", async (c) => {
    const key = c.req.param("key");
    const revoked = await askAccount(c, (account, epoch) => account.ownerRevokeKey(epoch, key));
    if (!revoked.ok) throw new PortalError(404, "No such key", "This account has no such key.");
    return c.redirect("/portal/keys?done=revoked", 303);
  });
