import { Hono } from "hono";
import { newWebhookSecret, standardWebhooksSecret } from "../accounts.ts";
import { askAccount, fieldsOf, type PortalContext, type PortalEnv, PortalError, sessionOf } from "./guard.ts";
import { Notice, page, Token } from "./layout.tsx";
import { Secret, Time } from "./words.tsx";

/** The secret that signs webhooks (spec section 2.3, contract section 5). */

const NOTICES: Readonly<Record<string, string>> = {
  replaced:
    "There is a new secret. The old one signs beside it for 24 hours; give the new one to your receivers by then.",
  stale: "The secret had been replaced already; nothing was changed.",
};

async function settings(c: PortalContext, shown: boolean) {
  const session = sessionOf(c);
  const { secret, retired } = await askAccount(c, (account, epoch) => account.ownerSecret(epoch));
  const notice = NOTICES[c.req.query("done") ?? ""];
  return page(c, {
    title: "Webhooks",
    children: (
      <>
        {notice === undefined ? null : <Notice>{notice}</Notice>}
        <p>
          Every webhook is signed with this secret, so that your receiver can tell that it is ours. Which jobs send one,
          and where, their submissions say (<code>webhook_url</code>).
        </p>
        <h2>Secret</h2>
        {shown ? (
          <>
            <Secret id="secret" value={secret} label="the webhook secret" />
            <p>The same, as Standard Webhooks libraries want it:</p>
            <Secret
              id="standard"
              value={standardWebhooksSecret(secret)}
              label="the webhook secret for Standard Webhooks"
            />
            <p>
              <a class="button quiet" href="/portal/webhooks">
                Hide
              </a>
            </p>
          </>
        ) : (
          <form class="row" method="post" action="/portal/webhooks/secret">
            <Token session={session} />
            <button type="submit">Show the secret</button>
            <a class="button quiet" href="/portal/webhooks/regenerate">
              Regenerate…
            </a>
          </form>
        )}
        {retired.map(({ until }) => (
          <p class="hint">
            A replaced secret still signs, beside the current one, until <Time at={until} />.
          </p>
        ))}
      </>
    ),
  });
}

export const webhookPages = new Hono<PortalEnv>()
  .get("/", (c) => settings(c, false))
  .post("/secret", (c) => settings(c, true))
  .get("/regenerate", async (c) => {
    const { version } = await askAccount(c, (account, epoch) => account.ownerSecret(epoch));
    return page(c, {
      title: "Regenerate the webhook secret?",
      children: (
        <>
          <p>
            A new secret signs from now on. For 24 hours webhooks carry the old signature too, so that you can change
            your receivers.
          </p>
          <p>
            Receivers that check <code>X-Webhook-Signature</code> see the new signature there at once; those that check{" "}
            <code>webhook-signature</code> have the whole day.
          </p>
          <form class="row" method="post" action="/portal/webhooks/regenerate">
            <Token session={sessionOf(c)} />
            <input type="hidden" name="seen" value={String(version)} />
            <button class="danger" type="submit">
              Regenerate
            </button>
            <a class="button quiet" href="/portal/webhooks">
              Keep it
            </a>
          </form>
        </>
      ),
    });
  })
  .post("/regenerate", async (c) => {
    const seen = Number((await fieldsOf(c)).seen);
    if (!Number.isSafeInteger(seen))
      throw new PortalError(400, "Form incomplete", "Open the page again and send the form from there.");
    const secret = newWebhookSecret();
    const { kind } = await askAccount(c, (account, epoch) => account.ownerReplaceSecret(epoch, secret, seen));
    return c.redirect(`/portal/webhooks?done=${kind}`, 303);
  });
