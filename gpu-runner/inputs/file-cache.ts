import { randomUUID } from "node:crypto";
import { mkdirSync, renameSync, rmSync, utimesSync } from "node:fs";
import { lstat, mkdir, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * Files in a folder, each at `<first two digits of its name>/<name>`, up to a total weight: the ones used longest ago go first.
 * A file's mtime is its last use, so the order survives the process. A folder belongs to one process at a time.
 */
export interface FileCache {
  /** A path for a file in the making, in the same file system; nobody removes it but its maker, or the next start. */
  temporary(): string;
  /**
   * Moves a finished file in, in place of one of the same name, and returns its path. It stays until a `letGo`, as after `use`.
   * Throws for faults of the disk.
   */
  put(temporary: string, name: string, size: number): string;
  /** The path of a file, which from now on stays until a `letGo`; undefined where there is none. */
  use(name: string): string | undefined;
  /** Ends one `put` or `use`; after the last one the file may be removed at any time. */
  letGo(name: string): void;
}

export interface FileCacheOptions {
  readonly folder: string;
  /** An existing folder in the same file system, for files in the making. */
  readonly scratch: string;
  /** Of all files together. What is in use stays even beyond it. */
  readonly most: number;
  /** What a file of `size` bytes adds; its bytes where this is not given. */
  weigh?(size: number): number;
  readonly now: () => number;
}

interface Entry {
  weight: number;
  users: number;
}

const NAME = /^[0-9a-f]{64}$/;
const SHELF = /^[0-9a-f]{2}$/;

async function filesIn(folder: string): Promise<{ name: string; size: number; used: number }[]> {
  const files = [];
  for (const shelf of (await readdir(folder)).filter((name) => SHELF.test(name))) {
    const names = await readdir(join(folder, shelf)).catch(() => []);
    for (const name of names.filter((found) => NAME.test(found) && found.startsWith(shelf))) {
      const file = await lstat(join(folder, shelf, name));
      if (file.isFile()) files.push({ name, size: file.size, used: file.mtimeMs });
    }
  }
  return files.sort((a, b) => a.used - b.used);
}

/** Takes over what an earlier process left in the folder. Rejects where the folder can't be used. */
export async function openFileCache(options: FileCacheOptions): Promise<FileCache> {
  const { folder, scratch, most, weigh = (size) => size, now } = options;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  /** In the order of their last use. */
  const entries = new Map<string, Entry>();
  let total = 0;
  for (const { name, size } of await filesIn(folder)) {
    entries.set(name, { weight: weigh(size), users: 0 });
    total += weigh(size);
  }

  const pathOf = (name: string): string => join(folder, name.slice(0, 2), name);
  // Moves and removals are synchronous, each in one turn with its bookkeeping: no other job sees one without the other.
  const shrink = (): void => {
    for (const [name, { weight, users }] of entries) {
      if (total <= most) return;
      if (users > 0) continue;
      entries.delete(name);
      total -= weight;
      try {
        rmSync(pathOf(name), { force: true });
      } catch {
        // It stays until the next start counts it again.
      }
    }
  };
  const useNow = (name: string, entry: Entry): void => {
    entry.users++;
    entries.delete(name);
    entries.set(name, entry);
  };
  shrink();

  return {
    temporary: () => join(scratch, randomUUID()),
    put(temporary, name, size) {
      const path = pathOf(name);
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      utimesSync(temporary, new Date(now()), new Date(now()));
      renameSync(temporary, path);
      const entry = entries.get(name) ?? { weight: 0, users: 0 };
      total += weigh(size) - entry.weight;
      entry.weight = weigh(size);
      useNow(name, entry);
      shrink();
      return path;
    },
    use(name) {
      const entry = entries.get(name);
      if (!entry) return undefined;
      const path = pathOf(name);
      try {
        utimesSync(path, new Date(now()), new Date(now()));
      } catch {
        return undefined;
      }
      useNow(name, entry);
      return path;
    },
    letGo(name) {
      const entry = entries.get(name);
      if (!entry || entry.users === 0) return;
      entry.users--;
      shrink();
    },
  };
}
