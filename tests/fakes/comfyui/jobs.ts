import type { Behaviour } from "./behaviour.ts";
import type { Ended, History } from "./history.ts";
import type { PromptQueue, QueueItem } from "./prompt-queue.ts";
import { PythonError } from "./python-error.ts";
import { isObject, type Json, type JsonObject } from "./python-json.ts";
import { json, type Reply } from "./reply.ts";

export interface JobsWorld {
  readonly behaviour: Behaviour;
  readonly queue: PromptQueue;
  readonly history: History;
  /** Interrupts the running prompt. */
  interrupt(): void;
}

const STATUSES = ["pending", "in_progress", "completed", "failed", "cancelled"];
const MODEL_NAMES = /\.(?:glb|gltf|obj|fbx|stl|usdz)$/i;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Kinds of outputs that are no files. */
const NOT_FILES = ["animated", "text"];

/** The `id` of the UI workflow that a prompt was made from. Throws where ComfyUI does. */
function workflowId(extra_data: JsonObject): Json | undefined {
  const pnginfo = "extra_pnginfo" in extra_data ? extra_data.extra_pnginfo : {};
  if (!isObject(pnginfo)) throw new PythonError("AttributeError", "object has no attribute 'get'");
  const workflow = "workflow" in pnginfo ? pnginfo.workflow : {};
  if (!isObject(workflow)) throw new PythonError("AttributeError", "object has no attribute 'get'");
  return workflow.id;
}

const withWorkflow = (extra_data: JsonObject): JsonObject => {
  const id = workflowId(extra_data);
  return id === undefined || id === null ? {} : { workflow_id: id };
};

function waiting(item: QueueItem, status: "pending" | "in_progress"): JsonObject {
  const { prompt_id, number, extra_data } = item;
  return {
    id: prompt_id,
    status,
    priority: number,
    create_time: extra_data.create_time ?? null,
    outputs_count: 0,
    previewable_outputs_count: 0,
    ...withWorkflow(extra_data),
  };
}

/** An output as jobs show it: bare file names of models become files, other nothings go. */
function shown(entry: Json): Json | undefined {
  if (entry === null) return undefined;
  if (typeof entry === "string" && MODEL_NAMES.test(entry)) {
    return { filename: entry, type: "output", subfolder: "", mediaType: "3d" };
  }
  return entry;
}

interface Files {
  readonly outputs: JsonObject;
  readonly files: readonly JsonObject[];
}

function filesOf(outputs: Ended["result"]["outputs"]): Files {
  const normal: JsonObject = {};
  const files: JsonObject[] = [];
  for (const [nodeId, ui] of outputs) {
    const kinds: JsonObject = {};
    for (const [kind, entries] of Object.entries(ui)) {
      const list = entries.map(shown).filter((entry) => entry !== undefined);
      kinds[kind] = list;
      if (NOT_FILES.includes(kind)) continue;
      for (const entry of list) if (isObject(entry)) files.push({ mediaType: kind, ...entry, nodeId });
    }
    normal[nodeId] = kinds;
  }
  return { outputs: normal, files };
}

function statusOf({ result }: Ended, { cancelledStatus }: Behaviour): string {
  if (result.status.completed) return "completed";
  const last = result.status.messages.at(-1);
  const isCancelled = Array.isArray(last) && last[0] === "execution_interrupted";
  return isCancelled && cancelledStatus ? "cancelled" : "failed";
}

function time(messages: readonly Json[], types: readonly string[]): Json {
  const found = messages.findLast((message) => Array.isArray(message) && types.includes(String(message[0])));
  const data = Array.isArray(found) ? found[1] : undefined;
  return isObject(data) ? (data.timestamp ?? null) : null;
}

function ended(of: Ended, behaviour: Behaviour, isWhole: boolean): JsonObject {
  const { item, result } = of;
  const { messages } = result.status;
  const { outputs, files } = filesOf(result.outputs);
  const preview = files.find((file) => file.type === "output") ?? files[0];
  const error = messages.find((message) => Array.isArray(message) && message[0] === "execution_error");
  const ends = ["execution_success", "execution_error", "execution_interrupted"];
  return {
    id: item.prompt_id,
    status: statusOf(of, behaviour),
    priority: item.number,
    create_time: item.extra_data.create_time ?? null,
    execution_start_time: time(messages, ["execution_start"]),
    execution_end_time: time(messages, ends),
    ...(Array.isArray(error) ? { execution_error: error[1] ?? null } : {}),
    outputs_count: files.length,
    previewable_outputs_count: files.length,
    ...(preview === undefined ? {} : { preview_output: preview }),
    ...withWorkflow(item.extra_data),
    ...(isWhole
      ? {
          outputs,
          execution_status: { ...result.status },
          workflow: { prompt: item.graph as unknown as JsonObject, extra_data: item.extra_data },
        }
      : {}),
  };
}

