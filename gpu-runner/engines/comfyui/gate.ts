import { createHash, randomBytes, randomUUID } from "node:crypto";
import { readFile, rm } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { reasonOf } from "../../log.ts";
import { pause } from "../../pause.ts";
import { Bell } from "./bell.ts";
import { cancelPrompt } from "./cancel.ts";
import { clean, cleanOrphans } from "./cleaning.ts";
import { type Client, type Device, type HistoryEntry, type ServerFile, Unreachable } from "./client.ts";
import { type Ending, follow } from "./follow.ts";
import { type ObjectInfo, readObjectInfo } from "./object-info.ts";
import { filesIn } from "./outputs.ts";
import { planGraph } from "./plan.ts";
import { openSocket } from "./socket.ts";
import type { Timings } from "./timings.ts";
import { type Abilities, abilitiesOf } from "./version.ts";
import { OUTPUT_PARENT, runNames, writeGraph } from "./write-graph.ts";

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
  /** A sentence for the operator. `gone`: nothing listens there, so what comes back is a new process. */
  | { readonly ok: false; readonly reason: string; readonly gone: boolean };

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

class Gone extends Refused {}

/** ComfyUI's words for a failure may be pages; the operator's line has room for their beginning. */
const MAX_SAID = 300;

/** The first words of a fault of the file system: `EACCES: permission denied`. */
const faultOf = (error: unknown): string => reasonOf(error).split(",")[0] ?? "";

/**
 * Whether the folder that the runner was given is the one that the server writes to, and what the server writes there can be
 * removed. The names are the same each time: a server that never passes does not fill up.
 */
async function proveFolder(client: Client, folder: string): Promise<void> {
  const prober = createHash("sha256").update(`${hostname()}\0${folder}`).digest("hex").slice(0, 32);
  const filename = `${OUTPUT_PARENT}-probe-${prober}.txt`;
  const own = `${OUTPUT_PARENT}/probe-${prober}`;
  const probes: readonly ServerFile[] = [
    { filename, subfolder: "", type: "input" },
    { filename, subfolder: own, type: "output" },
    { filename, subfolder: "", type: "temp" },
  ];
  for (const probe of probes) {
    const content = randomBytes(16).toString("hex");
    await client.upload(Buffer.from(content), probe);
    const path = join(folder, probe.type, probe.subfolder, filename);
    const found = await readFile(path, "utf8").catch(faultOf);
    if (found !== content)
      throw new Refused(`${folder} was given as its folder, but its ${probe.type} files do not come there`);
    try {
      await rm(path);
      if (probe.type === "output") await rm(join(folder, "output", own), { recursive: true });
    } catch (error) {
      throw new Refused(`its ${probe.type} files in ${folder} can't be removed by this runner (${faultOf(error)})`);
    }
  }
}

