import { readFile } from "node:fs/promises";
import { within } from "../../gpu-runner/pause.ts";
import { callOperator } from "../../scripts/local/operator.ts";
import { childrenOf } from "../../scripts/local/processes.ts";
import { startService } from "../../scripts/local/service.ts";
import { newSecrets } from "../../scripts/local/state.ts";
import { DEFAULT_POOL } from "../../schemas/ids.ts";
import type { FleetStatus, RunnerView } from "../../worker/fleet/views.ts";
import type { AccountState, StoredObject } from "./inspection.ts";

/** The service on workerd, with the verbs of tests/worker/chaos-entry.ts, to be killed and looked into. */
export interface ChaosEdge {
  /** Straight to the service, past the proxy. */
  readonly direct: string;
  /** SIGKILL, as soon as it runs; it is started again by itself. Resolves with false where it does not run for too long. */
  kill(): Promise<boolean>;
  /** A fault of an object. Rejects when the service does not answer. */
  strike(verb: "evict-fleet" | "evict-account" | "poison", name?: string): Promise<void>;
  operate<T>(method: "GET" | "POST", path: string, body?: Record<string, unknown>): Promise<T>;
  fleet(): Promise<{ status: FleetStatus; runners: readonly RunnerView[] }>;
  account(account_id: string): Promise<AccountState>;
  /** What R2 holds below `o/` (outputs) or `prompts/`. */
  stored(room: "o" | "prompts"): Promise<readonly StoredObject[]>;
  stop(): Promise<void>;
}

export interface ChaosEdgeOptions {
  readonly root: string;
  /** Absolute path. */
  readonly storage: string;
  readonly port: number;
  /** The service's own address: the proxy before it. */
  readonly baseUrl: string;
  log(line: string): void;
  say(line: string): void;
}

const CALL_TIMEOUT_MS = 10_000;
const RESTART_TIMEOUT_MS = 60_000;

async function isWorkerd(pid: number): Promise<boolean> {
  const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return (command.split("\0")[0] ?? "").endsWith("workerd");
}

export async function startChaosEdge(options: ChaosEdgeOptions): Promise<ChaosEdge> {
  const { root, storage, port, baseUrl, log, say } = options;
  const direct = `http://127.0.0.1:${port}`;
  const secrets = await newSecrets();
  // Miniflare gives up a runtime that dies while it is being started again.
  let restarted = Promise.withResolvers<void>();
  restarted.resolve();
  const service = await startService({
    root,
    entry: "tests/worker/chaos-entry.ts",
    storage,
    port,
    baseUrl,
    secrets,
    strict: false,
    log,
    onRestart: () => {
      say("workerd runs again");
      restarted.resolve();
    },
  });

  async function call<T>(path: string): Promise<T> {
    const response = await fetch(`${direct}/chaos/${path}`, { signal: AbortSignal.timeout(CALL_TIMEOUT_MS) });
    if (!response.ok) throw new Error(`/chaos/${path} was answered ${response.status}.`);
    return (await response.json()) as T;
  }
  const operate = <T>(method: "GET" | "POST", path: string, body?: Record<string, unknown>): Promise<T> =>
    callOperator<T>(direct, secrets.operator_token, method, path, body);

  return {
    direct,
    async kill() {
      await within(RESTART_TIMEOUT_MS, restarted.promise);
      for (const pid of await childrenOf(process.pid)) {
        if (!(await isWorkerd(pid))) continue;
        restarted = Promise.withResolvers<void>();
        process.kill(pid, "SIGKILL");
        return true;
      }
      return false;
    },
    strike: (verb, name = DEFAULT_POOL) => call(`${verb}/${name}`),
    operate,
    async fleet() {
      const status = await operate<FleetStatus>("GET", "/fleet");
      const { runners } = await operate<{ runners: RunnerView[] }>("GET", "/runners");
      return { status, runners };
    },
    account: (account_id) => call(`account/${account_id}`),
    stored: (room) => call(`stored/${room}`),
    stop: () => service.stop(),
  };
}
