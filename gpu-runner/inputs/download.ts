import { createReadStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { checkTarget, isLoopbackHost, type TargetRules } from "../../schemas/targets.ts";
import { type Allowance, admitMore, admitSize, admitType, type Want } from "./admission.ts";
import type { Dialling } from "./connect.ts";
import type { FileCache } from "./file-cache.ts";
import { type Fingerprint, fingerprint } from "./fingerprint.ts";
import { get } from "./get.ts";
import { Refused } from "./refused.ts";
import type { Remembered, RememberedUrls } from "./remembered-urls.ts";

export interface Download {
  readonly want: Want;
  readonly allowance: Allowance;
  readonly rules: TargetRules;
  readonly dialling: Omit<Dialling, "loopback">;
  /** Followed at most. */
  readonly redirects: number;
  readonly content: FileCache;
  readonly remembered: RememberedUrls;
  readonly signal: AbortSignal;
}

/** A file of the cache, in use until it is let go. */
export interface Downloaded extends Fingerprint {
  readonly path: string;
}

type Hop = { readonly file: Downloaded } | { readonly redirect: URL };

const REDIRECTS: readonly (number | undefined)[] = [301, 302, 303, 307, 308];

/** Errors of the line; those of the disk pass by. */
async function* bodyOf(response: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of response) yield chunk;
  } catch (error) {
    throw new Refused("broke off before all of it had come", { cause: error });
  }
}

function redirected(from: URL, { statusCode, headers }: IncomingMessage, rules: TargetRules): URL {
  const { location } = headers;
  if (location === undefined || !URL.canParse(location, from.href))
    throw new Refused(`answered with status ${statusCode}`);
  // What is not on this machine does not lead to it, not even where it may be called.
  const loopback = rules.loopback && isLoopbackHost(from.hostname);
  const check = checkTarget(new URL(location, from).href, { ...rules, loopback });
  const downgraded = check.ok && from.protocol === "https:" && check.url.protocol !== "https:";
  const broken = check.ok ? (downgraded ? "it must use https" : undefined) : check.rule;
  if (!check.ok || broken !== undefined) throw new Refused(`redirects to a URL that is refused: ${broken}`);
  return check.url;
}

/** Writes the body to a file of the cache, hashing it on the way; what is not admitted ends it early. */
async function receive(url: URL, response: IncomingMessage, download: Download): Promise<Downloaded> {
  const { want, allowance, content, remembered } = download;
  const { etag, "last-modified": last_modified, "content-encoding": encoding = "identity" } = response.headers;
  if (encoding.toLowerCase() !== "identity") throw new Refused("is sent compressed, which was not asked for");
  const announced = Number(response.headers["content-length"] ?? 0);
  admitSize(announced, want);
  admitMore(announced, allowance);

  const temporary = content.temporary();
  const file = await open(temporary, "wx", 0o600);
  try {
    let size = 0;
    let received: Fingerprint;
    try {
      received = await fingerprint(bodyOf(response), async (chunk, type) => {
        size += chunk.length;
        admitSize(size, want);
        admitMore(chunk.length, allowance);
        allowance.left -= chunk.length;
        if (type) admitType(type, want);
        await file.writeFile(chunk);
      });
    } finally {
      await file.close();
    }
    admitType(received.type, want);
    const path = content.put(temporary, received.sha256, size);
    try {
      await remembered.remember(url, { sha256: received.sha256, etag, last_modified });
    } catch (error) {
      content.letGo(received.sha256);
      throw error;
    }
    return { ...received, path };
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Takes a file that the cache has. Undefined where it no longer is what it was. */
async function reuse(
  path: string,
  sha256: string,
  { want, allowance, signal }: Download,
): Promise<Downloaded | undefined> {
  const found = await fingerprint(createReadStream(path, { signal })).catch(() => undefined);
  signal.throwIfAborted();
  if (found?.sha256 !== sha256) return undefined;
  admitSize(found.size_bytes, want);
  admitMore(found.size_bytes, allowance);
  allowance.left -= found.size_bytes;
  admitType(found.type, want);
  return { ...found, path };
}

const conditions = ({ etag, last_modified }: Remembered): Record<string, string> => ({
  ...(etag === undefined ? {} : { "if-none-match": etag }),
  ...(last_modified === undefined ? {} : { "if-modified-since": last_modified }),
});

/** One request. `known` is what it may be asked by; without it, the whole file is asked for. */
async function hop(url: URL, download: Download, known: Remembered | undefined): Promise<Hop> {
  const { content, dialling, rules, signal } = download;
  const held = known && content.use(known.sha256);
  let taken = false;
  try {
    const headers = known && held !== undefined ? conditions(known) : {};
    const response = await get(url, { headers, dialling: { ...dialling, loopback: rules.loopback }, signal });
    try {
      const { statusCode: status } = response;
      if (REDIRECTS.includes(status)) return { redirect: redirected(url, response, rules) };
      if (status === 304 && known && held !== undefined) {
        const file = await reuse(held, known.sha256, download);
        if (!file) return await hop(url, download, undefined);
        taken = true;
        return { file };
      }
      if (status !== 200) throw new Refused(`answered with status ${status}`);
      return { file: await receive(url, response, download) };
    } finally {
      response.destroy();
    }
  } finally {
    if (known && held !== undefined && !taken) content.letGo(known.sha256);
  }
}

/**
 * Gets what a URL (that `checkTarget` has allowed) holds into the cache, or finds it there where its server says that it is the same
 * as before. The validators of a response belong to the URL that it came from, so each hop of a redirect has its own. Throws
 * Refused; faults of the disk, and an abort of the signal, are other errors. None of them leaves a file behind.
 */
export async function downloadInput(first: URL, download: Download): Promise<Downloaded> {
  const { redirects, remembered } = download;
  let url = first;
  for (let followed = 0; followed <= redirects; followed++) {
    try {
      const got = await hop(url, download, await remembered.find(url));
      if ("file" in got) return got.file;
      url = got.redirect;
    } catch (error) {
      if (followed > 0 && error instanceof Refused)
        throw new Refused(`redirects to a URL that ${error.predicate}`, { cause: error });
      throw error;
    }
  }
  throw new Refused(`redirects more than ${redirects} times`);
}
