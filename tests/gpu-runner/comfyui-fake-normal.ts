import { type Json, type JsonObject, isObject } from "../fakes/comfyui/python-json.ts";

/*
 * What is made equal before a recording and the fake are compared, and nothing else:
 * - ids that the server made: the recorded one is put in place of the fake's (the replay pairs them); the random letters and the number in the names of temporary files;
 * - times (`TIMES`), the date of a file and its ETag, the length and the bytes of bodies that are not text;
 * - lists that are Python sets on the server, whose order is random there (`SETS`, and the outputs in a queue item);
 * - tracebacks, the text of tensors, and the server's folder in messages;
 * - where a test says so: steps of progress between the first and the last of a node (which of them are told is a matter
 *   of time), and when `status` messages come between others and how often the same one is repeated, where prompts overlap.
 */

const TIMES = ["timestamp", "create_time", "execution_start_time", "execution_end_time"];
const SETS = ["executed", "current_outputs", "dependent_outputs", "cycle_nodes"];
const HEADERS = [
  "content-type",
  "content-disposition",
  "accept-ranges",
  "x-content-type-options",
  "allow",
  "vary",
  "cache-control",
];
const PRESENT = ["etag", "last-modified"];

const sorted = (list: readonly Json[]): Json[] => [...list].sort((a, b) => (String(a) < String(b) ? -1 : 1));

const isQueueItem = (value: readonly Json[]): boolean =>
  value.length === 5 && typeof value[0] === "number" && isObject(value[2]) && Array.isArray(value[4]);

export interface World {
  /** The folder of the fake's files, and what the recorder's was called. */
  readonly folder: string;
  /** The recorded id or name for one of the fake's. */
  readonly names: ReadonlyMap<string, string>;
}

export function normal(value: Json, world: World, key = ""): Json {
  if (typeof value === "string") return normalText(value, world);
  if (TIMES.includes(key) && typeof value === "number") return "a time";
  if (key === "traceback" && Array.isArray(value)) return value.length > 0 ? "a traceback" : value;
  if (Array.isArray(value)) {
    const list = value.map((member) => normal(member, world));
    if (isQueueItem(value)) return [...list.slice(0, 4), sorted(list[4] as Json[])];
    return SETS.includes(key) ? sorted(list) : list;
  }
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, member]) => {
    const renamed = world.names.get(name) ?? name;
    const isCachedList = name === "nodes" && Array.isArray(member);
    return [renamed, isCachedList ? sorted(member) : normal(member, world, name)];
  });
  return Object.fromEntries(members) as JsonObject;
}

function normalText(text: string, { folder, names }: World): string {
  if (text.startsWith("tensor(")) return "a tensor";
  return (names.get(text) ?? text)
    .replaceAll(folder, "ComfyUI")
    .replaceAll(/ComfyUI_temp_[a-z]{5}_\d{5}_/g, "ComfyUI_temp_name");
}

export function normalHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
  names: World,
): JsonObject {
  const kept: JsonObject = {};
  for (const name of HEADERS) {
    const value = headers[name];
    if (value !== undefined) kept[name] = normalText(String(value), names);
  }
  for (const name of PRESENT) kept[name] = headers[name] !== undefined;
  const range = headers["content-range"];
  if (range !== undefined) kept["content-range"] = String(range).replace(/\/\d+$/, "/length");
  return kept;
}

/** A message of a socket, as far as it is compared. */
export interface SeenMessage {
  readonly type: string;
  readonly data: Json;
}

const isBetween = (node: Json | undefined): boolean =>
  isObject(node) && Number(node.value) > 1 && Number(node.value) < Number(node.max);

/** Steps of a node, told by `progress_state` and `progress`, without those between the first and the last. */
export function withoutMiddleSteps(messages: readonly SeenMessage[]): SeenMessage[] {
  const isPreview = (at: number): boolean => messages[at]?.type.startsWith("PREVIEW") === true;
  return messages.filter(({ type, data }, at) => {
    if (!isObject(data) || isPreview(at - 1) || isPreview(at + 1) || isPreview(at + 2)) return true;
    if (type === "progress") return !isBetween(data);
    return type !== "progress_state" || !Object.values(isObject(data.nodes) ? data.nodes : {}).some(isBetween);
  });
}

/** All but `status`. */
export const aboutPrompts = (messages: readonly SeenMessage[]): SeenMessage[] =>
  messages.filter(({ type }) => type !== "status");

/** The messages about prompts, and by themselves the changes that `status` told, or only the last of them. */
export function statusApart(messages: readonly SeenMessage[], onlyLast: boolean): readonly SeenMessage[] {
  const statuses = messages.filter(({ type }) => type === "status");
  const changes = statuses.filter(
    (status, index) => JSON.stringify(statuses[index - 1]?.data) !== JSON.stringify(status.data),
  );
  return [...aboutPrompts(messages), ...(onlyLast ? changes.slice(-1) : changes)];
}
