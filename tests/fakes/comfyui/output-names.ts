import { mkdirSync, readdirSync } from "node:fs";
import { basename, dirname, join, normalize, resolve } from "node:path";
import { type Folders, type FolderType, isInside } from "./folders.ts";
import { PythonError } from "./python-error.ts";

export interface OutputName {
  readonly folder: string;
  readonly subfolder: string;
  /** The prefix without its folders. */
  readonly name: string;
  /** One more than the highest in the folder, whatever the extension. */
  readonly counter: number;
}

function highest(folder: string, name: string): number {
  const counters = readdirSync(folder)
    .filter((file) => file.startsWith(`${name}_`))
    .map((file) => Number.parseInt(file.slice(name.length + 1).split("_")[0] ?? "", 10))
    .filter((counter) => !Number.isNaN(counter));
  return Math.max(0, ...counters);
}

function filled(prefix: string, width: number, height: number): string {
  const now = new Date();
  const two = (value: number) => String(value).padStart(2, "0");
  const values: Record<string, string> = {
    width: String(width),
    height: String(height),
    year: String(now.getFullYear()),
    month: two(now.getMonth() + 1),
    day: two(now.getDate()),
    hour: two(now.getHours()),
    minute: two(now.getMinutes()),
    second: two(now.getSeconds()),
  };
  return prefix.replaceAll(/%(\w+)%/g, (whole, key: string) => values[key] ?? whole);
}

/** `get_save_image_path`: where a node writes under its prefix; refuses to leave the folder. */
export function outputName(folders: Folders, type: FolderType, prefix: string, width = 0, height = 0): OutputName {
  const root = folders.of(type);
  const path = normalize(filled(prefix, width, height));
  const subfolder = dirname(path) === "." ? "" : dirname(path);
  const folder = resolve(root, subfolder);
  if (!isInside(root, folder)) {
    const text = `**** ERROR: Saving image outside the output folder is not allowed.\n full_output_folder: ${folder}\n         output_dir: ${root}`;
    throw new PythonError("Exception", text);
  }
  mkdirSync(folder, { recursive: true });
  const name = basename(path);
  return { folder, subfolder, name, counter: highest(folder, name) + 1 };
}

export const numbered = (name: string, counter: number, extension: string): string =>
  `${name}_${String(counter).padStart(5, "0")}_.${extension}`;

export const pathIn = (at: OutputName, file: string): string => join(at.folder, file);
