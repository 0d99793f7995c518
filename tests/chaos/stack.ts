import { createWriteStream } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Access } from "./client.ts";
import { type ChaosEdge, startChaosEdge } from "./edge.ts";
import { Lines } from "./lines.ts";
import { ACCOUNTS } from "./load.ts";
import { isRunnerFault, isWorkerFault } from "./log-faults.ts";
import { lastingPort } from "./ports.ts";
import { type ProxyOptions, startProxy } from "./proxy.ts";
import { type RunnerProcess, runnerProcess } from "./runner-process.ts";
import { RUNNERS } from "./schedule.ts";
import { Traffic } from "./traffic.ts";

/** The real service, four real runners, and a proxy on every line between them. */
export interface ChaosStack {
  readonly edge: ChaosEdge;
  readonly accounts: readonly ChaosAccount[];
  readonly runners: readonly RunnerProcess[];
  readonly lines: Lines;
  readonly traffic: Traffic;
  /** Folders of executions that the runners have not removed. */
  scratch(): Promise<readonly string[]>;
  /** Idempotent. */
  stop(): Promise<void>;
}

export interface ChaosAccount {
  readonly account_id: string;
  readonly webhook_secret: string;
  readonly keys: readonly Access[];
}

export interface ChaosStackOptions {
  readonly root: string;
  /** Absolute path: storage, identities and logs. */
  readonly folder: string;
  say(line: string): void;
  /** Something happened that no fault explains. */
  unexpected(what: string): void;
}

const SEATS = 2;

async function makeAccount({ direct, operate }: ChaosEdge, n: number): Promise<ChaosAccount> {
  const { tier, keys: count } = ACCOUNTS[n] ?? { tier: "pro", keys: 1 };
  const made = await operate<{ account_id: string; api_key: string; webhook_secret: string }>("POST", "/accounts", {
    email: `chaos-${n}@example.com`,
    tier,
  });
  const keys = [made.api_key];
  while (keys.length < count) {
    const path = `/accounts/${made.account_id}/keys`;
    keys.push((await operate<{ api_key: string }>("POST", path, { name: "another" })).api_key);
  }
  return { ...made, keys: keys.map((api_key) => ({ base_url: direct, api_key })) };
}

/** Starts it all, or nothing. */
export async function startChaosStack({ root, folder, say, unexpected }: ChaosStackOptions): Promise<ChaosStack> {
  const stops: (() => Promise<unknown>)[] = [];
  let stopped: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    stopped ??= (async () => {
      for (const one of stops.toReversed()) await one().catch((error: unknown) => say(String(error)));
    })();
    return stopped;
  };
  const logTo = (name: string, isFault: (line: string) => boolean) => {
    const stream = createWriteStream(join(folder, `${name}.log`), { flags: "a" });
    stops.push(async () => stream.end());
    return (line: string): void => {
      stream.write(`${new Date().toISOString()} ${line}\n`);
      if (isFault(line)) unexpected(`${name} logged: ${line}`);
    };
  };
  const lines = new Lines();
  const traffic = new Traffic();
  /** The address of a proxy before that port. */
  const proxied = async (target: number, answered: ProxyOptions["answered"]): Promise<string> => {
    const proxy = await startProxy({ target, judge: (message) => lines.judge(message), answered });
    stops.push(() => proxy.close());
    return proxy.url;
  };

  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const port = await lastingPort();
    const baseUrl = await proxied(port, (message, answer) => traffic.toEdge(message, answer));
    const log = logTo("worker", isWorkerFault);
    const edge = await startChaosEdge({ root, storage: join(folder, "storage"), port, baseUrl, log, say });
    stops.push(() => edge.stop());
    const accounts = await Promise.all(ACCOUNTS.map((_, n) => makeAccount(edge, n)));

    const startRunner = async (n: number): Promise<RunnerProcess> => {
      const name = `runner-${n}`;
      const listen = await lastingPort();
      const url = await proxied(listen, (message, answer) => traffic.toRunner(n, message, answer, Date.now()));
      const { token } = await edge.operate<{ token: string }>("POST", "/runner-tokens", {});
      const runner = runnerProcess({
        root,
        data: join(folder, name),
        name,
        edge: baseUrl,
        url,
        port: listen,
        seats: SEATS,
        token,
        log: logTo(name, isRunnerFault),
        onDeath: (how) => unexpected(`${name} ended by itself (${how})`),
      });
      stops.push(() => runner.stop());
      await runner.start();
      return runner;
    };
    const runners = await Promise.all(Array.from({ length: RUNNERS }, (_, n) => startRunner(n)));
    return {
      edge,
      accounts,
      runners,
      lines,
      traffic,
      async scratch() {
        const folders = runners.map((_, n) => join(folder, `runner-${n}`, "scratch"));
        return (await Promise.all(folders.map((path) => readdir(path).catch(() => [])))).flat();
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
