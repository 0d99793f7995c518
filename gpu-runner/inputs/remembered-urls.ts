import { createHash } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import * as v from "valibot";
import type { FileCache } from "./file-cache.ts";

/** What a URL gave, and the words of its server by which to ask whether it still does. Only what may stand in a header. */
const Remembered = v.object({
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  etag: v.optional(v.pipe(v.string(), v.maxLength(1024), v.regex(/^(W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/))),
  last_modified: v.optional(v.pipe(v.string(), v.regex(/^[\x20-\x7e]{1,64}$/))),
});
export type Remembered = v.InferOutput<typeof Remembered>;

/** Files named by the hash of their URL: the URL itself, which may hold secrets, is nowhere on the disk. */
export interface RememberedUrls {
  /** Undefined for a URL that is unknown, and for a damaged file. */
  find(url: URL): Promise<Remembered | undefined>;
  /** Does nothing where the server gave no usable words: older ones no longer hold then, and the server says so when asked. */
  remember(
    url: URL,
    words: { sha256: string; etag?: string | undefined; last_modified?: string | undefined },
  ): Promise<void>;
}

/** Without its fragment, which no server sees. */
function nameOf(url: URL): string {
  const asked = new URL(url);
  asked.hash = "";
  return createHash("sha256").update(asked.href).digest("hex");
}

export function createRememberedUrls(cache: FileCache): RememberedUrls {
  return {
    async find(url) {
      const name = nameOf(url);
      const path = cache.use(name);
      if (path === undefined) return undefined;
      try {
        return v.parse(Remembered, JSON.parse(await readFile(path, "utf8")));
      } catch {
        return undefined;
      } finally {
        cache.letGo(name);
      }
    },
    async remember(url, { sha256, etag, last_modified }) {
      const usable = {
        sha256,
        ...(etag !== undefined && v.is(Remembered.entries.etag, etag) ? { etag } : {}),
        ...(last_modified !== undefined && v.is(Remembered.entries.last_modified, last_modified)
          ? { last_modified }
          : {}),
      };
      if (usable.etag === undefined && usable.last_modified === undefined) return;
      const text = JSON.stringify(usable);
      const name = nameOf(url);
      const temporary = cache.temporary();
      try {
        await writeFile(temporary, text, { mode: 0o600, flag: "wx" });
        cache.put(temporary, name, text.length);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      cache.letGo(name);
    },
  };
}
