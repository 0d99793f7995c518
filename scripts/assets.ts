import { copyFile, mkdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";

/**
 * Puts files of other packages beside the pages that use them, so that the service serves them itself. Runs before every bundling
 * (wrangler.toml, `[build]`); a file that is there already is left alone, and none is ever half there for another run.
 */

const FILES = {
  "docs/viewer": {
    from: "swagger-ui-dist",
    names: ["swagger-ui-bundle.js", "swagger-ui-bundle.js.LICENSE.txt", "swagger-ui.css", "LICENSE", "NOTICE"],
  },
  "portal/simple": { from: "simpledotcss", names: ["simple.min.css", "LICENSE"] },
} as const;

const root = join(import.meta.dirname, "..");
const scratch = join(root, "dist");

await mkdir(scratch, { recursive: true });
for (const [folder, { from, names }] of Object.entries(FILES)) {
  const target = join(root, "worker", "assets", folder);
  await mkdir(target, { recursive: true });
  for (const file of names) {
    const source = join(root, "node_modules", from, file);
    const wanted = await readFile(source);
    const there = await readFile(join(target, file)).catch(() => undefined);
    if (there?.equals(wanted)) continue;
    const temporary = join(scratch, `${file}.${process.pid}.tmp`);
    await copyFile(source, temporary);
    await rename(temporary, join(target, file));
  }
}
