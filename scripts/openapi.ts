import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openApiDocument } from "../schemas/openapi/document.ts";

/**
 * Writes the API's OpenAPI document where the service serves it from, or to the path that is given; with --check compares instead
 * and fails where they differ.
 */

const { values, positionals } = parseArgs({ options: { check: { type: "boolean" } }, allowPositionals: true });
const path = positionals[0] ?? join(import.meta.dirname, "..", "worker", "assets", "openapi.json");
const text = `${JSON.stringify(openApiDocument(), null, 2)}\n`;

if (values.check) {
  const committed = await readFile(path, "utf8").catch(() => "");
  if (committed !== text) {
    console.error(`${path} is not what the schemas say. Run \`npm run openapi\` and commit the result.`);
    process.exit(1);
  }
} else {
  await writeFile(path, text);
}
