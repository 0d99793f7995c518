import type { Browser, BrowserContextOptions, Cookie, Page } from "playwright-core";
import { type Look, type Opened, openPage } from "./page.ts";

/** The portal as somebody at a browser goes about in it. */

/** What a page has not done by then it does not do. */
const PATIENCE_MS = 20_000;

export interface Visitor extends Opened {
  /** Opens a path of the service; returns the answer's status, redirects followed. */
  go(path: string): Promise<number>;
  /** Path and query of where the browser is. */
  at(): string;
  /** The session's cookie. */
  session(): Promise<Cookie | undefined>;
}

/** @param origin of the service */
export async function visitor(
  browser: Browser,
  origin: string,
  look: Partial<Look> = {},
  options: BrowserContextOptions = {},
): Promise<Visitor> {
  const opened = await openPage(browser, look, options);
  opened.context.setDefaultTimeout(PATIENCE_MS);
  return {
    ...opened,
    go: async (path) => (await opened.page.goto(`${origin}${path}`))?.status() ?? 0,
    at: () => {
      const url = new URL(opened.page.url());
      return url.origin === origin ? url.pathname + url.search : url.href;
    },
    session: async () => (await opened.context.cookies()).find(({ name }) => name === "__Host-session"),
  };
}

export interface AsWhom {
  /** Of which account; a new one unless told. */
  readonly account_id?: string;
  readonly role?: "owner" | "operator";
}

/** Uses the development sign-in, and comes to the list of jobs. */
export async function signInForDevelopment(at: Visitor, { account_id = "", role = "owner" }: AsWhom): Promise<void> {
  await at.go("/portal/sign-in");
  // A label that stands around its list is read with all of its options.
  await at.page.locator("select[name=account]").selectOption(account_id);
  await at.page.locator("select[name=role]").selectOption(role);
  await at.page.getByRole("button", { name: "Sign in for development" }).click();
  await at.page.waitForURL((url) => url.pathname === "/portal/jobs");
}

/** What a page tells of what was just done, or refuses. */
export const notice = (page: Page) => page.locator(".notice").first();
