import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { unstable_getMiniflareWorkerOptions } from "wrangler";
import { bundleWorker } from "../../scripts/local/bundle.ts";
import { freePort } from "../../scripts/local/ports.ts";
import { commandOf } from "../debian.ts";
import { folderOf, removeFolder } from "./document.ts";

/** The receivers of docs/webhooks.md, started as the page says. */

const START_TIMEOUT_MS = 20_000;

/** A receiver that runs. */
export interface Running {
  readonly port: number;
  /** The lines that it has printed. */
  printed(): readonly string[];
  stop(): Promise<void>;
}

export interface DocumentedReceiver {
  /** The title of its code block. */
  readonly title: string;
  /** Its answer to a body without Content-Length. */
  readonly toChunked: 204 | 411;
  start(secrets: string): Promise<Running>;
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

const linesOf = (text: string): string[] => text.split("\n").filter((line) => line !== "");

async function startProcess(command: string, title: string, secrets: string): Promise<Running> {
  const folder = await folderOf(title);
  const port = await freePort(0, true, () => {});
  const child = spawn(command, [join(folder, title)], {
    cwd: folder,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, WEBHOOK_SECRETS: secrets, PORT: String(port) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = once(child, "exit");
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const stop = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exit;
    await removeFolder(folder);
  };
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (!(await accepts(port))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop();
      throw new Error(`${title} does not listen:\n${stderr}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return { port, printed: () => linesOf(stdout), stop };
}

async function startWorker(secrets: string): Promise<Running> {
  const folder = await folderOf("worker.ts", "wrangler.toml");
  const bundle = await bundleWorker(folder, "worker.ts");
  const { workerOptions } = unstable_getMiniflareWorkerOptions(join(folder, "wrangler.toml"));
  const { modulesRules: _rules, rootPath: _root, ...rest } = workerOptions;
  const lines: string[] = [];
  const mf = new Miniflare(
    convertV4MiniflareOptions({
      host: "127.0.0.1",
      port: 0,
      cf: false,
      logRequests: false,
      telemetry: { enabled: false },
      handleStructuredLogs: ({ message }) => lines.push(...linesOf(message)),
      workers: [
        {
          ...rest,
          name: "receiver",
          rootPath: bundle.folder,
          modulesRoot: bundle.folder,
          modules: [{ type: "ESModule", path: join(bundle.folder, bundle.file) }],
          bindings: { WEBHOOK_SECRETS: secrets },
        },
      ],
    }),
  );
  const { port } = await mf.ready;
  return {
    port: Number(port),
    printed: () => lines,
    stop: async () => {
      await mf.dispose();
      await removeFolder(folder);
    },
  };
}

const inNode = (title: string): DocumentedReceiver => ({
  title,
  toChunked: 204,
  start: (secrets) => startProcess(process.execPath, title, secrets),
});

export const RECEIVERS: readonly DocumentedReceiver[] = [
  inNode("receiver.mjs"),
  inNode("express-receiver.mjs"),
  inNode("standard-receiver.mjs"),
  {
    title: "receiver.py",
    toChunked: 411,
    start: async (secrets) => startProcess(await commandOf("python3", "python3"), "receiver.py", secrets),
  },
  { title: "worker.ts", toChunked: 204, start: startWorker },
];
