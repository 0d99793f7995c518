import type { Json, JsonObject } from "./python-json.ts";

export type Link = readonly [node: string, slot: number];

export interface GraphNode {
  readonly class_type: string;
  readonly inputs: JsonObject;
}

export type Graph = Readonly<Record<string, GraphNode>>;

/** Whether ComfyUI's executor takes the value for a link; validation takes every list for one. */
export const isLink = (value: Json | undefined): value is [string, number] =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === "string" && typeof value[1] === "number";
