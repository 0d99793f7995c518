import { Hono } from "hono";
import * as v from "valibot";
import { AccountId } from "../../schemas/ids.ts";
import { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import {
  findInvitation,
  type Invitation,
  listInvitations,
  type SignUps,
  signUpsSince,
} from "../directory/identities.ts";
import { invitationUrl, invite, type Invite, type Invited, MAX_NOTE, withdraw } from "../operator/invitations.ts";
import { fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page } from "./layout.tsx";
import { byOf, confirm, Fields, once, SENT_BEFORE, tokenOfForm } from "./operator-form.tsx";
import { type Column, Table } from "./operator-table.tsx";
import { Bars } from "./plot.tsx";
import { Secret, State, Time } from "./words.tsx";

/** One-time links for a first sign-in, and who came without one. */

const LISTED = 100;
const DAY_MS = 86_400_000;
const SIGN_UP_DAYS = 7;

const NOTICES: Readonly<Record<string, string>> = { withdrawn: "The invitation is withdrawn: its link leads nowhere." };

const REFUSED: Readonly<Record<Extract<Invite, { ok: false }>["reason"], PortalError>> = {
  no_such_account: new PortalError(404, "No such account", "The directory has no account with this id."),
  claimed: new PortalError(409, "Claimed already", "Somebody signs in to that account already."),
};

const stateOf = ({ used_at, expires_at }: Invitation, now: number): "used" | "expired" | "open" =>
  used_at !== null ? "used" : expires_at <= now ? "expired" : "open";

const COLUMNS: readonly Column[] = [
  { name: "To" },
  { name: "Note", kind: "long" },
  { name: "State" },
  { name: "Made", kind: "tight" },
  { name: "Good until", kind: "tight" },
  { name: "Action", kind: "actions" },
];

function cellsOf(invitation: Invitation, now: number) {
  const { account_id, tier, note, created_at, expires_at, used_at, token_hash } = invitation;
  const state = stateOf(invitation, now);
  return [
    account_id === null ? (
      `a new ${tier} account`
    ) : (
      <a href={`/portal/operator/accounts/${account_id}`}>
        <code>{account_id}</code>
      </a>
    ),
    note,
    <>
      <State of={state} /> {used_at === null ? null : <Time at={used_at} />}
    </>,
    <Time at={created_at} />,
    <Time at={expires_at} />,
    state === "open" ? (
      <a class="button quiet" href={`/portal/operator/invitations/${token_hash}/withdraw`}>
        Withdraw
      </a>
    ) : null,
  ];
}

function Invitations({ invitations, now }: { invitations: readonly Invitation[]; now: number }) {
  if (invitations.length === 0)
    return <p class="empty">Nobody was invited yet. Make a link above and send it to whom it is for.</p>;
  return <Table columns={COLUMNS} rows={invitations.map((invitation) => cellsOf(invitation, now))} />;
}

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);
const daysUntil = (now: number): string[] =>
  Array.from({ length: SIGN_UP_DAYS }, (_, i) => dayOf(now - (SIGN_UP_DAYS - 1 - i) * DAY_MS));

function SignedUp({ days, signUps, open }: { days: readonly string[]; signUps: readonly SignUps[]; open: boolean }) {
  if (signUps.length === 0)
    return (
      <p class="empty">
        {open
          ? "Nobody has signed up in the last 7 days."
          : "Sign-up is closed: a first sign-in needs an invitation. SIGN_UP=open in wrangler.toml opens it."}
      </p>
    );
  const counts = new Map(signUps.map(({ day, count }) => [day, count]));
  return (
    <Bars
      title="Sign-ups a day, without an invitation"
      unit="accounts"
      points={days.map((day) => ({ label: day, value: counts.get(day) ?? 0 }))}
    />
  );
}

