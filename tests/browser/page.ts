import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import axe, { type AxeResults } from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";

/** Pages as people meet them: on a desk or a phone, light or dark, with everything that went wrong written down. */

export type Device = "desktop" | "phone";
export type Scheme = "light" | "dark";

export interface Look {
  readonly device: Device;
  readonly scheme: Scheme;
}

export const LOOKS: readonly Look[] = (["desktop", "phone"] as const).flatMap((device) =>
  (["light", "dark"] as const).map((scheme) => ({ device, scheme })),
);

const DEVICES: Readonly<Record<Device, BrowserContextOptions>> = {
  desktop: { viewport: { width: 1280, height: 900 } },
  phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
};

export interface Problem {
  /** A blocked action (csp), a console error, an uncaught exception, or a request that failed or got 4xx or 5xx. */
  readonly kind: "csp" | "console" | "exception" | "request";
  readonly text: string;
  /** Where it happened, or what was asked for. */
  readonly url: string;
}

export interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  /**
   * What went wrong in the context so far, popups included. The status of a document is none, a page of an error is
   * meant to have it; neither is a request given up by a navigation or turned into a download.
   */
  problems(): Promise<readonly Problem[]>;
  close(): Promise<void>;
}

const looks = new WeakMap<BrowserContext, Look>();

function lookOf(page: Page): Look {
  const look = looks.get(page.context());
  if (!look) throw new Error("The page is not one of openPage's.");
  return look;
}

/** What Chromium writes to the console about its content security policy and Trusted Types. */
const POLICY = /Content Security Policy|requires 'Trusted\w+' assignment/;

function watch(context: BrowserContext): Problem[] {
  const problems: Problem[] = [];
  context.on("console", (message) => {
    const text = message.text().trim();
    // Said again by the events of the request.
    if (message.type() !== "error" || text.startsWith("Failed to load resource:")) return;
    problems.push({ kind: POLICY.test(text) ? "csp" : "console", text, url: message.location().url });
  });
  context.on("weberror", (event) => {
    const error = event.error();
    problems.push({ kind: "exception", text: error.stack ?? error.message, url: event.page()?.url() ?? "" });
  });
  context.on("requestfailed", (request) => {
    const text = request.failure()?.errorText ?? "failed";
    if (text === "net::ERR_ABORTED" || text === "csp") return;
    problems.push({ kind: "request", text, url: request.url() });
  });
  context.on("response", (response) => {
    if (response.status() < 400 || response.request().isNavigationRequest()) return;
    problems.push({ kind: "request", text: `status ${response.status()}`, url: response.url() });
  });
  return problems;
}

/**
 * A page in a context of its own: no cookies, no cache, nothing shared with another.
 * @param look a light desktop unless told
 * @param options of the context, such as `javaScriptEnabled: false` or a `storageState`
 */
export async function openPage(
  browser: Browser,
  { device = "desktop", scheme = "light" }: Partial<Look> = {},
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({
    colorScheme: scheme,
    locale: "en-US",
    timezoneId: "UTC",
    ...DEVICES[device],
    ...options,
  });
  looks.set(context, { device, scheme });
  const problems = watch(context);
  const page = await context.newPage();
  return {
    page,
    context,
    problems: async () => {
      // What a page reported before its answer has arrived with it.
      await Promise.all(context.pages().map((one) => one.evaluate("0").catch(() => undefined)));
      return [...problems];
    },
    close: () => context.close(),
  };
}

export const SCREENSHOTS = join(import.meta.dirname, "..", "..", "test-results", "screenshots");

/** The whole page as a PNG called `<name>.<device>.<scheme>.png`; returns its path. */
export async function screenshot(page: Page, name: string): Promise<string> {
  const { device, scheme } = lookOf(page);
  await mkdir(SCREENSHOTS, { recursive: true });
  const path = join(SCREENSHOTS, `${name}.${device}.${scheme}.png`);
  await page.screenshot({ path, fullPage: true, animations: "disabled" });
  return path;
}

const SERIOUS = new Set(["serious", "critical"]);

/**
 * The serious and critical violations that axe finds, one line for each element. It runs in a world of its own: no
 * content security policy stops it, and the page does not see it. Throws in a context without JavaScript, where its
 * timers never fire. axe takes a page without a background colour of its own for white, in the dark too.
 */
export async function seriousViolations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => matchMedia("(scripting: enabled)").matches)))
    throw new Error("axe needs a context with JavaScript.");
  const cdp = await page.context().newCDPSession(page);
  try {
    const { frameTree } = await cdp.send("Page.getFrameTree");
    const { executionContextId: contextId } = await cdp.send("Page.createIsolatedWorld", {
      frameId: frameTree.frame.id,
      worldName: "axe",
    });
    const { exceptionDetails, result } = await cdp.send("Runtime.evaluate", {
      contextId,
      // Without preload it asks for nothing over the network.
      expression: `${axe.source}; axe.run(document, { preload: false, resultTypes: ["violations"] })`,
      awaitPromise: true,
      returnByValue: true,
    });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    const { violations } = result.value as AxeResults;
    return violations
      .filter(({ impact }) => impact && SERIOUS.has(impact))
      .flatMap(({ id, impact, nodes }) =>
        nodes.map(
          ({ target, failureSummary }) =>
            `${id} (${impact}) at ${target.join(" ")}: ${failureSummary?.replace(/\s+/g, " ").trim()}`,
        ),
      );
  } finally {
    await cdp.detach();
  }
}

export interface FirstPaint {
  /** Bytes of all of them. */
  readonly total: number;
  readonly resources: readonly {
    readonly url: string;
    readonly kind: "document" | "stylesheet" | "font";
    /** Headers and the body as it was sent, compressed where it was. */
    readonly bytes: number;
  }[];
}

const PAINTED = new Set(["document", "stylesheet", "font"]);

/**
 * What a first visit without JavaScript fetches before it can paint: the document and its redirects, style sheets,
 * fonts. With the cookies and the look of `page`, but nothing in the cache; `page` itself stays where it is.
 */
export async function bytesOfFirstPaint(page: Page, url: string): Promise<FirstPaint> {
  const browser = page.context().browser();
  if (!browser) throw new Error("The page has no browser.");
  const storageState = await page.context().storageState();
  const visit = await openPage(browser, lookOf(page), { javaScriptEnabled: false, storageState });
  try {
    const resources: Promise<FirstPaint["resources"][number]>[] = [];
    const underWay = new Set<object>();
    visit.context.on("request", (request) => PAINTED.has(request.resourceType()) && underWay.add(request));
    visit.context.on("requestfailed", (request) => underWay.delete(request));
    visit.context.on("requestfinished", (request) => {
      underWay.delete(request);
      if (!PAINTED.has(request.resourceType())) return;
      const kind = request.resourceType() as FirstPaint["resources"][number]["kind"];
      resources.push(
        request.sizes().then(({ responseHeadersSize, responseBodySize }) => ({
          url: request.url(),
          kind,
          bytes: responseHeadersSize + responseBodySize,
        })),
      );
    });
    const response = await visit.page.goto(url, { waitUntil: "load" });
    if (!response?.ok()) throw new Error(`${url} answers ${response?.status()}.`);
    await visit.page.evaluate(() => document.fonts.ready.then(() => undefined));
    // A font can be painted before the browser says that its request has finished.
    while (underWay.size > 0) await visit.page.waitForTimeout(10);
    const all = await Promise.all(resources);
    return { total: all.reduce((sum, { bytes }) => sum + bytes, 0), resources: all };
  } finally {
    await visit.close();
  }
}
