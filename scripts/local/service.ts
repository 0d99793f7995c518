import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Miniflare } from "miniflare";
import { unstable_splitSqlQuery } from "wrangler";
import { sha256 } from "../../schemas/signed-request.ts";
import { keepingStopSignals } from "./signals.ts";
import type { Secrets } from "./state.ts";
import { bundledWorker, workerdOptions } from "./workerd.ts";

/** The edge on this machine: the bundled Worker on workerd, with everything it stores in one folder. */
export interface LocalService {
  readonly baseUrl: string;
  stop(): Promise<void>;
}

export interface LocalServiceOptions {
  readonly root: string;
  /** Absolute path; holds databases, objects and their alarms. */
  readonly storage: string;
  readonly port: number;
  readonly secrets: Secrets;
  readonly strict: boolean;
  /** The Worker's entry, a path below the root. Default: worker/local.ts. */
  readonly entry?: string;
  /** The service's own address, where something else than its port stands between it and those who call it. */
  readonly baseUrl?: string;
  /** The Worker's own log lines. */
  log(line: string): void;
  /** workerd died and was started again. */
  onRestart(): void;
}

/** Applies the directory's migrations that the database does not have yet, as a deployment's `wrangler d1 migrations apply` does. */
async function migrateDirectory(mf: Miniflare, root: string): Promise<void> {
  const db = await mf.getD1Database("DIRECTORY");
  await db
    .prepare(
      "CREATE TABLE IF NOT EXISTS d1_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL)",
    )
    .run();
  const { results } = await db.prepare("SELECT name FROM d1_migrations").all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  const folder = join(root, "worker", "directory", "migrations");
  for (const name of (await readdir(folder)).filter((file) => file.endsWith(".sql")).sort()) {
    if (applied.has(name)) continue;
    const statements = unstable_splitSqlQuery(await readFile(join(folder, name), "utf8"));
    await db.batch([
      ...statements.map((sql) => db.prepare(sql)),
      db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
    ]);
  }
}

/** The portal's sign-in, as the environment has it. */
const signInSettings = (): Record<string, string> =>
  Object.fromEntries(
    ["OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "OPERATORS", "OPERATOR_ROLE", "SIGN_UP"].flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );

export async function startService(options: LocalServiceOptions): Promise<LocalService> {
  const { root, storage, port, secrets, strict, log, onRestart } = options;
  const worker = await bundledWorker(root, options.entry ?? "worker/local.ts");
  const baseUrl = options.baseUrl ?? `http://127.0.0.1:${port}`;
  const settings = {
    ...workerdOptions(worker, {
      storage,
      port,
      bindings: {
        PUBLIC_BASE_URL: baseUrl,
        EDGE_SIGNING_KEY: secrets.EDGE_SIGNING_KEY,
        OUTPUT_URL_KEY: secrets.OUTPUT_URL_KEY,
        SESSION_KEY: secrets.SESSION_KEY,
        SIGN_UP: "open",
        ...signInSettings(),
        OPERATOR_TOKEN_HASHES: await sha256(secrets.operator_token),
        LOCAL_STRICT: strict ? "1" : "0",
      },
      log,
    }),
    unsafeHandleRuntimeRestart: onRestart,
  };
  const mf = keepingStopSignals(() => new Miniflare(settings));
  await mf.ready;
  await migrateDirectory(mf, root);
  return { baseUrl, stop: () => mf.dispose() };
}
