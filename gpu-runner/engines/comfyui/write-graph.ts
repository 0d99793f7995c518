import { isOutputName } from "./file-inputs.ts";
import type { ObjectInfo } from "./object-info.ts";
import type { GraphPlan } from "./plan.ts";
import { harmlessPrefix } from "../output-prefix.ts";

/** What makes the files of one run its own. */
export interface RunNames {
  /** Random; stands in every name that the run makes on the server. */
  readonly run: string;
  /** The folder below the server's output folder that its files go to. */
  readonly folder: string;
}

/** Stands before every name that a runner makes on a server. */
export const OUTPUT_PARENT = "darkroom";

export const runNames = (run: string): RunNames => ({ run, folder: `${OUTPUT_PARENT}/${run}` });

/** Names who submitted a prompt: a runner, over its restarts, and one run. No two runs share one. */
export const clientId = (owner: string, run: string): string => `${OUTPUT_PARENT}-${owner}-${run}`;

/** Whether a prompt is one of this runner's. */
export const isOwnClient = (client_id: string, owner: string): boolean =>
  client_id.startsWith(`${OUTPUT_PARENT}-${owner}-`);

/** The input that no class knows: it changes the key under which ComfyUI would find an earlier run's files again. */
const RUN_INPUT = "darkroom_run";

export const fileKey = (node_id: string, field: string): string => `${node_id}\0${field}`;

/**
 * The graph as the server gets it, as JSON text: files by the names under which they were uploaded, output names in the run's
 * own folder, and in each output node an input of its own, so that no run is given the files of an earlier one.
 * @param uploaded name on the server, by `fileKey`
 */
export function writeGraph(
  plan: GraphPlan,
  info: ObjectInfo,
  names: RunNames,
  uploaded: ReadonlyMap<string, string>,
): string {
  const prefix = (value: unknown): string =>
    `${names.folder}/${harmlessPrefix(typeof value === "string" ? value : "")}`;
  const nodes = [...plan.nodes].map(([id, { class_type, inputs }]) => {
    const written = new Map<string, unknown>(inputs);
    for (const [field, value] of inputs) if (isOutputName(class_type, field)) written.set(field, prefix(value));
    for (const [field, { required }] of info.get(class_type)?.inputs ?? []) {
      const isAbsent = !required && !field.includes(".") && !inputs.has(field);
      if (isAbsent && isOutputName(class_type, field)) written.set(field, prefix(undefined));
      const file = uploaded.get(fileKey(id, field));
      if (file !== undefined) written.set(field, file);
    }
    if (plan.outputs.has(id)) written.set(RUN_INPUT, names.run);
    return [id, { class_type, inputs: Object.fromEntries(written) }] as const;
  });
  return JSON.stringify(Object.fromEntries(nodes));
}
