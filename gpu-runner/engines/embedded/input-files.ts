import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";

/** Larger files are refused before a byte is read; a picture of this size would not fit the pixel budget anyway. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;

type Opened =
  | { readonly ok: true; readonly file: FileHandle; readonly size: number }
  | { readonly ok: false; readonly message: string };

/** A bare name: no folder, nothing that a file system reads in another way. */
function isBareName(name: string): boolean {
  return name.length > 0 && name.length <= 255 && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}

/** Opens a regular file of the folder itself; a symbolic link is refused wherever it leads, and a pipe is never waited for. */
async function openInputFile(folder: string | undefined, name: string): Promise<Opened> {
  const shown = JSON.stringify(name.slice(0, 255));
  if (folder === undefined)
    return { ok: false, message: `This engine has no input files, so ${shown} can't be loaded.` };
  if (!isBareName(name)) {
    return {
      ok: false,
      message: `${shown} is not a file name: give the bare name of an input file, without a folder.`,
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
export async function inputFileProblem(folder: string | undefined, name: string): Promise<string | undefined> {
  const opened = await openInputFile(folder, name);
  if (!opened.ok) return opened.message;
  await opened.file.close();
  return undefined;
}

export async function readInputFile(
  folder: string | undefined,
  name: string,
): Promise<{ readonly ok: true; readonly bytes: Uint8Array } | { readonly ok: false; readonly message: string }> {
  const opened = await openInputFile(folder, name);
  if (!opened.ok) return opened;
  try {
    const bytes = new Uint8Array(opened.size);
    const { bytesRead } = await opened.file.read(bytes, 0, bytes.length, 0);
    return { ok: true, bytes: bytes.subarray(0, bytesRead) };
  } finally {
    await opened.file.close();
  }
}
