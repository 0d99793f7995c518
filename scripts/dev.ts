import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sha256 } from "../schemas/signed-request.ts";
import { freePort } from "./local/ports.ts";
import { makeFolder, secretsIn } from "./local/state.ts";

/**
 * The Worker alone under `wrangler dev`, which reloads it when a file changes. Its state is not that of `npm start`; a runner is
 * enrolled by hand, as the lines that it prints say.
 */

const PORT = 8787;
const root = join(import.meta.dirname, "..");
const folder = join(root, ".darkroom", "dev");
const wrangler = join(root, "node_modules", "wrangler", "bin", "wrangler.js");
const env = {
  ...process.env,
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  X_LOCAL_OBSERVABILITY: "false",
};

function run(args: readonly string[], quiet = false): Promise<number> {
  const child = spawn(process.execPath, [wrangler, ...args], {
    cwd: root,
    env: quiet ? { ...env, CI: "1" } : env,
    stdio: quiet ? ["ignore", "ignore", "inherit"] : "inherit",
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });
}

await makeFolder(join(root, ".darkroom"));
await makeFolder(folder);
const secrets = await secretsIn(folder);
const port = await freePort(PORT, false, console.log);
const base = `http://127.0.0.1:${port}`;
const variables = {
  PUBLIC_BASE_URL: base,
  EDGE_SIGNING_KEY: secrets.EDGE_SIGNING_KEY,
  OUTPUT_URL_KEY: secrets.OUTPUT_URL_KEY,
  OPERATOR_TOKEN_HASHES: await sha256(secrets.operator_token),
};
const file = join(folder, "variables.env");
const lines = Object.entries(variables).map(([name, value]) => `${name}='${value}'\n`);
await writeFile(file, lines.join(""), { mode: 0o600 });

const storage = join(folder, "storage");
const migrated = await run(["d1", "migrations", "apply", "DIRECTORY", "--local", "--persist-to", storage], true);
if (migrated !== 0) process.exit(migrated);
const admin = `DARKROOM_URL=${base} DARKROOM_OPERATOR_TOKEN=${secrets.operator_token} npm run --silent admin --`;
console.log(`
An account and an API key:   ${admin} accounts create --email a@example.com --tier pro
A token for a runner:        ${admin} runners token
A runner:                    npm run runner -- --edge ${base} --url http://127.0.0.1:8090 --listen 127.0.0.1:8090 --token TOKEN
`);
const dev = ["dev", "worker/local.ts", "--local", "--ip", "127.0.0.1", "--port", String(port), "--inspector-port", "0"];
process.exit(await run([...dev, "--persist-to", storage, "--env-file", file, "--show-interactive-dev-session=false"]));
