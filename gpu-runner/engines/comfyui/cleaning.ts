import { lstat, readdir, realpath, rm } from "node:fs/promises";
import { join, resolve, sep } from "node:path";
import { type Client, type ServerFile, Unreachable } from "./client.ts";

/** What a run may have left on the server. */
export interface Leftovers {
  readonly prompt_id?: string;
  /** Files by name: uploaded inputs, and what the history named. */
  readonly files: readonly ServerFile[];
  /** The run's own folder below the output folder. */
  readonly folder: string;
}

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT";

/** The path of a server's file inside `base`, or undefined where it would lie anywhere else, also by a link. */
async function pathInside(base: string, { type, subfolder, filename }: ServerFile): Promise<string | undefined> {
  const root = resolve(base, type);
  const folder = resolve(root, subfolder);
  if (folder !== root && !folder.startsWith(root + sep)) return undefined;
  if (filename === "" || filename === "." || filename === ".." || /[/\\\0]/.test(filename)) return undefined;
  const [real, realRoot] = await Promise.all([realpath(folder), realpath(root)]);
  return real === realRoot || real.startsWith(realRoot + sep) ? join(real, filename) : undefined;
}

async function removeFile(base: string, file: ServerFile): Promise<void> {
  try {
    const path = await pathInside(base, file);
    if (path !== undefined) await rm(path, { force: true });
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

/** For an empty file to a server that answers. */
const EMPTY_MS = 10_000;

const emptyFile = (client: Client, file: ServerFile): Promise<unknown> =>
  client.upload(new Uint8Array(), file, AbortSignal.timeout(EMPTY_MS));

/**
 * Removes what a run left: its inputs, its outputs, its history entry. ComfyUI can't remove files; where its folder is not known
 * to the runner, each file is overwritten by an empty one, so that nothing of the customer's stays.
 * @param base the folder that holds the server's `input`, `output` and `temp`
 * @param warn told what could not be done
 * @returns whether all of it could
 */
export async function clean(
  client: Client,
  base: string | undefined,
  { prompt_id, files, folder }: Leftovers,
  warn: (problem: string, cause: unknown) => void,
): Promise<boolean> {
  let complete = true;
  let answers = true;
  const attempt = async (what: string, act: () => Promise<unknown>): Promise<void> => {
    try {
      await act();
    } catch (error) {
      complete = false;
      answers &&= !(error instanceof Unreachable);
      warn(what, error);
    }
  };
  if (prompt_id !== undefined) await attempt("a history entry can't be removed", () => client.forget(prompt_id));
  for (const file of files) {
    if (base !== undefined) await attempt("a file of the server can't be removed", () => removeFile(base, file));
    // A server that does not answer is not asked for each of hundreds of files.
    else if (answers) await attempt("a file on the server can't be emptied", () => emptyFile(client, file));
  }
  if (base === undefined) return complete;
  const own = join(base, "output", folder);
  await attempt("a folder of the server can't be removed", () => rm(own, { recursive: true, force: true }));
  return complete;
}

/** Another runner may share the server: only what no run can still own is removed. */
const ORPHANED_MS = 24 * 3600_000;

/** Removes what runs of an earlier process have left behind. */
export async function cleanOrphans(base: string, prefix: string, now: number): Promise<number> {
  let removed = 0;
  const places = [
    { folder: join(base, "output", prefix), belongs: () => true },
    { folder: join(base, "input"), belongs: (name: string) => name.startsWith(`${prefix}-`) },
  ];
  for (const { folder, belongs } of places) {
    const names = await readdir(folder).catch((error: unknown) => {
      if (isMissing(error)) return [];
      throw error;
    });
    for (const name of names.filter(belongs)) {
      const path = join(folder, name);
      // Its own run, or another runner, may have removed it since.
      const found = await lstat(path).catch((error: unknown) => {
        if (isMissing(error)) return undefined;
        throw error;
      });
      if (!found || now - found.mtimeMs < ORPHANED_MS) continue;
      await rm(path, { recursive: true, force: true });
      removed++;
    }
  }
  return removed;
}
