import type { EnginePreview } from "../../engine.ts";
import { isObject, type Json, parseLenient } from "./json.ts";

/** A message of the server's socket, as far as the engine looks at it. */
export type Message =
  | { readonly type: "cached"; readonly prompt_id: string; readonly nodes: readonly string[] }
  | { readonly type: "started"; readonly prompt_id: string }
  /** A node has begun. After a reconnect it comes without the prompt. */
  | { readonly type: "executing"; readonly prompt_id?: string; readonly node: string; readonly display: string }
  | {
      readonly type: "step";
      readonly prompt_id: string;
      readonly node: string;
      readonly value: number;
      readonly max: number;
    }
  | { readonly type: "state"; readonly prompt_id: string; readonly nodes: readonly NodeState[] }
  /** Perhaps the end: only the history knows. */
  | { readonly type: "ending"; readonly prompt_id: string }
  | { readonly type: "preview"; readonly prompt_id?: string; readonly preview: EnginePreview }
  /** Of this prompt, and of no further meaning here: an output, a message of a custom node. */
  | { readonly type: "other"; readonly prompt_id?: string };

export interface NodeState {
  readonly id: string;
  /** The node of the submitted graph; of a node that a sub-graph made, the one that it belongs to. */
  readonly display: string;
  readonly finished: boolean;
  readonly value: number;
  readonly max: number;
}

const ENDINGS = new Set(["execution_success", "execution_error", "execution_interrupted"]);

const isText = (value: unknown): value is string => typeof value === "string";
const finite = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

const statesOf = (nodes: Json): readonly NodeState[] =>
  Object.entries(nodes).flatMap(([id, node]) =>
    isObject(node)
      ? [
          {
            id,
            display: isText(node.display_node_id) ? node.display_node_id : id,
            finished: node.state === "finished",
            value: finite(node.value),
            max: finite(node.max),
          },
        ]
      : [],
  );

/** Reads a text frame; undefined for what concerns no prompt. Unknown types of a prompt are signs of its life. */
export function readMessage(text: string): Message | undefined {
  const message = parseLenient(text);
  if (!isObject(message) || !isText(message.type) || !isObject(message.data)) return undefined;
  const { type, data } = message;
  const { prompt_id, node } = data;
  if (type === "executing" && isText(node)) {
    const display = isText(data.display_node) ? data.display_node : node;
    return { type: "executing", node, display, ...(isText(prompt_id) ? { prompt_id } : {}) };
  }
  if (!isText(prompt_id)) return undefined;
  if (ENDINGS.has(type) || (type === "executing" && node === null)) return { type: "ending", prompt_id };
  if (type === "execution_start") return { type: "started", prompt_id };
  if (type === "execution_cached") {
    return { type: "cached", prompt_id, nodes: Array.isArray(data.nodes) ? data.nodes.filter(isText) : [] };
  }
  if (type === "progress" && isText(node))
    return { type: "step", prompt_id, node, value: finite(data.value), max: finite(data.max) };
  if (type === "progress_state" && isObject(data.nodes))
    return { type: "state", prompt_id, nodes: statesOf(data.nodes) };
  return { type: "other", prompt_id };
}

const PREVIEW = 1;
const PREVIEW_WITH_METADATA = 4;
const JPEG = 1;
const PNG = 2;

/** Reads a binary frame: a preview, with the ids of its node where the server sends them. Undefined for any other kind. */
export function readFrame(frame: Uint8Array): Message | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  if (frame.length < 8) return undefined;
  const kind = view.getUint32(0);
  const second = view.getUint32(4);
  if (kind === PREVIEW && (second === JPEG || second === PNG)) {
    const content_type = second === PNG ? "image/png" : "image/jpeg";
    return { type: "preview", preview: { content_type, bytes: frame.subarray(8) } };
  }
  if (kind !== PREVIEW_WITH_METADATA || frame.length < 8 + second) return undefined;
  const metadata = parseLenient(Buffer.from(frame.subarray(8, 8 + second)).toString());
  if (!isObject(metadata)) return undefined;
  const { prompt_id, display_node_id, node_id, image_type } = metadata;
  const node = isText(display_node_id) ? display_node_id : node_id;
  return {
    type: "preview",
    ...(isText(prompt_id) ? { prompt_id } : {}),
    preview: {
      content_type: image_type === "image/png" ? "image/png" : "image/jpeg",
      bytes: frame.subarray(8 + second),
      ...(isText(node) ? { node_id: node } : {}),
    },
  };
}
