import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { callOperator } from "./operator.ts";
import { freePort } from "./ports.ts";
import { endLeftovers, forgetOwner, isOwned, recordOwner } from "./processes.ts";
import { RunnerStartError, startRunner } from "./runner.ts";
import { startService } from "./service.ts";
import {
  type DevelopmentAccount,
  type LocalFile,
  makeFolder,
  readAccount,
  secretsIn,
  writeAccount,
  writeLocal,
} from "./state.ts";

/** Everything on one machine: edge, runner, a development account on the Pro tier (design section 11). */
export interface Stack {
  readonly local: LocalFile;
  stop(): Promise<void>;
}

export interface StackOptions {
  /** The project's root, absolute. */
  readonly root: string;
  /** Where everything is kept, absolute. */
  readonly folder: string;
  readonly port?: number;
  readonly strict: boolean;
  say(line: string): void;
  /** Ends a start that is not done yet; it rejects when nothing of it is left. Default: it goes on. */
  readonly signal?: AbortSignal;
}

const SERVICE_PORT = 8787;
const RUNNER_PORT = 8090;
const LOCAL_SEATS = 2;

async function developmentAccount(
  folder: string,
  baseUrl: string,
  operator_token: string,
): Promise<DevelopmentAccount> {
  const known = await readAccount(folder);
  if (known) return known;
  const account = await callOperator<DevelopmentAccount>(baseUrl, operator_token, "POST", "/accounts", {
    email: "developer@example.com",
    tier: "pro",
  });
  await writeAccount(folder, account);
  return account;
}

/** Starts it all, or nothing: what was started is ended again when a later part fails. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { root, folder, port, strict, say, signal = new AbortController().signal } = options;
  await makeFolder(folder);
  if (await isOwned(folder)) throw new Error(`Darkroom is running already in ${folder}.`);
  const leftovers = await endLeftovers(folder);
  if (leftovers > 0) say(`ended ${leftovers} processes that an earlier start had left behind`);

  const logs = createWriteStream(join(folder, "log.txt"), { flags: "a", mode: 0o600 });
  const write = (who: string) => (line: string) => void logs.write(`${new Date().toISOString()} ${who} ${line}\n`);
  const stops: (() => Promise<unknown>)[] = [];
  let stopping = false;
  const stop = async (): Promise<void> => {
    stopping = true;
    for (const one of stops.reverse()) await one().catch((error: unknown) => say(String(error)));
    await forgetOwner(folder);
    logs.end();
  };
  try {
    const secrets = await secretsIn(folder);
    const service = await startService({
      root,
      storage: join(folder, "storage"),
      port: await freePort(port ?? SERVICE_PORT, port !== undefined, say),
      secrets,
      strict,
      log: write("worker"),
      onRestart: () => {
        if (stopping) return;
        say("workerd died and was started again; its jobs go on");
        void recordOwner(folder);
      },
    });
    stops.push(() => service.stop());
    await recordOwner(folder);
    const { baseUrl } = service;
    const { operator_token } = secrets;
    const account = await developmentAccount(folder, baseUrl, operator_token);
    signal.throwIfAborted();
    if (process.env.COMFYUI_URLS) say("waiting for a ComfyUI server to be ready (Ctrl-C ends this)");
    const launch = async (port: number) =>
      startRunner({
        root,
        data: join(folder, "runner"),
        edge: baseUrl,
        port,
        seats: LOCAL_SEATS,
        loopbackInputs: !strict,
        token: async () =>
          (await callOperator<{ token: string }>(baseUrl, operator_token, "POST", "/runner-tokens", {})).token,
        log: write("runner"),
        say,
        signal,
        onRestart: (how) => {
          say(`the runner ended (${how}); starting it again`);
          setTimeout(() => void recordOwner(folder), 1_000);
        },
      });
    const runnerPort = await freePort(RUNNER_PORT, false, say);
    const runner = await launch(runnerPort).catch(async (error: unknown) => {
      // Another start may have taken the port in between.
      if (!(error instanceof RunnerStartError && error.portTaken)) throw error;
      return launch(await freePort(0, false, say));
    });
    stops.push(() => runner.stop());
    await recordOwner(folder);
    const portal_url = `${baseUrl}/portal`;
    const local: LocalFile = { base_url: baseUrl, portal_url, ...account, runner_url: runner.url, operator_token };
    await writeLocal(folder, local);
    return { local, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