async function removeOrphans({ folder, log }: GateOptions): Promise<void> {
  if (folder === undefined) return;
  try {
    const removed = await cleanOrphans(folder, OUTPUT_PARENT, Date.now());
    if (removed > 0) log(`removed ${removed} files and folders of earlier runs`);
  } catch (error) {
    throw new Refused(`what earlier runs left in ${folder} can't be removed (${faultOf(error)})`);
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

/** Between looks at what the server works on while a graph of the gate's has its time. */
const LOOK_MS = 1_000;

/**
 * Resolves when a prompt has had its time, or `over` is aborted. The time that others' prompts take before it is not counted, as
 * long as each of them ends within `others_ms`: a worker that died with one of them would never go on.
 */
async function patience(
  { client, timings }: Pick<GateOptions, "client" | "timings">,
  prompt: { readonly id: string; readonly most_ms: number; readonly others_ms: number },
  over: AbortSignal,
): Promise<void> {
  let other: string | undefined;
  let since = performance.now();
  while (!over.aborted) {
    await pause(Math.min(LOOK_MS, timings.queue_ms), over);
    const running = (await client.queue().catch(() => undefined))?.running ?? [];
    const now = running.find((id) => id !== prompt.id);
    if (now !== other) since = performance.now();
    other = now;
    if (performance.now() - since > (other === undefined ? prompt.most_ms : prompt.others_ms)) return;
  }
}

/** Why a graph of the gate's has no entry in the history. */
function missing(
  ending: Exclude<Ending, { how: "entry" }>,
  { what, most_ms, stopped }: { readonly what: string; readonly most_ms: number; readonly stopped: boolean },
): Refused {
  switch (ending.how) {
    case "gone":
      return new Gone(`its process went away in the middle of ${what}`);
    case "vanished":
      return new Refused(
        stopped
          ? `${what} did not end in ${most_ms / 1000} s`
          : `it lost ${what}: it was restarted, or its queue cleared`,
      );
    case "silent":
      return new Refused(`${what} did not end in ${most_ms / 1000} s, and can't be stopped`);
  }
}

/** Executes a graph of the operator's own; rejects with the reason where it does not succeed in time. */
async function execute(text: string, what: string, ready: ReadyServer, most_ms: number, options: GateOptions) {
  const { client, folder, timings, signal } = options;
  const { info, abilities } = ready;
  const names = runNames(randomBytes(16).toString("hex"));
  const planned = planGraph(text, info, new Set(info.keys()), { ownFiles: true });
  if (!planned.ok) throw new Refused(`${what} can't run: ${planned.error.message}`);
  const own_id = randomUUID();
  const bell = new Bell();
  const over = new AbortController();
  const stop = new AbortController();
  let heard = performance.now();
  const giveUp = (): void => {
    heard = performance.now();
    stop.abort();
    bell.ring();
  };
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
  let ended = false;
  let prompt_id: string = own_id;
  try {
    const submitted = await client.submit(writeGraph(planned.plan, info, names, new Map()), {
      prompt_id: own_id,
      client_id: own_id,
    });
    ended = !submitted.ok;
    if (!submitted.ok) throw new Refused(`it does not accept ${what} (status ${submitted.status})`);
    prompt_id = submitted.prompt_id;
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    const time = { id: prompt_id, most_ms, others_ms: Math.max(most_ms, timings.warm_up_ms) };
    void patience(options, time, over.signal).then(() => over.signal.aborted || giveUp());
    const ending = await follow({
      client,
      prompt_id,
      abilities,
      signal: stop.signal,
      bell,
      // Its patience bounds it, and once it is to stop, its silence.
      heard: () => (stop.signal.aborted ? heard : performance.now()),
      timings: { ...timings, stall_ms: timings.last_stop_ms },
    });
    over.abort();
    const stopped = stop.signal.aborted;
    ended = ending.how !== "silent";
    if (ending.how !== "entry") throw missing(ending, { what, most_ms, stopped });
    entry = ending.entry;
    const last = entry.messages.at(-1)?.data;
    if (!entry.succeeded) {
      const said = typeof last?.exception_message === "string" ? last.exception_message.trim() : "";
      if (said !== "") throw new Refused(`${what} failed: ${said.slice(0, MAX_SAID)}`);
      throw new Refused(stopped ? `${what} did not end in ${most_ms / 1000} s` : `somebody interrupted ${what}`);
    }
  } finally {
    over.abort();
    signal.removeEventListener("abort", giveUp);
    await socket.close();
    // An answer that was lost leaves a prompt that may have been taken.
    if (!ended) await cancelPrompt(client, prompt_id, abilities).catch(() => {});
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
    throw new Refused("pictures are to be without metadata, so it must be started with --disable-metadata");
  const info = readObjectInfo(await client.objectInfo());
  if (!info) throw new Refused("it lists no node classes");
  const max_upload = (await client.maxUpload()) ?? DEFAULT_MAX_UPLOAD;
  const ready: ReadyServer = { version, abilities: abilitiesOf(version), info, devices, max_upload };
  if (folder !== undefined) await proveFolder(client, folder);
  await removeOrphans(options);
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
    if (error instanceof Refused) return { ok: false, reason: error.message, gone: error instanceof Gone };
    if (!(error instanceof Unreachable)) throw error;
    const { gone, message } = error;
    return {
      ok: false,
      reason: gone ? "nothing listens at its address" : `it does not answer well (${message})`,
      gone,
    };
  }
}
