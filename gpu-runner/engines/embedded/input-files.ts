import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";

/** Larger files are refused before a byte is read; a picture of this size would not fit the pixel budget anyway. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;

type Opened =
  | { readonly ok: true; readonly file: FileHandle; readonly size: number }
  | { readonly ok: false; readonly message: string };

/** A bare name: no folder, nothing that a file system reads in another way. */
function isBareName(name: string): boolean {
  return name.length > 0 && name.length <= 255 && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}

/** Where LoadImage finds what a graph names. */
export interface InputFiles {
  /** Absolute path of the folder whose files may be named; undefined where there is none. */
  readonly folder: string | undefined;
  /** Absolute paths of fetched files, by the URLs that name them. */
  readonly fetched: ReadonlyMap<string, string>;
}

/** Opens a regular file of the folder itself; a symbolic link is refused wherever it leads, and a pipe is never waited for. */
async function openInputFile({ folder, fetched }: InputFiles, name: string): Promise<Opened> {
  const path = fetched.get(name);
  if (path !== undefined) {
    const file = await open(path);
    return { ok: true, file, size: (await file.stat()).size };
  }
  const shown = JSON.stringify(name.slice(0, 255));
  if (folder === undefined)
    return { ok: false, message: `This engine has no input files, so ${shown} can't be loaded. Give an https: URL.` };
  if (!isBareName(name)) {
    return {
      ok: false,
      message: `${shown} is no input: give the https: URL of a picture, or the bare name of an input file.`,
    };
  }
  const missing = `There is no input file ${shown}: give the name of a file in the runner's inputs folder.`;
  try {
    const file = await open(join(folder, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stat = await file.stat();
    if (stat.isFile() && stat.size <= MAX_FILE_BYTES) return { ok: true, file, size: stat.size };
    await file.close();
    return {
      ok: false,
      message: stat.isFile() ? `The input file ${shown} is larger than ${MAX_FILE_BYTES} bytes.` : missing,
    };
  } catch {
    return { ok: false, message: missing };
  }
}

/** Why a file can't be loaded, in words for the customer; undefined when it can. */
export async function inputFileProblem(files: InputFiles, name: string): Promise<string | undefined> {
  const opened = await openInputFile(files, name);
  if (!opened.ok) return opened.message;
  await opened.file.close();
  return undefined;
}

export async function readInputFile(
  files: InputFiles,
  name: string,
): Promise<{ readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly message: string }> {
  const opened = await openInputFile(files, name);
  if (!opened.ok) return opened;
  try {
    const bytes = new Uint8Array(opened.size);
    const { bytesRead } = await opened.file.read(bytes, 0, bytes.length, 0);
    return { ok: true, bytes: bytes.subarray(0, bytesRead) };
  } finally {
    await opened.file.close();
  }
}
