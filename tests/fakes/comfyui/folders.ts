import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";

export const FOLDER_TYPES = ["input", "output", "temp"] as const;
export type FolderType = (typeof FOLDER_TYPES)[number];

export const isFolderType = (value: string): value is FolderType => (FOLDER_TYPES as readonly string[]).includes(value);

export const isInside = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(`${folder}${sep}`);

/** The server's three folders of files. */
export class Folders {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
    for (const type of FOLDER_TYPES) mkdirSync(this.of(type), { recursive: true });
  }

  of(type: FolderType): string {
    return join(this.root, type);
  }

  emptyTemp(): void {
    rmSync(this.of("temp"), { recursive: true, force: true });
    mkdirSync(this.of("temp"), { recursive: true });
  }

  /** Every file as "output/sub/name.png", sorted. */
  list(): string[] {
    return readdirSync(this.root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(this.root, join(entry.parentPath, entry.name)))
      .sort();
  }

  /** The names of the files that lie directly in a folder, sorted. */
  names(type: FolderType): string[] {
    return readdirSync(this.of(type), { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => entry.name)
      .sort();
  }

  /** The path of "sub/name.png [temp]"; undefined where it leaves the folder or is no file. */
  annotated(name: string, fallback: FolderType = "input"): string | undefined {
    const { name: plain, type } = annotation(name);
    const folder = this.of(type ?? fallback);
    const path = resolve(folder, plain);
    return isInside(folder, path) && existsSync(path) && statSync(path).isFile() ? path : undefined;
  }
}

/** "name [temp]" is "name" of the folder temp. */
export function annotation(name: string): { readonly name: string; readonly type?: FolderType } {
  for (const type of FOLDER_TYPES) {
    const suffix = ` [${type}]`;
    if (name.endsWith(suffix)) return { name: name.slice(0, -suffix.length), type };
  }
  return { name };
}