function all({ behaviour, queue, history }: JobsWorld): JsonObject[] {
  return [
    ...(queue.running === undefined ? [] : [waiting(queue.running, "in_progress")]),
    ...queue.pending.map((item) => waiting(item, "pending")),
    ...history.entries.map((entry) => ended(entry, behaviour, false)),
  ];
}

export function job(world: JobsWorld, prompt_id: string): Reply {
  // Every job is looked at, so one of bad extra_data spoils the answer for all.
  all(world);
  const { behaviour, queue, history } = world;
  if (queue.running?.prompt_id === prompt_id) return json(waiting(queue.running, "in_progress"));
  const pending = queue.pending.find((item) => item.prompt_id === prompt_id);
  if (pending !== undefined) return json(waiting(pending, "pending"));
  const entry = history.get(prompt_id);
  return entry === undefined ? json({ error: "Job not found" }, 404) : json(ended(entry, behaviour, true));
}

const refuse = (error: string): Reply => json({ error }, 400);

function positive(query: URLSearchParams, name: string, least: number): number | undefined | Reply {
  const given = query.get(name);
  if (given === null) return undefined;
  const value = Number(given);
  const what = least === 0 ? "a non-negative integer" : "a positive integer";
  return Number.isInteger(value) && value >= least ? value : refuse(`${name} must be ${what}`);
}

const duration = (job: JsonObject): number =>
  Number(job.execution_end_time ?? 0) - Number(job.execution_start_time ?? 0);

export function jobs(world: JobsWorld, query: URLSearchParams): Reply {
  const statuses = query.get("status")?.split(",") ?? [];
  const unknown = statuses.filter((status) => !STATUSES.includes(status));
  if (unknown.length > 0) {
    return refuse(`Invalid status value(s): ${unknown.join(", ")}. Valid values: ${STATUSES.join(", ")}`);
  }
  const by = query.get("sort_by") ?? "created_at";
  if (by !== "created_at" && by !== "execution_duration") {
    return refuse("sort_by must be 'created_at' or 'execution_duration'");
  }
  const order = query.get("sort_order") ?? "desc";
  if (order !== "asc" && order !== "desc") return refuse("sort_order must be 'asc' or 'desc'");
  const limit = positive(query, "limit", 1);
  if (typeof limit === "object") return limit;
  const offset = positive(query, "offset", 0) ?? 0;
  if (typeof offset === "object") return offset;
  const workflow = query.get("workflow_id");
  const key = (one: JsonObject) => (by === "created_at" ? Number(one.create_time) : duration(one));
  const found = all(world)
    .filter(({ status }) => statuses.length === 0 || statuses.includes(String(status)))
    .filter(({ workflow_id }) => workflow === null || workflow_id === workflow)
    .sort((a, b) => (order === "asc" ? key(a) - key(b) : key(b) - key(a)));
  const page = found.slice(offset, limit === undefined ? undefined : offset + limit);
  const has_more = offset + page.length < found.length;
  return json({ jobs: page, pagination: { offset, limit: limit ?? null, total: found.length, has_more } });
}

/** A pending prompt is taken out, a running one interrupted. */
function cancelOne({ queue, interrupt }: JobsWorld, prompt_id: string): boolean {
  if (queue.delete(prompt_id)) return true;
  if (queue.running?.prompt_id !== prompt_id) return false;
  interrupt();
  return true;
}

export const cancel = (world: JobsWorld, prompt_id: string): Reply => json({ cancelled: cancelOne(world, prompt_id) });

export function cancelMany(world: JobsWorld, body: Json): Reply {
  const ids = isObject(body) ? body.job_ids : undefined;
  if (!Array.isArray(ids)) return refuse("job_ids must be a list");
  const invalid_ids = ids.filter((id) => typeof id !== "string" || !UUID.test(id));
  if (invalid_ids.length > 0) return json({ error: "job_ids contains invalid id(s)", invalid_ids }, 400);
  const cancelled = ids.map((id) => cancelOne(world, String(id))).some(Boolean);
  return json({ cancelled });
}
