import type { Child } from "hono/jsx";
import { isNamedOperator } from "./identity-provider.ts";
import type { PortalContext } from "./guard.ts";
import type { Session } from "./session.ts";

/** The frame of every page. */

interface Link {
  readonly href: string;
  readonly name: string;
}

const ACCOUNT_LINKS: readonly Link[] = [
  { href: "/portal/jobs", name: "Jobs" },
  { href: "/portal/deliveries", name: "Deliveries" },
  { href: "/portal/usage", name: "Usage" },
  { href: "/portal/keys", name: "Keys" },
  { href: "/portal/webhooks", name: "Webhooks" },
  { href: "/portal/limits", name: "Limits" },
];

const OPERATOR_LINKS: readonly Link[] = [
  { href: "/portal/operator", name: "Fleet" },
  { href: "/portal/operator/accounts", name: "Accounts" },
  { href: "/portal/operator/deliveries", name: "Failed deliveries" },
  { href: "/portal/operator/invitations", name: "Invitations" },
  { href: "/portal/operator/audit", name: "Audit" },
];

function Links({ links, label, here }: { links: readonly Link[]; label: string; here: string }) {
  // The longest link that the path begins with: a job's page belongs to Jobs.
  const current = links.filter(({ href }) => here === href || here.startsWith(`${href}/`)).at(-1);
  return (
    <nav aria-label={label}>
      {links.map((link) => (
        <a href={link.href} aria-current={link === current ? "page" : undefined}>
          {link.name}
        </a>
      ))}
    </nav>
  );
}

function Who({ session }: { session: Session }) {
  return (
    <div class="who">
      <span class="name" title={session.identity.iss}>
        {session.name}
      </span>
      <form method="post" action="/portal/sign-out">
        <input type="hidden" name="csrf" value={session.csrf} />
        <button class="quiet" type="submit">
          Sign out
        </button>
        <button class="quiet" type="submit" formaction="/portal/sign-out-everywhere">
          Sign out everywhere
        </button>
      </form>
    </div>
  );
}

export interface PageOptions {
  readonly title: string;
  /** Runs the small script of live parts and copy buttons; every page works without. */
  readonly script?: boolean;
  readonly status?: 200 | 201 | 400 | 403 | 404 | 409 | 429;
  readonly children: Child;
}

/** A whole page as an answer. */
export function page(c: PortalContext, { title, script = true, status = 200, children }: PageOptions) {
  const session = c.get("session");
  const operator = session !== undefined && (session.operator || isNamedOperator(c.env, session.identity));
  const here = new URL(c.req.url).pathname;
  const body = (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{`${title} · Darkroom`}</title>
        <link rel="stylesheet" href="/portal/assets/simple.min.css" />
        <link rel="stylesheet" href="/portal/assets/portal.css" />
        <link rel="icon" href="/portal/assets/icon.svg" type="image/svg+xml" />
        {script ? <script src="/portal/assets/portal.js" defer /> : null}
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header>
          <div class="bar">
            <a class="brand" href="/portal/jobs">
              Darkroom
            </a>
            {session ? <Who session={session} /> : null}
          </div>
          {session?.account !== undefined ? <Links links={ACCOUNT_LINKS} label="Account" here={here} /> : null}
          {operator ? <Links links={OPERATOR_LINKS} label="Operator" here={here} /> : null}
        </header>
        <main id="main">
          <h1>{title}</h1>
          {children}
        </main>
      </body>
    </html>
  );
  return c.html(`<!doctype html>${body}`, status);
}

/** What a form of this session must carry. */
export function Token({ session }: { session: Session }) {
  return <input type="hidden" name="csrf" value={session.csrf} />;
}

/** A sentence that answers what was just done. */
export function Notice({ kind = "done", children }: { kind?: "done" | "warning" | "error"; children: Child }) {
  return (
    <p class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      {children}
    </p>
  );
}
