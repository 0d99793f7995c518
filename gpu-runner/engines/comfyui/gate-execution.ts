import { randomBytes, randomUUID } from "node:crypto";
import { reasonOf } from "../../log.ts";
import { pause } from "../../pause.ts";
import { Bell } from "./bell.ts";
import { cancelPrompt } from "./cancel.ts";
import { clean } from "./cleaning.ts";
import type { HistoryEntry } from "./client.ts";
import { type Ending, follow } from "./follow.ts";
import type { GateOptions, ReadyServer } from "./ready-server.ts";
import { Gone, Misconfigured, Refused } from "./gate-refusal.ts";
import { isObject, type Json } from "./json.ts";
import type { ObjectInfo } from "./object-info.ts";
import { filesIn } from "./outputs.ts";
import { planGraph } from "./plan.ts";
import { openSocket } from "./socket.ts";
import { clientId, runNames, writeGraph } from "./write-graph.ts";

/** The graphs that the gate itself executes on a server. */

/** ComfyUI's words for a failure may be pages; the operator's line has room for their beginning. */
const MAX_SAID = 300;

/** A picture of 16 pixels that is made, shown and forgotten. */
const TRIALS = [
  { shows: "PreviewAny", input: "source" },
  { shows: "PreviewImage", input: "images" },
  { shows: "SaveImage", input: "images" },
] as const;

export function trialGraph(info: ObjectInfo): string | undefined {
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
    case "unreadable":
      return new Refused(`${what} shows more text than the runner reads`);
    case "silent":
      return new Refused(`${what} did not end in ${most_ms / 1000} s, and can't be stopped`);
  }
}

/** What the server says of a graph that it refuses, for the operator whose graph it is: the first fault, with its details. */
function wordsOf({ error, node_errors }: Json): string {
  const first = isObject(node_errors) ? Object.entries(node_errors)[0] : undefined;
  const [id, node] = first ?? [];
  const errors = isObject(node) && Array.isArray(node.errors) ? node.errors : [];
  const fault: unknown = errors[0] ?? error;
  if (!isObject(fault)) return "";
  const words = [fault.message, fault.details].filter((part) => typeof part === "string" && part !== "").join(": ");
  return `: ${id === undefined ? "" : `node ${id}: `}${words}`.slice(0, MAX_SAID);
}

/** Executes a graph of the operator's own; rejects with the reason where it does not succeed in time. */
export async function execute(text: string, what: string, ready: ReadyServer, most_ms: number, options: GateOptions) {
  const { client, folder, timings, signal } = options;
  const { info, abilities } = ready;
  const names = runNames(randomBytes(16).toString("hex"));
  const planned = planGraph(text, info, new Set(info.keys()), { ownFiles: true });
  if (!planned.ok) throw new Misconfigured(`${what} can't run: ${planned.error.message}`);
  const own_id = randomUUID();
  const client_id = clientId(options.owner, own_id);
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
    client_id,
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
      client_id,
    });
    ended = !submitted.ok;
    if (!submitted.ok)
      throw new Misconfigured(`it does not accept ${what} (status ${submitted.status}${wordsOf(submitted.body)})`);
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