async function list(c: PortalContext) {
  const now = Date.now();
  const days = daysUntil(now);
  const [invitations, signUps] = await Promise.all([
    listInvitations(c.env.DIRECTORY, LISTED),
    signUpsSince(c.env.DIRECTORY, days[0] ?? ""),
  ]);
  const notice = NOTICES[c.req.query("done") ?? ""];
  return page(c, {
    title: "Invitations",
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          An invitation is a link that opens one new account for whoever signs in with it first. To let somebody claim
          an account that exists, make the link on <a href="/portal/operator/accounts">that account's page</a>.
        </p>
        <form class="row" method="post" action="/portal/operator/invitations">
          <Fields session={sessionOf(c)} />
          <label>
            Tier of the new account
            <select name="tier">
              {Tier.options.map((tier) => (
                <option value={tier}>{tier}</option>
              ))}
            </select>
          </label>
          <label>
            Note, for you
            <input name="note" maxlength={MAX_NOTE} autocomplete="off" placeholder="sent to a@example.com" />
          </label>
          <button type="submit">Make an invitation link</button>
        </form>
        <h2>Made so far</h2>
        <Invitations invitations={invitations} now={now} />
        {invitations.length === LISTED ? <p class="hint">The latest {LISTED} are shown.</p> : null}
        <h2>Sign-ups</h2>
        <SignedUp days={days} signUps={signUps} open={c.env.SIGN_UP === "open"} />
      </>
    ),
  });
}

function invitedBy({ account = "", tier = "" }: Readonly<Record<string, string>>): Invited {
  if (account !== "") {
    if (!v.is(AccountId, account)) throw REFUSED.no_such_account;
    return { kind: "claim", account_id: account };
  }
  if (!v.is(Tier, tier)) throw new PortalError(400, "No such tier", "Choose one of the tiers.");
  return { kind: "new", tier };
}

async function make(c: PortalContext) {
  const fields = await fieldsOf(c);
  const invited = invitedBy(fields);
  const note = (fields.note ?? "").trim();
  if (note.length > MAX_NOTE) throw new PortalError(400, "Note too long", `A note has ${MAX_NOTE} characters at most.`);
  const by = await byOf(c);
  const to = invited.kind === "new" ? invited.tier : invited.account_id;
  const token = await tokenOfForm(c, `invitation ${to}`, by.form);
  const made = await once(invite(c.env, by, invited, { note, token }));
  if (made?.ok === false) throw REFUSED[made.reason];
  const expires_at =
    made?.expires_at ?? (await findInvitation(c.env.DIRECTORY, await sha256(token), Date.now()))?.expires_at;
  if (expires_at === undefined) throw SENT_BEFORE;
  return page(c, {
    title: "An invitation link",
    status: 201,
    children: (
      <>
        <Notice kind="warning">
          Copy the link now and send it to whom it is for. It is shown this once and works once, until{" "}
          <Time at={expires_at} />.
        </Notice>
        <Secret id="link" value={invitationUrl(c.env, token)} label="The invitation link" />
        <p>
          {invited.kind === "new" ? (
            `Whoever signs in with it first gets a new ${invited.tier} account.`
          ) : (
            <>
              Whoever signs in with it first owns the account <code>{invited.account_id}</code>.
            </>
          )}
        </p>
        <p>
          <a class="button" href="/portal/operator/invitations">
            I have copied it
          </a>
        </p>
      </>
    ),
  });
}

const NO_SUCH_INVITATION = new PortalError(404, "No such invitation", "It is unknown, was used already or is over.");

export const invitationPages = new Hono<PortalEnv>()
  .get("/", list)
  .post("/", make)
  .get("/:invitation/withdraw", async (c) => {
    const invitation = await findInvitation(c.env.DIRECTORY, c.req.param("invitation"), Date.now());
    if (!invitation) throw NO_SUCH_INVITATION;
    const { account_id, tier, note, token_hash } = invitation;
    return confirm(c, {
      title: "Withdraw the invitation?",
      action: `/portal/operator/invitations/${token_hash}/withdraw`,
      button: "Withdraw it",
      back: "/portal/operator/invitations",
      children: (
        <p>
          Its link to {account_id === null ? `a new ${tier} account` : <code>{account_id}</code>}
          {note === "" ? "" : ` (${note})`} leads nowhere from then on.
        </p>
      ),
    });
  })
  .post("/:invitation/withdraw", async (c) => {
    const outcome = await once(withdraw(c.env, await byOf(c), c.req.param("invitation")));
    if (outcome?.ok === false) throw NO_SUCH_INVITATION;
    return c.redirect("/portal/operator/invitations?done=withdrawn", 303);
  });
