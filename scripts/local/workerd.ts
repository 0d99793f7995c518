import { join } from "node:path";
import { convertV4MiniflareOptions, type MiniflareOptions, type V4WorkerOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { bundleWorker } from "./bundle.ts";

/**
 * Bundles the Worker, with all that wrangler.toml gives it.
 * @param entry a path below the root
 */
export async function bundledWorker(root: string, entry: string): Promise<V4WorkerOptions> {
  const bundle = await bundleWorker(root, entry);
  const { workerOptions } = unstable_getMiniflareWorkerOptions(join(root, "wrangler.toml"));
  const { modulesRules: _rules, rootPath: _root, ...configured } = workerOptions;
  return {
    ...configured,
    name: "darkroom",
    rootPath: bundle.folder,
    modulesRoot: bundle.folder,
    modules: [{ type: "ESModule", path: join(bundle.folder, bundle.file) }],
  };
}

export interface WorkerdOptions {
  /** Absolute path; holds databases, objects and their alarms. */
  readonly storage: string;
  /** Default: any that is free. */
  readonly port?: number;
  /** In the place of those of the same name in wrangler.toml, or besides them. */
  readonly bindings?: V4WorkerOptions["bindings"];
  readonly durableObjects?: V4WorkerOptions["durableObjects"];
  /** The Worker's own log lines. */
  log(line: string): void;
}

/** workerd on this machine with one Worker: only loopback reaches it, and everything is stored in one folder. */
export function workerdOptions(worker: V4WorkerOptions, options: WorkerdOptions): MiniflareOptions {
  const { storage, port, log } = options;
  const bindings = { ...worker.bindings, ...options.bindings };
  const durableObjects = { ...worker.durableObjects, ...options.durableObjects };
  return convertV4MiniflareOptions({
    host: "127.0.0.1",
    ...(port === undefined ? {} : { port }),
    cf: false,
    logRequests: false,
    telemetry: { enabled: false },
    resourcePersistencePath: storage,
    handleStructuredLogs: ({ level, message }) => log(`${level} ${message}`),
    workers: [{ ...worker, bindings, durableObjects }],
  });
}
