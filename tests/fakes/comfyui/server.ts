import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Models } from "./classes/models.ts";
import { Folders } from "./folders.ts";
import { type Door, type ReceivedRequest, serve, upgrade } from "./http-door.ts";
import { goodDay, type Knobs } from "./knobs.ts";
import { systemStats } from "./machine-stats.ts";
import { isObject, type Json, loads } from "./python-json.ts";
import type { Reply } from "./reply.ts";
import { ServerProcess } from "./server-process.ts";

const MAX_UPLOAD_BYTES = 100 * 2 ** 20;
/** What a process that ends by itself still has time for: the reply to the prompt that it dies of. */
const DYING_MS = 20;
const ARGV = ["main.py", "--listen", "127.0.0.1", "--disable-api-nodes"];

export interface FakeComfyuiOptions {
  /** Decides how it behaves; 0.33.0, that of the recordings, unless given. */
  readonly version?: string;
  readonly port?: number;
  /** Absolute: files lie in <folder>/{input,output,temp}. A folder of its own, removed at close, unless given. */
  readonly folder?: string;
  /** The file names that loaders list, by class and input. */
  readonly models?: Models;
  /** One CUDA device in `/system_stats`, or only the processor. */
  readonly gpu?: boolean;
  readonly argv?: readonly string[];
  readonly maxUploadSize_bytes?: number;
}

/** A prompt as it came in with `POST /prompt`, accepted or not. */
export interface SubmittedPrompt {
  /** The id that the server gave or took over; undefined of a refused prompt. */
  readonly prompt_id: string | undefined;
  readonly client_id: string | undefined;
  readonly graph: Json;
  readonly extra_data: Json;
  readonly body: Json;
}

export interface FakeComfyui {
  readonly url: string;
  readonly folder: string;
  /** Everything received, in order; JSON bodies are parsed. */
  readonly requests: readonly ReceivedRequest[];
  /** Every prompt submitted, in order, over all restarts. */
  readonly prompts: readonly SubmittedPrompt[];
  readonly knobs: Knobs;
  /** How many sockets are open. */
  sockets(): number;
  /** Ends all sockets without a close frame. */
  dropSockets(): void;
  /** As SIGKILL: sockets end, the port refuses, queue and history are lost. */
  die(): Promise<void>;
  /** Up again on the same port, ending what still runs: numbers start at 0, input and output are kept, temp is emptied. */
  restart(): Promise<void>;
  /** Takes connections and answers nothing, until `resume`. */
  hang(): void;
  resume(): void;
  /** Every file, as "output/sub/name.png". */
  files(): readonly string[];
  history(): readonly string[];
  queued(): readonly string[];
  running(): string | undefined;
  close(): Promise<void>;
}

function parsed(body: Buffer): Json | undefined {
  try {
    return loads(body.toString());
  } catch {
    return undefined;
  }
}

const asString = (value: Json | undefined): string | undefined => (typeof value === "string" ? value : undefined);

/** Plays ComfyUI on loopback: HTTP, sockets, one worker that runs the prompts, files on disk. */
export async function startFakeComfyui(options: FakeComfyuiOptions = {}): Promise<FakeComfyui> {
  const { version = "0.33.0", models = {}, gpu = true, argv = ARGV, maxUploadSize_bytes = MAX_UPLOAD_BYTES } = options;
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), "fake-comfyui-"));
  const folders = new Folders(folder);
  const requests: ReceivedRequest[] = [];
  const prompts: SubmittedPrompt[] = [];
  const settings = goodDay();
  let vramChange = 0;
  let process = startProcess();
  let server: Server | undefined;
  let port = options.port ?? 0;

  function startProcess(): ServerProcess {
    folders.emptyTemp();
    return new ServerProcess({
      version,
      folders,
      models,
      knobs: settings,
      maxUploadSize_bytes,
      died: () => setTimeout(() => void stop(), DYING_MS),
    });
  }

  function received(request: ReceivedRequest, bytes: Buffer): void {
    const body = bytes.length > 0 ? (parsed(bytes) ?? bytes) : undefined;
    requests.push(body === undefined ? request : { ...request, body });
  }

  function submitted(bytes: Buffer, reply: Reply): void {
    const body = parsed(bytes);
    if (!isObject(body)) return;
    const answer = parsed(Buffer.from(reply.body ?? ""));
    const prompt_id = isObject(answer) ? asString(answer.prompt_id) : undefined;
    const { prompt = null, extra_data = null } = body;
    prompts.push({ prompt_id, client_id: asString(body.client_id), graph: prompt, extra_data, body });
  }

  function door(): Door {
    const stats = () => {
      vramChange += settings.vramStep;
      return systemStats(version, argv, gpu, vramChange);
    };
    return { world: { process, folders, knobs: settings, maxUploadSize_bytes, stats }, received, submitted };
  }

  async function listen(): Promise<void> {
    const own = door();
    const started = createServer((request, response) => void serve(request, response, own));
    started.on("upgrade", (request, stream, head) => void upgrade(request, stream as Socket, head, own));
    started.on("clientError", (_, stream) => stream.destroy());
    await new Promise<void>((resolve, reject) => {
      started.once("error", reject);
      started.listen(port, "127.0.0.1", resolve);
    });
    server = started;
    port = (started.address() as AddressInfo).port;
  }

  async function stop(): Promise<void> {
    const running = server;
    server = undefined;
    const killed = process.kill();
    const closed = new Promise((resolve) => (running === undefined ? resolve(undefined) : running.close(resolve)));
    running?.closeAllConnections();
    await Promise.all([killed, closed]);
  }

  await listen();
  const knobs: Knobs = Object.assign(settings, {
    losesPrompt: (prompt_id?: string) => process.losePrompt(prompt_id),
    killsWorker: () => process.killWorker(),
  });

  return {
    url: `http://127.0.0.1:${port}`,
    folder,
    requests,
    prompts,
    knobs,
    sockets: () => process.sockets.count,
    dropSockets: () => process.sockets.drop(),
    die: stop,
    async restart() {
      await stop();
      process = startProcess();
      await listen();
    },
    hang: () => process.hang(),
    resume: () => process.resume(),
    files: () => folders.list(),
    history: () => process.history.ids,
    queued: () => process.queue.pending.map(({ prompt_id }) => prompt_id),
    running: () => process.queue.running?.prompt_id,
    async close() {
      await stop();
      if (options.folder === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}
