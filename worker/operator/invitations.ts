import type { Tier } from "../../schemas/limits.ts";
import { sha256 } from "../../schemas/signed-request.ts";
import { configOf } from "../config.ts";
import { audited } from "../directory/audit.ts";
import { findAccount } from "../directory/directory.ts";
import { ownersOf, putInvitation, withdrawInvitation } from "../directory/identities.ts";
import type { Env } from "../env.ts";
import type { By } from "./actions.ts";

/** One-time links with which somebody signs in for the first time: to an account of their own, or to one that the script made. */

const INVITATION_MS = 7 * 86_400_000;
/** What an operator wants to remember of it. */
export const MAX_NOTE = 200;

/** What the invitation leads to. */
export type Invited =
  | { readonly kind: "new"; readonly tier: Tier }
  /** An account that nobody signs in to yet. */
  | { readonly kind: "claim"; readonly account_id: string };

export type Invite =
  | { readonly ok: true; readonly url: string; readonly expires_at: number }
  | { readonly ok: false; readonly reason: "no_such_account" | "claimed" };

export const invitationUrl = (env: Env, token: string): string =>
  `${configOf(env).baseUrl}/portal/invitations/${token}`;

/** @param token 43 characters of base64url from a cryptographic source; its hash alone is kept */
export const invite = (env: Env, by: By, invited: Invited, { note, token }: { note: string; token: string }) =>
  audited<Invite>(
    env.DIRECTORY,
    {
      ...by,
      action: "invitation made",
      subject:
        invited.kind === "new" ? `new ${invited.tier} account${note === "" ? "" : `, ${note}`}` : invited.account_id,
    },
    async () => {
      const db = env.DIRECTORY;
      const created_at = Date.now();
      const expires_at = created_at + INVITATION_MS;
      const row = { token_hash: await sha256(token), note, created_at, expires_at };
      if (invited.kind === "new") {
        await putInvitation(db, { ...row, account_id: null, tier: invited.tier });
      } else {
        const { account_id } = invited;
        const account = await findAccount(db, account_id);
        if (!account) return { ok: false, reason: "no_such_account" };
        if ((await ownersOf(db, account_id)).length > 0) return { ok: false, reason: "claimed" };
        await putInvitation(db, { ...row, account_id, tier: account.tier ?? "free" });
      }
      return { ok: true, url: invitationUrl(env, token), expires_at };
    },
  );

/** Not ok: there is no such invitation, or it is used or over. */
export const withdraw = (env: Env, by: By, token_hash: string) =>
  audited(
    env.DIRECTORY,
    { ...by, action: "invitation withdrawn", subject: `${token_hash.slice(0, 12)}…` },
    async () => ({
      ok: await withdrawInvitation(env.DIRECTORY, token_hash, Date.now()),
    }),
  );
