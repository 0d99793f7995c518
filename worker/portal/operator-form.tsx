import { base64url } from "jose";
import type { Child } from "hono/jsx";
import { RepeatedForm } from "../directory/audit.ts";
import type { By } from "../operator/actions.ts";
import { fieldsOf, type PortalContext, PortalError, sessionOf } from "./guard.ts";
import { page, Token } from "./layout.tsx";
import { derive, random, type Session } from "./session.ts";

/** Forms of the console: each is one deed, however often it is sent. */

/** What every form of the console carries. */
export function Fields({ session }: { session: Session }) {
  return (
    <>
      <Token session={session} />
      <input type="hidden" name="form" value={random(16)} />
    </>
  );
}

/** Who sent the form, and which one. */
export async function byOf(c: PortalContext): Promise<Required<By>> {
  const { name, identity } = sessionOf(c);
  const { form = "" } = await fieldsOf(c);
  if (!/^[\w-]{16,64}$/.test(form))
    throw new PortalError(400, "Form incomplete", "Open the page again and send the form from there.");
  return { actor: `${name} (${identity.sub})`, form };
}

/** Does what a form asks for; undefined where it was done when the same form was sent before. */
export async function once<T>(deed: Promise<T>): Promise<T | undefined> {
  try {
    return await deed;
  } catch (error) {
    if (error instanceof RepeatedForm) return undefined;
    throw error;
  }
}

/**
 * A token that one form of one session makes, 43 characters: sent twice it makes one token and shows it both times, for a browser
 * shows the second answer after a double click.
 */
export async function tokenOfForm(c: PortalContext, purpose: string, form: string): Promise<string> {
  return base64url.encode(await derive(c.env, `${purpose} ${sessionOf(c).csrf} ${form}`));
}

/** The token that a repeated form made is used or over. */
export const SENT_BEFORE = new PortalError(
  409,
  "Sent already",
  "This form was sent before, and what it made has been used or is over. Open the page again to make another.",
);

export interface ConfirmOptions {
  readonly title: string;
  /** What will happen. */
  readonly children: Child;
  /** Where the form goes, with these fields. */
  readonly action: string;
  readonly fields?: Readonly<Record<string, string>>;
  /** On the button that does it, and on the way back. */
  readonly button: string;
  readonly back: string;
}

/** Asks before something that can't be taken back, or that others feel. */
export const confirm = (c: PortalContext, options: ConfirmOptions) =>
  page(c, {
    title: options.title,
    children: (
      <>
        {options.children}
        <form class="row" method="post" action={options.action}>
          <Fields session={sessionOf(c)} />
          {Object.entries(options.fields ?? {}).map(([name, value]) => (
            <input type="hidden" name={name} value={value} />
          ))}
          <button class="danger" type="submit">
            {options.button}
          </button>
          <a class="button quiet" href={options.back}>
            Cancel
          </a>
        </form>
      </>
    ),
  });
