import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The titled code blocks of docs/webhooks.md, as files. */

export const ROOT = join(import.meta.dirname, "..", "..");
const DOCUMENT = join(ROOT, "docs", "webhooks.md");

/** Contents by title. */
export async function blocks(): Promise<ReadonlyMap<string, string>> {
  const text = await readFile(DOCUMENT, "utf8");
  const found = new Map<string, string>();
  for (const [, title = "", content = ""] of text.matchAll(/^```\w+ title="([^"]+)"\n([\s\S]*?)^```$/gm)) {
    if (found.has(title)) throw new Error(`docs/webhooks.md has two blocks called ${title}.`);
    found.set(title, content);
  }
  return found;
}

export async function block(title: string): Promise<string> {
  const content = (await blocks()).get(title);
  if (content === undefined) throw new Error(`docs/webhooks.md has no block called ${title}.`);
  return content;
}

/** A new folder with these blocks as files and the project's packages. */
export async function folderOf(...titles: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "darkroom-receivers-"));
  for (const title of titles) await writeFile(join(folder, title), await block(title));
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

export const removeFolder = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 5 });
