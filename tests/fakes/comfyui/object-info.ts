import { readFileSync } from "node:fs";
import type { Json, JsonObject } from "./python-json.ts";

export type InputSpec = readonly [type: string | readonly Json[], options?: JsonObject];
export type Inputs = Readonly<Record<string, InputSpec>>;

/** One class of `/object_info`. */
export interface ObjectInfo {
  readonly input: {
    readonly required?: Inputs;
    readonly optional?: Inputs;
    readonly hidden?: Readonly<Record<string, Json>>;
  };
  readonly input_order: Readonly<Record<string, readonly string[]>>;
  readonly is_input_list: boolean;
  readonly output: readonly string[];
  readonly output_is_list: readonly boolean[];
  readonly output_name: readonly string[];
  readonly name: string;
  readonly display_name: string;
  readonly description: string;
  readonly python_module: string;
  readonly category: string;
  readonly output_node: boolean;
  readonly [more: string]: unknown;
}

const RECORDED = JSON.parse(readFileSync(new URL("recordings/object-info.json", import.meta.url), "utf8")) as Record<
  string,
  ObjectInfo
>;

/** The entry as a server of version 0.33.0 gave it. */
export function recordedInfo(name: string): ObjectInfo {
  const info = RECORDED[name];
  if (info === undefined) throw new Error(`no entry of ${name} was recorded`);
  return info;
}

export const RECORDED_NAMES: readonly string[] = Object.keys(RECORDED);

export interface Described {
  readonly required?: Inputs;
  readonly optional?: Inputs;
  readonly hidden?: Readonly<Record<string, Json>>;
  readonly output?: readonly string[];
  readonly output_is_list?: readonly boolean[];
  readonly python_module?: string;
  readonly display_name?: string;
  readonly category?: string;
  readonly output_node?: boolean;
}

export const RECORDER_MODULE = "custom_nodes.recorder_nodes";

/** An entry in the shape of classic nodes, for classes of which none was recorded. */
export function describedInfo(name: string, described: Described): ObjectInfo {
  const { required = {}, optional, hidden, output = [] } = described;
  return {
    input: { required, ...(optional === undefined ? {} : { optional }), ...(hidden === undefined ? {} : { hidden }) },
    input_order: {
      required: Object.keys(required),
      ...(optional === undefined ? {} : { optional: Object.keys(optional) }),
      ...(hidden === undefined ? {} : { hidden: Object.keys(hidden) }),
    },
    is_input_list: false,
    output,
    output_is_list: described.output_is_list ?? output.map(() => false),
    output_name: output,
    name,
    display_name: described.display_name ?? name,
    description: "",
    python_module: described.python_module ?? RECORDER_MODULE,
    category: described.category ?? "test",
    output_node: described.output_node ?? false,
    has_intermediate_output: false,
    search_aliases: [],
  };
}
