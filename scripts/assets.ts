import { copyFile, mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";

/**
 * Puts the document viewer beside the page that uses it, so that the service serves it itself. Runs before every bundling
 * (wrangler.toml, `[build]`); a file that is there already is left alone, and none is ever half there for another run.
 */

const FILES = ["swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt", "swagger-ui.css", "LICENSE", "NOTICE"];

const root = join(import.meta.dirname, "..");
const source = join(root, "node_modules", "swagger-ui-dist");
const target = join(root, "worker", "assets", "docs", "viewer");
const scratch = join(root, "dist");

await mkdir(target, { recursive: true });
await mkdir(scratch, { recursive: true });
for (const file of FILES) {
  const wanted = await readFile(join(source, file));
  const there = await readFile(join(target, file)).catch(() => undefined);
  if (there?.equals(wanted)) continue;
  const temporary = join(scratch, `${file}.${process.pid}.tmp`);
  await copyFile(join(source, file), temporary);
  await rename(temporary, join(target, file));
}
