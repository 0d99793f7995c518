import { randomBytes, randomUUID } from "node:crypto";
import { access, rm } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../../log.ts";
import { Bell } from "./bell.ts";
import { type Client, type Device, type HistoryEntry, Unreachable } from "./client.ts";
import { clean, cleanOrphans } from "./cleaning.ts";
import { follow } from "./follow.ts";
import { type ObjectInfo, readObjectInfo } from "./object-info.ts";
import { filesIn } from "./outputs.ts";
import { openSocket } from "./socket.ts";
import type { Timings } from "./timings.ts";
import { type Abilities, abilitiesOf } from "./version.ts";
import { OUTPUT_PARENT, runNames, writeGraph } from "./write-graph.ts";
import { planGraph } from "./plan.ts";

/** What a server showed when it passed the gate. */
export interface ReadyServer {
  readonly version: string;
  readonly abilities: Abilities;
  readonly info: ObjectInfo;
  readonly devices: readonly Device[];
  /** Bytes that one upload may have. */
  readonly max_upload: number;
}

export type Passed =
  | { readonly ok: true; readonly server: ReadyServer }
  /** A sentence for the operator. */
  | { readonly ok: false; readonly reason: string };

export interface GateOptions {
  readonly client: Client;
  /** The folder that holds the server's `input`, `output` and `temp`, where the runner may reach it. */
  readonly folder?: string;
  /** Pictures must not tell their workflow: the server must run with `--disable-metadata`. */
  readonly strip: boolean;
  /** A workflow to run before any customer's, as JSON text: it loads models. Only after a start of the server. */
  readonly warmUp?: string;
  readonly timings: Timings;
  readonly signal: AbortSignal;
  log(line: string): void;
}

/** ComfyUI's own bound, unless it was started with another. */
const DEFAULT_MAX_UPLOAD = 100 * 1024 * 1024;

class Refused extends Error {}

/** Whether the folder that the runner was given is the one that the server writes to. */
async function proveFolder(client: Client, folder: string): Promise<void> {
  const filename = `${OUTPUT_PARENT}-probe-${randomBytes(16).toString("hex")}.txt`;
  const stored = await client.upload(Buffer.from("probe"), { filename, subfolder: "", type: "input" });
  const path = join(folder, "input", stored.filename);
  try {
    await access(path);
    await rm(path);
  } catch (error) {
    const cause = reasonOf(error).split(",")[0];
    throw new Refused(`its files can't be removed in ${folder}, which was given as its folder (${cause})`);
  }
}

/** A picture of 16 pixels that is made, shown and forgotten. */
const TRIALS = [
  { shows: "PreviewAny", input: "source" },
  { shows: "PreviewImage", input: "images" },
  { shows: "SaveImage", input: "images" },
] as const;

function trialGraph(info: ObjectInfo): string | undefined {
  const trial = TRIALS.find(({ shows }) => info.has(shows));
  if (!trial || !info.has("EmptyImage")) return undefined;
  const size = { width: 16, height: 16, batch_size: 1, color: 0 };
  return JSON.stringify({
    "1": { class_type: "EmptyImage", inputs: size },
    "2": { class_type: trial.shows, inputs: { [trial.input]: ["1", 0], filename_prefix: "trial" } },
  });
}

/** Executes a graph of the operator's own; rejects with the reason where it does not succeed in time. */
async function execute(text: string, what: string, ready: ReadyServer, most_ms: number, options: GateOptions) {
  const { client, folder, timings } = options;
  const { info, abilities } = ready;
  const names = runNames(randomBytes(16).toString("hex"));
  const planned = planGraph(text, info, new Set(info.keys()), { ownFiles: true });
  if (!planned.ok) throw new Refused(`${what} can't run: ${planned.error.message}`);
  const own_id = randomUUID();
  const bell = new Bell();
  const deadline = AbortSignal.any([options.signal, AbortSignal.timeout(most_ms)]);
  deadline.addEventListener("abort", () => bell.ring(), { once: true });
  let heard = performance.now();
  const socket = openSocket({
    url: client.url,
    client_id: own_id,
    message(message) {
      heard = performance.now();
      if (message.type === "ending") bell.ring();
    },
    lost: () => bell.ring(),
  });
  let entry: HistoryEntry | undefined;
  let prompt_id: string = own_id;
  try {
    const submitted = await client.submit(writeGraph(planned.plan, info, names, new Map()), {
      prompt_id: own_id,
      client_id: own_id,
    });
    if (!submitted.ok) throw new Refused(`it does not accept ${what} (${submitted.status})`);
    prompt_id = submitted.prompt_id;
    const ending = await follow({
      client,
      prompt_id,
      abilities,
      signal: deadline,
      bell,
      heard: () => heard,
      timings: { ...timings, stall_ms: Math.min(timings.stall_ms, most_ms / 2) },
    });
    if (ending.how !== "entry") throw new Refused(`${what} did not end in ${most_ms / 1000} s`);
    entry = ending.entry;
    const last = entry.messages.at(-1)?.data;
    if (!entry.succeeded) {
      const said = typeof last?.exception_message === "string" ? `: ${last.exception_message.trim()}` : "";
      throw new Refused(`${what} failed${said}`);
    }
  } finally {
    await socket.close();
    const files = entry ? filesIn(entry, { folder: names.folder, isTrusted: () => true }) : [];
    await clean(client, folder, { prompt_id, files, folder: names.folder }, (problem, cause) =>
      options.log(`${problem}: ${reasonOf(cause)}`),
    );
  }
}

async function inspect(options: GateOptions, first: boolean): Promise<ReadyServer> {
  const { client, folder, strip, warmUp, timings } = options;
  const { version, argv, devices } = await client.systemStats();
  if (strip && !argv.includes("--disable-metadata"))
    throw new Refused("metadata are to be left out, so it must run with --disable-metadata");
  const info = readObjectInfo(await client.objectInfo());
  if (!info) throw new Refused("it lists no node classes");
  const max_upload = (await client.maxUpload()) ?? DEFAULT_MAX_UPLOAD;
  const ready: ReadyServer = { version, abilities: abilitiesOf(version), info, devices, max_upload };
  if (folder !== undefined) {
    await proveFolder(client, folder);
    const removed = await cleanOrphans(folder, OUTPUT_PARENT, Date.now());
    if (removed > 0) options.log(`removed ${removed} files and folders of earlier runs`);
  }
  const trial = trialGraph(info);
  if (trial !== undefined) await execute(trial, "a trial picture", ready, timings.trial_ms, options);
  if (first && warmUp !== undefined) await execute(warmUp, "the warm-up workflow", ready, timings.warm_up_ms, options);
  return ready;
}

/**
 * Decides whether a server may be given work: it answers, its classes are known, its folder is the one that was given, its worker
 * executes a trial picture, and after a start of the server the warm-up workflow.
 * @param first the server is new, or has been restarted
 */
export async function passGate(options: GateOptions, first: boolean): Promise<Passed> {
  try {
    return { ok: true, server: await inspect(options, first) };
  } catch (error) {
    if (error instanceof Refused) return { ok: false, reason: error.message };
    if (error instanceof Unreachable) return { ok: false, reason: `it does not answer (${error.message})` };
    throw error;
  }
}
